"""calibrate: from runs to a calibration, or why there is none."""

from collections.abc import Iterable, Iterator, Sequence

from vramgate.calibration.calibration import LEAST_REPORTS, Calibration, Effect, Remark
from vramgate.calibration.evidence import Layer, Observation, Run, aggregated
from vramgate.calibration.fit import Fit, fit_effects
from vramgate.calibration.held_out import Progress, hold_out
from vramgate.calibration.labels import Label
from vramgate.calibration.margins import required_margins
from vramgate.calibration.problem import ALIKE
from vramgate.calibration.screening import screened
from vramgate.costmodel.coefficients import MODEL_VERSION
from vramgate.errors import DomainError

LEAST_CONFIGURATIONS = 19
"""With fewer, not even a promise of 5 % could be checked: of 19 residuals the largest is exceeded once in 20."""
APART = 0.05
"""How far a tenant's meters lie from everybody else's, on the log scale, before it is said: a gap that nobody's
habits of measuring explain."""
MANY_RUNS = 100
"""Runs of one configuration by one tenant from which on it is said what they count."""
_DIGITS = 4
"""Of logarithms: beyond them a solver's last steps are read."""
_ON_HOLDING_OUT, _ON_FITTING = 0.8, 0.95
"""How much is done after each."""


class TooFewReportsError(DomainError):
    """There is too little to learn from; ``data["configurations"]`` of ``data["least"]`` are there."""

    code = "too_few_reports"


def calibrate(
    runs: Sequence[Run], *, version: str, progress: Progress = lambda _: None
) -> Calibration:
    """Return the calibration that runs make.

    Raises:
        TooFewReportsError: fewer different configurations were measured than any promise needs.
    """
    sifted = screened(aggregated(runs))
    observations = sifted.observations
    _refuse_too_few(observations, sifted.remarks)
    held_out = hold_out(observations, progress=lambda done: progress(_ON_HOLDING_OUT * done))
    fitted = fit_effects(observations)
    progress(_ON_FITTING)
    margins = required_margins(held_out)
    remarks = (*sifted.remarks, *_remarks(observations, fitted, has_margin=bool(margins)))
    progress(1.0)
    return Calibration(
        version=version,
        model_version=MODEL_VERSION,
        runs=len(runs),
        effects=_effects(fitted),
        margins=margins,
        frameworks=measured_frameworks(observations),
        remarks=remarks,
    )


def measured_frameworks(observations: Iterable[Observation]) -> frozenset[str]:
    """Return the frameworks of which somebody measured allocated."""
    return frozenset(
        one.configuration.labels[Label.FRAMEWORK]
        for one in observations
        if Layer.ALLOCATED in one.measured
    )


def _refuse_too_few(observations: Sequence[Observation], remarks: Sequence[Remark]) -> None:
    measured = len({one.configuration.key for one in observations if one.measured})
    if measured >= LEAST_CONFIGURATIONS:
        return
    runs = sum(one.runs for one in observations)
    found = f"{runs:,} runs measured {measured} different configurations"
    if not measured and any(one.required_above is not None for one in observations):
        found = (
            f"{runs:,} runs say only that they ran out of memory or lived: nobody measured a peak"
        )
    said = "".join(f" {one.message}" for one in remarks)
    raise TooFewReportsError(
        f"{found}; a calibration needs {LEAST_CONFIGURATIONS} measured configurations.{said}",
        hint="Keep the calibration that is active, and let more different jobs report.",
        configurations=measured,
        least=LEAST_CONFIGURATIONS,
    )


def _effects(fitted: Fit) -> tuple[Effect, ...]:
    return tuple(
        Effect(
            key=one.key,
            log=round(one.log, _DIGITS),
            spread=round(one.spread, _DIGITS),
            runs=one.runs,
        )
        for one in sorted(fitted.effects, key=lambda one: one.key)
    )


def _remarks(
    observations: Sequence[Observation], fitted: Fit, *, has_margin: bool
) -> Iterator[Remark]:
    """Yield what a reader of the calibration should know of how its reports were taken."""
    for tenant, offset in sorted(fitted.offsets.items()):
        if abs(offset) > APART:
            yield Remark(
                code="tenant_apart",
                message=f"Readings of tenant {tenant!r} lie {offset:+.3f} (natural logarithm) from "
                "everybody else's; that was taken out of them.",
            )
    most = max(observations, key=lambda one: one.runs)
    if most.runs >= MANY_RUNS:
        weight = most.runs / (1 + ALIKE * (most.runs - 1))
        yield Remark(
            code="repeated_runs",
            message=f"{most.runs:,} runs of one configuration by tenant {most.tenant!r} count as "
            f"{weight:.2f}.",
        )
    if not has_margin:
        yield Remark(
            code="no_margin",
            message=f"A margin needs {LEAST_REPORTS} configurations whose allocated peak was measured; "
            "the folk rule's stays.",
        )
