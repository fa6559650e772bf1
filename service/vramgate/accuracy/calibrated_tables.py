"""The tables of calibrated estimates: fits that have not seen a row, beside the model alone."""

from collections.abc import Callable

from vramgate.accuracy.figures import Share
from vramgate.accuracy.measured import MeasuredFigures
from vramgate.accuracy.report import CalibratedReport
from vramgate.accuracy.tables import ERROR_HEADERS, NOTHING, TextTable, error_rows, percent

_QUESTIONS: tuple[tuple[str, Callable[[MeasuredFigures], Share]], ...] = (
    (
        "ran out of memory: required bytes above the card’s usable bytes",
        lambda one: one.out_of_memory,
    ),
    (
        "ran (measured or known to fit): required bytes at most the usable bytes",
        lambda one: one.ran,
    ),
)


def calibrated_tables(report: CalibratedReport) -> list[TextTable]:
    """Return the errors, the one-sided questions, and how often the bound held."""
    return [_errors(report), _one_sided(report)]


def _errors(report: CalibratedReport) -> TextTable:
    figures = {
        "without calibration": report.uncalibrated.exact,
        "out of fold": report.out_of_fold.exact,
        "whole sources left out": report.out_of_source.exact,
    }
    return TextTable(
        title="By fits that have not seen the row",
        headers=("estimates", *ERROR_HEADERS),
        rows=error_rows(figures),
        note="Five folds: rows of one source and model are left out together; then all rows of a source. "
        "The model without calibration is no stranger to these rows: it was built on them.",
    )


def _one_sided(report: CalibratedReport) -> TextTable:
    rows = []
    for question, share_of in _QUESTIONS:
        shares = [
            share_of(one) for one in (report.uncalibrated, report.out_of_fold, report.out_of_source)
        ]
        if shares[0].n:
            rows.append((question, f"{shares[0].n}", *(percent(one.fraction) for one in shares)))
    covered = report.covered
    if covered.n:
        question = "allocated at most the bound that is exceeded with a probability of 5 %"
        rows.append((question, f"{covered.n}", NOTHING, percent(covered.fraction), NOTHING))
    return TextTable(
        title="One-sided questions, by the same fits",
        headers=(
            "question",
            "rows",
            "without calibration",
            "out of fold",
            "whole sources left out",
        ),
        rows=tuple(rows),
    )
