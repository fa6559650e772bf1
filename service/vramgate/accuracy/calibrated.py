"""How near calibrated estimates come to measured runs that their calibration has not seen."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from vramgate.accuracy.cases import MeasuredCase
from vramgate.accuracy.factory import runs_of
from vramgate.accuracy.figures import share
from vramgate.accuracy.measured import (
    CaseResult,
    error_on,
    measured_figures,
    measured_report,
    repository,
)
from vramgate.accuracy.predictions import LayerBytes
from vramgate.accuracy.report import CalibratedReport
from vramgate.calibration.arrays import REQUIRED
from vramgate.calibration.calibrate import measured_frameworks
from vramgate.calibration.calibration import Calibration
from vramgate.calibration.evidence import Layer, Run, aggregated
from vramgate.calibration.held_out import HeldOut, Progress, hold_out
from vramgate.calibration.margins import allocated_margins
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.coefficients import MODEL_VERSION

RISK = 0.05
"""Of the bound whose coverage is told."""


def calibrated_report(
    cases: Sequence[MeasuredCase], catalogs: Catalogs, *, progress: Progress = lambda _: None
) -> CalibratedReport:
    """Return how near calibrated estimates come to rows their calibration has not seen."""
    alone = {one.id: one for one in measured_report(cases, catalogs).cases}
    runs = [(case, run) for case, run in runs_of(cases, catalogs) if case.id in alone]
    by_model = hold_out(
        aggregated(run for _, run in runs), progress=lambda done: progress(done / 2)
    )
    by_source = hold_out(
        aggregated(_of_source(case, run) for case, run in runs),
        progress=lambda done: progress((1 + done) / 2),
    )
    return CalibratedReport(
        uncalibrated=measured_figures(list(alone.values())),
        out_of_fold=measured_figures(_results(by_model, cases, alone)),
        out_of_source=measured_figures(_results(by_source, cases, alone)),
        covered=share(_are_covered(by_model)),
    )


def _of_source(case: MeasuredCase, run: Run) -> Run:
    """Return the run in a group with all others of its source."""
    return replace(run, configuration=replace(run.configuration, group=repository(case.source)))


def _results(
    held_out: Sequence[HeldOut], cases: Sequence[MeasuredCase], alone: Mapping[str, CaseResult]
) -> list[CaseResult]:
    """Return the rows with what the fit that left them out says of them."""
    said = {one.observation.configuration.key: one.predicted for one in held_out}
    found = []
    for case in cases:
        if case.id in said:
            layers = said[case.id]
            predicted = LayerBytes(
                allocated_bytes=round(layers[Layer.ALLOCATED]),
                required_bytes=round(layers[REQUIRED]),
                reserved_bytes=round(layers[Layer.RESERVED]),
                device_bytes=round(layers[Layer.DEVICE]),
            )
            error = error_on(case.layer, case.peak_bytes, predicted)
            found.append(replace(alone[case.id], predicted=predicted, error_fraction=error))
    return found


def _are_covered(held_out: Sequence[HeldOut]) -> Iterator[bool]:
    """Yield of each allocated peak whether the margin of the other folds' residuals covers it."""
    for fold in sorted({one.fold for one in held_out}):
        others = [one for one in held_out if one.fold != fold]
        calibration = Calibration(
            version="",
            model_version=MODEL_VERSION,
            runs=len(others),
            effects=(),
            margins=allocated_margins(others),
            frameworks=measured_frameworks(one.observation for one in others),
        )
        for one in held_out:
            if one.fold == fold and one.allocated_residual is not None:
                margin = calibration.margin_for(one.observation.configuration.labels)
                yield one.allocated_residual <= margin.distribution.quantile(RISK)
