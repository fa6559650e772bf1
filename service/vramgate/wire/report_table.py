"""Kept reports as a table: one flat row each, for spreadsheets and data frames."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TypeAlias

from vramgate.calibration.stored_report import StoredReport

Cell: TypeAlias = str | int | float | datetime | None


class Kind(Enum):
    """What a column holds."""

    TEXT = auto()
    INTEGER = auto()
    NUMBER = auto()
    MOMENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name, its kind, and its cell in a report's row."""

    name: str
    kind: Kind
    cell: Callable[[StoredReport], Cell]


_MEASURED = ("max_allocated_bytes", "max_reserved_bytes", "device_used_bytes", "context_bytes")
_ESTIMATED = ("allocated_bytes", "required_bytes", "reserved_bytes", "device_bytes")
_LAYERS = ("allocated", "reserved", "device")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def _field(name: str, kind: Kind) -> Column:
    return Column(name=name, kind=kind, cell=lambda report: getattr(report, name))


def _measured(name: str) -> Column:
    return Column(name=name, kind=Kind.INTEGER, cell=lambda report: getattr(report.measured, name))


def _estimated(name: str, kind: Kind, *, shown_as: str) -> Column:
    return Column(
        name=shown_as,
        kind=kind,
        cell=lambda report: None if report.estimate is None else getattr(report.estimate, name),
    )


def _relative_error(layer: str) -> Column:
    def cell(report: StoredReport) -> float | None:
        residual = report.residuals.get(layer)
        return None if residual is None else residual.relative_error

    return Column(name=f"{layer}_relative_error", kind=Kind.NUMBER, cell=cell)


COLUMNS: tuple[Column, ...] = (
    _field("report_id", Kind.TEXT),
    _field("run_id", Kind.TEXT),
    _field("rank", Kind.INTEGER),
    Column(name="status", kind=Kind.TEXT, cell=lambda report: report.status.value),
    Column(
        name="reasons",
        kind=Kind.TEXT,
        cell=lambda report: _json([asdict(one) for one in report.reasons]),
    ),
    _field("received_at", Kind.MOMENT),
    _field("first_received_at", Kind.MOMENT),
    _field("measured_at", Kind.MOMENT),
    _field("submitter", Kind.TEXT),
    Column(name="outcome", kind=Kind.TEXT, cell=lambda report: report.outcome.value),
    _field("model", Kind.TEXT),
    _field("job_digest", Kind.TEXT),
    _field("accelerator", Kind.TEXT),
    _field("accelerator_total_bytes", Kind.INTEGER),
    *(_measured(name) for name in _MEASURED),
    *(_estimated(name, Kind.INTEGER, shown_as=f"estimated_{name}") for name in _ESTIMATED),
    _estimated("model_version", Kind.TEXT, shown_as="model_version"),
    *(_relative_error(layer) for layer in _LAYERS),
    _field("step_seconds", Kind.NUMBER),
    _field("tokens_per_second", Kind.NUMBER),
    Column(name="labels", kind=Kind.TEXT, cell=lambda report: _json(report.labels)),
)
"""Lists and objects (``reasons``, ``labels``) are JSON."""


def csv_header() -> str:
    """Return the first line of the table as CSV."""
    return _csv([[column.name for column in COLUMNS]])


def csv_lines(reports: Iterable[StoredReport]) -> str:
    """Return the reports as lines of CSV (RFC 4180), one each."""
    return _csv([_in_csv(column, column.cell(one)) for column in COLUMNS] for one in reports)


def columns_of(reports: Iterable[StoredReport]) -> dict[str, list[Cell]]:
    """Return the reports column by column, under the names in ``COLUMNS``."""
    given = list(reports)
    return {column.name: [column.cell(one) for one in given] for column in COLUMNS}


def safe_text(text: str) -> str:
    """Return the text so that no spreadsheet takes it for a formula.

    A text that begins as formulas do (``= + - @``, tab, carriage return), also behind apostrophes,
    gets an apostrophe before it, which spreadsheets take for "this is text". A program that reads
    the CSV takes one off such texts again. Parquet holds every text as it is.

    >>> safe_text("=HYPERLINK(1)"), safe_text("run-1"), safe_text("'-1")
    ("'=HYPERLINK(1)", 'run-1', "''-1")
    """
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA_STARTS) else text


def _csv(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def _in_csv(column: Column, cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return safe_text(str(cell)) if column.kind is Kind.TEXT else str(cell)


def _json(value: Mapping[str, str] | list[dict[str, str]]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
