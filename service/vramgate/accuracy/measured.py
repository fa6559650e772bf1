"""Estimates against measured runs: errors by layer, method and source; bounds; who ran out of memory."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from vramgate.accuracy.cases import Kind, Layer, LengthIs, MeasuredCase
from vramgate.accuracy.figures import (
    SHORT,
    ErrorFigures,
    Share,
    error_figures,
    relative_error,
    share,
)
from vramgate.accuracy.predictions import LayerBytes, NoPrediction, Prediction, predict
from vramgate.catalog.site import Catalogs

_REPOSITORY = re.compile(r"^([\w.-]+/[\w.-]+)@|github\.com/([\w.-]+/[\w.-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One measured run and a prediction of it, ours or a peer's."""

    id: str
    source: str
    """The repository the measurement comes from."""
    method: str
    kind: Kind
    layer: Layer
    length_is: LengthIs
    tier: str
    revision: str
    """Of a benchmark with several revisions: latest or earlier; only where there is one."""
    measured_bytes: int | None
    measured_device_bytes: int | None
    predicted: LayerBytes
    usable_bytes: int | None
    error_fraction: float | None
    """On the layer that was measured; None where only the outcome is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEstimated:
    """A measured run without an estimate."""

    id: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFigures:
    """What the runs say of the predictions. Rows whose length is only a bound enter no error."""

    exact: ErrorFigures
    exact_by_layer: dict[str, ErrorFigures]
    exact_by_method: dict[str, ErrorFigures]
    exact_by_source: dict[str, ErrorFigures]
    exact_by_tier: dict[str, ErrorFigures]
    exact_by_revision: dict[str, ErrorFigures]
    device_beside_allocated: ErrorFigures
    """The card's figure, of the runs that state it beside their allocated peak."""
    mean_of_source_medians_fraction: float | None
    bound: Share
    """At the bounding length, the prediction is at least 95 % of the measurement."""
    bound_by_source: dict[str, Share]
    out_of_memory: Share
    """Runs that ran out of memory: required bytes above the card's usable ones."""
    ran: Share
    """Runs that lived, measured or not: required bytes at most the usable ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredReport:
    """All measured runs: figures, what could not be estimated and why, row by row."""

    rows: int
    figures: MeasuredFigures
    not_estimated: tuple[NotEstimated, ...]
    cases: tuple[CaseResult, ...]


def measured_report(cases: Sequence[MeasuredCase], catalogs: Catalogs) -> MeasuredReport:
    """Return how near the estimates of measured runs are, without calibration."""
    outcomes = [_outcome(case, catalogs) for case in cases]
    results = tuple(one for one in outcomes if isinstance(one, CaseResult))
    return MeasuredReport(
        rows=len(cases),
        figures=measured_figures(results),
        not_estimated=tuple(one for one in outcomes if isinstance(one, NotEstimated)),
        cases=results,
    )


def measured_figures(results: Sequence[CaseResult]) -> MeasuredFigures:
    """Return the figures of predictions, whoever made them."""
    exact = [one for one in results if one.length_is is LengthIs.EXACT]
    bound = [one for one in results if one.length_is is LengthIs.BOUND]
    by_source = _figures_by(exact, lambda one: one.source)
    medians = [figures.median_error_fraction for figures in by_source.values()]
    return MeasuredFigures(
        exact=error_figures(_errors(exact)),
        exact_by_layer=_figures_by(exact, lambda one: one.layer.value),
        exact_by_method=_figures_by(exact, lambda one: one.method),
        exact_by_source=by_source,
        exact_by_tier=_figures_by(exact, lambda one: one.tier),
        exact_by_revision=_figures_by(exact, lambda one: one.revision),
        device_beside_allocated=error_figures([*_device_errors(exact)]),
        mean_of_source_medians_fraction=(
            fmean(median for median in medians if median is not None) if medians else None
        ),
        bound=_covers(bound),
        bound_by_source={
            source: _covers(one for one in bound if one.source == source)
            for source in sorted({one.source for one in bound})
        },
        out_of_memory=share(not fits for fits in _fits(results, {Kind.OOM})),
        ran=share(_fits(results, {Kind.FITS, Kind.MEASURED})),
    )


def repository(source: str) -> str:
    """Return the repository that a row's source names, or the source itself.

    >>> repository("pytorch/ao@docs/source/workflows/training.md")
    'pytorch/ao'
    """
    found = _REPOSITORY.search(source)
    return (found[1] or found[2]) if found else source


def error_on(layer: Layer, measured_bytes: int | None, predicted: LayerBytes) -> float | None:
    """Return predicted / measured - 1 on the layer that was measured."""
    if measured_bytes is None:
        return None
    return relative_error(predicted.as_reported(layer), measured_bytes)


def _outcome(case: MeasuredCase, catalogs: Catalogs) -> CaseResult | NotEstimated:
    prediction = predict(case.job, catalogs)
    source = repository(case.source)
    if isinstance(prediction, NoPrediction):
        return NotEstimated(id=case.id, source=source, reason=prediction.reason)
    return case_result(case, prediction)


def case_result(case: MeasuredCase, prediction: Prediction) -> CaseResult:
    """Return a run beside its prediction."""
    return CaseResult(
        id=case.id,
        source=repository(case.source),
        method=prediction.method,
        kind=case.kind,
        layer=case.layer,
        length_is=case.length_is,
        tier=case.tier,
        revision={None: "only", True: "latest", False: "earlier"}[case.latest],
        measured_bytes=case.peak_bytes,
        measured_device_bytes=case.device_bytes,
        predicted=prediction.layers,
        usable_bytes=prediction.usable_bytes,
        error_fraction=error_on(case.layer, case.peak_bytes, prediction.layers),
    )


def _figures_by(
    results: Sequence[CaseResult], key: Callable[[CaseResult], str]
) -> dict[str, ErrorFigures]:
    """Return the figures of each group that has an error at all, by name."""
    measured = [one for one in results if one.error_fraction is not None]
    names = sorted({key(one) for one in measured})
    return {
        name: error_figures(_errors(one for one in measured if key(one) == name)) for name in names
    }


def _errors(results: Iterable[CaseResult]) -> list[float]:
    return [one.error_fraction for one in results if one.error_fraction is not None]


def _device_errors(results: Iterable[CaseResult]) -> Iterable[float]:
    for one in results:
        error = error_on(Layer.DEVICE, one.measured_device_bytes, one.predicted)
        if error is not None:
            yield error


def _covers(results: Iterable[CaseResult]) -> Share:
    return share(error >= -SHORT for error in _errors(results))


def _fits(results: Iterable[CaseResult], kinds: set[Kind]) -> Iterable[bool]:
    """Yield, for the runs of these kinds on a known card, whether the prediction fits it."""
    for one in results:
        if one.kind in kinds and one.usable_bytes is not None:
            yield one.predicted.required_bytes <= one.usable_bytes
