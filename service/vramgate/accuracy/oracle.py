"""Estimates against exact traces: the peak, its phase, what a block saves; by family."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vramgate.accuracy.cases import OracleRow
from vramgate.accuracy.figures import relative_error, share
from vramgate.accuracy.predictions import NoPrediction, Prediction, predict
from vramgate.catalog.site import Catalogs

NEAR = 0.01
FAIR = 0.03
SAVED_NEAR = 0.005
ANOTHER_MODEL = 0.1
"""How far trainable parameters differ where a row's job is not the one that was traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleResult:
    """One trace and the estimate of its job."""

    id: str
    family: str
    peak_bytes: int
    estimated_peak_bytes: int
    error_fraction: float
    peak_phase: str
    estimated_peak_phase: str
    saved_bytes_per_block: int | None
    estimated_saved_bytes_per_block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCovered:
    """A trace that the figures leave out: no estimate, or one stated to be an approximation."""

    id: str
    family: str
    reason: str
    error_fraction: float | None
    """Of the approximation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleFigures:
    """How near the estimates of covered traces are; None where there are none."""

    rows: int
    covered: int
    within_1_percent_fraction: float | None
    within_3_percent_fraction: float | None
    phase_right_fraction: float | None
    saved_per_block_within_half_percent_fraction: float | None
    """Of the traces that state it: those of one kind of block."""
    largest_error_fraction: float | None
    """The absolute error of the farthest row."""
    within_1_percent_of_all_rows_fraction: float | None
    """The same with rows not covered counted as missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleReport:
    """All traces: figures, what is left out and why, row by row."""

    overall: OracleFigures
    by_family: dict[str, OracleFigures]
    not_covered: tuple[NotCovered, ...]
    rows: tuple[OracleResult, ...]


def oracle_report(rows: Sequence[OracleRow], catalogs: Catalogs) -> OracleReport:
    """Return how near the estimates of the traced jobs are."""
    outcomes = [_outcome(row, catalogs) for row in rows]
    results = tuple(one for one in outcomes if isinstance(one, OracleResult))
    not_covered = tuple(one for one in outcomes if isinstance(one, NotCovered))
    return OracleReport(
        overall=oracle_figures(results, not_covered),
        by_family={
            family: oracle_figures(
                [one for one in results if one.family == family],
                [one for one in not_covered if one.family == family],
            )
            for family in sorted({row.family for row in rows})
        },
        not_covered=not_covered,
        rows=results,
    )


def oracle_figures(
    results: Sequence[OracleResult], not_covered: Sequence[NotCovered]
) -> OracleFigures:
    """Return the figures of one group of traces."""
    errors = [abs(result.error_fraction) for result in results]
    near = share(error <= NEAR for error in errors)
    rows = len(results) + len(not_covered)
    return OracleFigures(
        rows=rows,
        covered=len(results),
        within_1_percent_fraction=near.fraction,
        within_3_percent_fraction=share(error <= FAIR for error in errors).fraction,
        phase_right_fraction=share(
            result.peak_phase == result.estimated_peak_phase for result in results
        ).fraction,
        saved_per_block_within_half_percent_fraction=share(_saved_near(results)).fraction,
        largest_error_fraction=max(errors, default=None),
        within_1_percent_of_all_rows_fraction=near.met / rows if rows else None,
    )


def _contradiction(row: OracleRow, prediction: Prediction) -> str:
    """Return what is wrong with a row whose job trains far more or fewer parameters than the trace did."""
    traced, said = row.trainable_parameters, prediction.trainable_parameters
    if traced is None or abs(said - traced) <= ANOTHER_MODEL * traced:
        return ""
    return (
        f"The row contradicts itself: {traced:,} parameters were traced, its job trains {said:,}."
    )


def _saved_near(results: Iterable[OracleResult]) -> Iterable[bool]:
    for result in results:
        exact = result.saved_bytes_per_block
        if exact is not None:
            yield abs(result.estimated_saved_bytes_per_block - exact) <= SAVED_NEAR * exact


def _outcome(row: OracleRow, catalogs: Catalogs) -> OracleResult | NotCovered:
    prediction = predict(row.job, catalogs)
    if isinstance(prediction, NoPrediction):
        return NotCovered(
            id=row.id, family=row.family, reason=prediction.reason, error_fraction=None
        )
    estimated = prediction.layers.allocated_bytes
    error = relative_error(estimated, row.peak_bytes)
    reason = " ".join(prediction.stated_limits) or _contradiction(row, prediction)
    if reason:
        return NotCovered(id=row.id, family=row.family, reason=reason, error_fraction=error)
    return OracleResult(
        id=row.id,
        family=row.family,
        peak_bytes=row.peak_bytes,
        estimated_peak_bytes=estimated,
        error_fraction=error,
        peak_phase=row.peak_phase,
        estimated_peak_phase=prediction.phase,
        saved_bytes_per_block=row.saved_bytes_per_block,
        estimated_saved_bytes_per_block=prediction.saved_bytes_per_block,
    )
