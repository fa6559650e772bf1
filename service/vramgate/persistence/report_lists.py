"""Kept reports read: page by page in the order of their last change, or one whole.

Writers take turns (``commit_clock``), so places become visible in their own order: who goes on from
the last place seen misses nothing that commits later.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.calibration.report import Doubt, EstimatedBytes, MeasuredBytes, Outcome, Standing
from vramgate.calibration.stored_report import StoredReport, WholeReport
from vramgate.persistence.decision_runs import run_of
from vramgate.persistence.report_keys import MEASURED, Place
from vramgate.persistence.tables import commit_clock, jobs, report_keys, reports

SEARCHED_ROWS = 50_000
"""A few tenths of a second: no question may take the database for itself."""

_ESTIMATED = {
    "allocated_bytes": "estimated_allocated_bytes",
    "required_bytes": "estimated_required_bytes",
    "reserved_bytes": "estimated_reserved_bytes",
    "device_bytes": "estimated_device_bytes",
    "model_version": "model_version",
}
_PLAIN = (
    "report_id", "run_id", "rank", "received_at", "position", "first_received_at", "measured_at",
    "submitter", "model", "job_digest", "accelerator", "accelerator_total_bytes", "step_seconds",
    "tokens_per_second",
)  # fmt: skip
"""Columns that are fields of ``StoredReport`` as they are."""
_COLUMNS = tuple(
    reports.c[name] for name in (*_PLAIN, "status", "outcome", "reasons", *MEASURED)
) + tuple(reports.c[name] for name in _ESTIMATED.values())


class Order(StrEnum):
    """Which reports come first: the ones that changed longest ago, or last."""

    OLDEST = "oldest"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which reports of one tenant are meant; None leaves a field open."""

    tenant: str
    run_id: str | None = None
    decision_id: str | None = None
    """The reports of the run that reports under the decision."""
    rank: int | None = None
    status: Standing | None = None
    outcome: Outcome | None = None
    submitter: str | None = None
    model: str | None = None
    accelerator: str | None = None
    since: datetime | None = None
    """Received at this moment or later."""
    until: datetime | None = None
    """Received before this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of all reports, in the order it is read."""

    order: Order = Order.OLDEST
    after: Place | None = None
    """It begins behind this place, as the order runs."""
    last: Place | None = None
    """The last place that belongs to it, as the order runs."""
    limit: int
    """How many reports are wanted of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """The first reports of a selection in a stretch."""

    reports: list[StoredReport]
    searched_to: Place | None
    """Where the search stopped though less than what was wanted had been found; None where it did
    not stop."""


async def select_reports(
    connection: AsyncConnection, chosen: Selection, stretch: Stretch
) -> Portion:
    """Return the first ``limit`` reports of the selection that lie in the stretch.

    Where no index knows which those are, ``SEARCHED_ROWS`` are looked through and no more: the
    answer may hold less than what is there, and says where to go on.
    """
    horizon = None
    if not _is_of_a_run(chosen) and any(True for _ in _without_an_index(chosen)):
        horizon = await _horizon(connection, chosen, stretch)
    near = stretch if horizon is None else replace(stretch, last=horizon)
    query = selecting(chosen, near, connection.dialect)
    rows = (await connection.execute(query)).mappings()
    found = [StoredReport(**_fields(row)) for row in rows]
    return Portion(reports=found, searched_to=horizon if len(found) < stretch.limit else None)


def selecting(chosen: Selection, stretch: Stretch, dialect: Dialect) -> sa.Select[Any]:
    """Return the statement behind ``select_reports``."""
    query = sa.select(*_COLUMNS, _labels(dialect).label("labels"))
    if not _is_of_a_run(chosen):
        query = query.where(*_of_the_selection(chosen, reports), *_within(stretch, reports))
    else:
        run = _places_of_the_run(chosen, stretch)
        query = query.join(
            run,
            sa.and_(
                reports.c.received_at == run.c.received_at, reports.c.position == run.c.position
            ),
        ).where(*_beside_the_keys(chosen))
    return query.where(reports.c.tenant == chosen.tenant).order_by(
        *_in_order(stretch, reports)
    ).limit(stretch.limit)  # fmt: skip


async def whole_report(
    connection: AsyncConnection, *, tenant: str, report_id: str
) -> WholeReport | None:
    """Return a tenant's report with what was sent; None where the tenant has none of this id."""
    keys = report_keys.c
    query = (
        sa.select(
            *_COLUMNS,
            _labels(connection.dialect).label("labels"),
            reports.c.document,
            jobs.c.document.label("job"),
        )
        .select_from(report_keys)
        .join(
            reports,
            sa.and_(reports.c.received_at == keys.received_at, reports.c.position == keys.position),
        )
        .outerjoin(
            jobs,
            sa.and_(jobs.c.tenant == reports.c.tenant, jobs.c.job_digest == reports.c.job_digest),
        )
        .where(keys.report_id == report_id, keys.tenant == tenant, reports.c.tenant == tenant)
    )
    row = (await connection.execute(query)).mappings().one_or_none()
    if row is None:
        return None
    job = None if row["job"] is None else json.loads(row["job"])
    return WholeReport(**_fields(row), document=json.loads(row["document"]), job=job)


def place_of(report: StoredReport) -> Place:
    """Return where the report lies."""
    return Place(received_at=report.received_at, position=report.position)


async def last_place(connection: AsyncConnection) -> Place:
    """Return the place up to which everything is visible now."""
    row = (await connection.execute(sa.select(commit_clock))).one()
    return Place(received_at=row.received_at, position=row.position)


