"""The accuracy report as tables of text: the terminal and the README show the same ones."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vramgate.accuracy.figures import ErrorFigures, Share
from vramgate.accuracy.measured import MeasuredFigures, MeasuredReport
from vramgate.accuracy.oracle import OracleFigures, OracleReport
from vramgate.accuracy.peers import COLUMNS, ERROR_COLUMNS, Column, PeerReport, PeersReport
from vramgate.accuracy.report import AccuracyReport

NOTHING = "–"
LONGEST_REASON = 160

ERROR_HEADERS = (
    "rows",
    "median error",
    "90th percentile",
    "within ±10 %",
    "mean error",
    "under by over 5 %",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table ready to be shown; the first column is text, the others are figures."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    prose_columns: int = 1
    """How many of the first columns are text."""


def accuracy_tables(report: AccuracyReport) -> list[TextTable]:
    """Return every table that the report has rows for."""
    tables: list[TextTable] = []
    if report.oracle is not None:
        tables += _oracle_tables(report.oracle)
    if report.measured is not None:
        tables += _measured_tables(report.measured)
    if report.peers is not None and report.peers.peers:
        tables += _peer_tables(report.peers)
    return [table for table in tables if table.rows]


def percent(fraction: float | None) -> str:
    """Return a fraction for people.

    >>> percent(0.0432), percent(-0.1), percent(None)
    ('4.3 %', '−10.0 %', '–')
    """
    return NOTHING if fraction is None else f"{_number(fraction)} %"


def signed_percent(fraction: float | None) -> str:
    """Return a fraction for people, above zero with its sign too.

    >>> signed_percent(0.0432), signed_percent(-0.1)
    ('+4.3 %', '−10.0 %')
    """
    plus = "+" if fraction is not None and _tenths(fraction) > 0 else ""
    return f"{plus}{percent(fraction)}"


def _oracle_tables(report: OracleReport) -> list[TextTable]:
    groups = {**report.by_family, "all": report.overall}
    return [
        TextTable(
            title="Exact traces: the allocated peak of a step, without calibration",
            headers=(
                "family",
                "traces",
                "covered",
                "peak within 1 %",
                "peak within 3 %",
                "largest error",
                "phase right",
                "saved per block within 0.5 %",
            ),
            rows=tuple(_oracle_row(name, figures) for name, figures in groups.items()),
            note="Shares are of the covered traces; "
            f"{percent(report.overall.within_1_percent_of_all_rows_fraction)} of all traces are "
            "covered and within 1 %.",
        ),
        _reasons(
            "Traces not covered, and why",
            [(one.family, one.reason) for one in report.not_covered],
            first="family",
        ),
    ]


def _oracle_row(name: str, figures: OracleFigures) -> tuple[str, ...]:
    return (
        name,
        f"{figures.rows}",
        f"{figures.covered}",
        percent(figures.within_1_percent_fraction),
        percent(figures.within_3_percent_fraction),
        percent(figures.largest_error_fraction),
        percent(figures.phase_right_fraction),
        percent(figures.saved_per_block_within_half_percent_fraction),
    )


def _measured_tables(report: MeasuredReport) -> list[TextTable]:
    figures = report.figures
    layers = {
        **figures.exact_by_layer,
        "device, beside an allocated peak": figures.device_beside_allocated,
        "all": figures.exact,
    }
    return [
        TextTable(
            title="Measured runs of exact length, by the layer that was measured",
            headers=("layer", *ERROR_HEADERS),
            rows=error_rows(layers),
            note="Where a source does not say which layer it measured, reserved is taken. The "
            "device figures beside an allocated peak are a second reading of those runs, not in all.",
        ),
        TextTable(
            title="By method",
            headers=("method", *ERROR_HEADERS),
            rows=error_rows(figures.exact_by_method),
        ),
        TextTable(
            title="By source",
            headers=("source", *ERROR_HEADERS),
            rows=error_rows(figures.exact_by_source),
            note="Mean of the sources’ medians: "
            f"{percent(figures.mean_of_source_medians_fraction)}.",
        ),
        _one_sided(figures),
        _reasons(
            "Measured runs that could not be estimated, and why",
            [(one.source, one.reason) for one in report.not_estimated],
            first="source",
        ),
    ]


def error_rows(groups: Mapping[str, ErrorFigures]) -> tuple[tuple[str, ...], ...]:
    """Return the figures of each group that has rows, under ``ERROR_HEADERS``."""
    return tuple((name, *_error_cells(figures)) for name, figures in groups.items() if figures.n)


def _error_cells(figures: ErrorFigures) -> tuple[str, ...]:
    return (
        f"{figures.n}",
        percent(figures.median_error_fraction),
        percent(figures.p90_error_fraction),
        percent(figures.within_10_percent_fraction),
        signed_percent(figures.mean_error_fraction),
        percent(figures.under_by_5_percent_fraction),
    )


def _one_sided(figures: MeasuredFigures) -> TextTable:
    asked = {
        "length is only a bound: estimate at the bound at least 95 % of the measurement": (
            figures.bound
        ),
        **{f"– {source}": share for source, share in figures.bound_by_source.items()},
        "ran out of memory: required bytes above the card’s usable bytes": figures.out_of_memory,
        "ran (measured or known to fit): required bytes at most the usable bytes": figures.ran,
    }
    return TextTable(
        title="One-sided questions",
        headers=("question", "rows", "yes", "share"),
        rows=tuple(_share_row(name, share) for name, share in asked.items() if share.n),
    )


def _share_row(name: str, share: Share) -> tuple[str, ...]:
    return name, f"{share.n}", f"{share.met}", percent(share.fraction)


def _peer_tables(report: PeersReport) -> list[TextTable]:
    return [
        _side_by_side(
            report,
            "Other estimators on the same runs of exact length: theirs / ours, in percent",
            COLUMNS[:ERROR_COLUMNS],
            rows_asked=lambda figures: f"{figures.exact.n}",
            note="Ours is on the rows that the peer answers: some know full training only.",
        ),
        _side_by_side(
            report,
            "Other estimators on the one-sided questions: theirs / ours, in percent",
            COLUMNS[ERROR_COLUMNS:],
            rows_asked=lambda figures: (
                f"{figures.bound.n}, {figures.out_of_memory.n}, {figures.ran.n}"
            ),
            note="The rows of each question, in the order of the columns.",
        ),
        TextTable(
            title="The best of them, column by column",
            headers=("column", "best peer", "theirs", "ours on its rows"),
            rows=tuple(
                (column.title, _words(best.peer), percent(best.theirs), percent(best.ours))
                for column in COLUMNS
                if (best := report.best.get(column.name)) is not None
            ),
            note="Of those that answer at least half of the rows. One that over-estimates everything "
            "leads where under-estimates count, and the other way round.",
            prose_columns=2,
        ),
    ]


def _side_by_side(
    report: PeersReport,
    title: str,
    columns: Sequence[Column],
    *,
    rows_asked: Callable[[MeasuredFigures], str],
    note: str = "",
) -> TextTable:
    return TextTable(
        title=title,
        headers=("estimator", "rows", *(column.title for column in columns)),
        rows=tuple(
            (
                _words(peer.peer),
                rows_asked(peer.theirs),
                *(_both(peer, column) for column in columns),
            )
            for peer in report.peers
        ),
        note=note,
    )


def _both(peer: PeerReport, column: Column) -> str:
    theirs, ours = column.value(peer.theirs), column.value(peer.ours)
    return " / ".join(NOTHING if one is None else _number(one) for one in (theirs, ours))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(fraction: float) -> str:
    """Return a fraction in percent; what rounds to zero has no sign."""
    return f"{_tenths(fraction) / 10:.1f}".replace("-", "−")


def _tenths(fraction: float) -> int:
    """Return a fraction in tenths of a percent."""
    return round(fraction * 1000)


def _reasons(title: str, reasons: Sequence[tuple[str, str]], *, first: str) -> TextTable:
    """Return how often each group gives each reason, the most frequent first."""
    return TextTable(
        title=title,
        headers=(first, "reason", "rows"),
        rows=tuple(
            (group, _shortened(reason), f"{count}") for (group, reason), count in _counted(reasons)
        ),
        prose_columns=2,
    )


def _counted(reasons: Iterable[tuple[str, str]]) -> list[tuple[tuple[str, str], int]]:
    return sorted(Counter(reasons).items(), key=lambda item: (-item[1], item[0]))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"