async def _horizon(
    connection: AsyncConnection, chosen: Selection, stretch: Stretch
) -> Place | None:
    """Return the place of the last of ``SEARCHED_ROWS`` rows; None where there are not so many.

    Read from the index alone.
    """
    query = (
        sa.select(reports.c.received_at, reports.c.position)
        .where(reports.c.tenant == chosen.tenant)
        .where(*_within_times(chosen, reports), *_within(stretch, reports))
        .order_by(*_in_order(stretch, reports))
        .offset(SEARCHED_ROWS - 1)
        .limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else Place(received_at=row.received_at, position=row.position)


def _places_of_the_run(chosen: Selection, stretch: Stretch) -> sa.CTE:
    """Return where the run's reports lie, by the keys: of a tenant's millions only these are read."""
    query = sa.select(report_keys.c.received_at, report_keys.c.position).where(
        *_of_the_run(chosen),
        *_of_the_selection(chosen, report_keys),
        *_within(stretch, report_keys),
    )
    if not any(True for _ in _beside_the_keys(chosen)):
        # A run has up to a million ranks; a page needs no more of them than it shows.
        query = query.order_by(*_in_order(stretch, report_keys)).limit(stretch.limit)
    # Materialized: the planner knows nothing of how few of the tenant's rows a run has.
    return query.cte("run").prefix_with("MATERIALIZED")


def _is_of_a_run(chosen: Selection) -> bool:
    return chosen.run_id is not None or chosen.decision_id is not None


def _of_the_run(chosen: Selection) -> Iterator[sa.ColumnElement[bool]]:
    if chosen.run_id is not None:
        yield report_keys.c.run_id == chosen.run_id
    if chosen.decision_id is not None:
        bound = run_of(tenant=chosen.tenant, decision_id=chosen.decision_id)
        yield report_keys.c.run_id == bound


def _of_the_selection(chosen: Selection, table: sa.Table) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what the rows must meet, as far as the table tells."""
    yield table.c.tenant == chosen.tenant
    yield from _within_times(chosen, table)
    yield from _of_the_keys(chosen, table)
    if table is reports:
        yield from _beside_the_keys(chosen)


def _within_times(chosen: Selection, table: sa.Table) -> Iterator[sa.ColumnElement[bool]]:
    if chosen.since is not None:
        yield table.c.received_at >= chosen.since
    if chosen.until is not None:
        yield table.c.received_at < chosen.until


def _without_an_index(chosen: Selection) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what can only be told by reading the rows; quarantined ones have an index."""
    is_indexed = chosen.status is Standing.QUARANTINED
    yield from _of_the_keys(replace(chosen, status=None) if is_indexed else chosen, reports)
    yield from _beside_the_keys(chosen)


def _of_the_keys(chosen: Selection, table: sa.Table) -> Iterator[sa.ColumnElement[bool]]:
    for name in ("rank", "status", "outcome"):
        value = getattr(chosen, name)
        if value is not None:
            # Written into the statement: an index of quarantined rows helps no unknown status.
            yield table.c[name] == sa.literal(value, literal_execute=name == "status")


def _beside_the_keys(chosen: Selection) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what the rows must meet and their keys do not tell."""
    for name in ("submitter", "model", "accelerator"):
        value = getattr(chosen, name)
        if value is not None:
            yield reports.c[name] == value


def _within(stretch: Stretch, table: sa.Table) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the bounds; the time alone as well, by which PostgreSQL leaves partitions out."""
    moment = table.c.received_at
    place = sa.tuple_(moment, table.c.position)
    if stretch.after is not None:
        behind = (stretch.after.received_at, stretch.after.position)
        if stretch.order is Order.OLDEST:
            yield sa.and_(moment >= stretch.after.received_at, place > behind)
        else:
            yield sa.and_(moment <= stretch.after.received_at, place < behind)
    if stretch.last is not None:
        last = (stretch.last.received_at, stretch.last.position)
        if stretch.order is Order.OLDEST:
            yield sa.and_(moment <= stretch.last.received_at, place <= last)
        else:
            yield sa.and_(moment >= stretch.last.received_at, place >= last)


def _in_order(stretch: Stretch, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
    columns = (table.c.received_at, table.c.position)
    if stretch.order is Order.OLDEST:
        return columns
    return tuple(one.desc() for one in columns)


def _labels(dialect: Dialect) -> sa.ColumnElement[str | None]:
    """Return the labels out of the document, which may be a thousand times as long."""
    if dialect.name == "postgresql":
        document = sa.cast(reports.c.document, sa.JSON)
        return sa.cast(sa.func.json_extract_path(document, "labels"), sa.Text)
    return sa.func.json_extract(reports.c.document, "$.labels", type_=sa.Text())


def _fields(row: sa.RowMapping) -> dict[str, Any]:
    """Return a row as the fields of a ``StoredReport``."""
    has_estimate = row["estimated_allocated_bytes"] is not None
    return {
        **{name: row[name] for name in _PLAIN},
        "status": Standing(row["status"]),
        "outcome": Outcome(row["outcome"]),
        "reasons": tuple(Doubt(**one) for one in json.loads(row["reasons"])),
        "measured": MeasuredBytes(**{name: row[name] for name in MEASURED}),
        "estimate": EstimatedBytes(**{ours: row[name] for ours, name in _ESTIMATED.items()})
        if has_estimate
        else None,
        "labels": json.loads(row["labels"] or "null") or {},
    }
