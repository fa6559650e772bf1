"""What is kept under the keys of reports: all that decides about the next one."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.calibration.report import (
    KeptReport,
    MeasuredBytes,
    Outcome,
    ReportKey,
    Standing,
)
from vramgate.persistence.tables import report_keys

MEASURED = tuple(one.name for one in fields(MeasuredBytes))
"""The columns that hold what was measured."""

_KEY = ("tenant", "run_id", "rank")

Run: TypeAlias = tuple[str, str]
"""A tenant and the id of one of its runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a report lies."""

    received_at: datetime
    position: int


@dataclass(slots=True)
class Known:
    """A report under a key: what decides, and where it lies (None: written by this commit)."""

    kept: KeptReport
    place: Place | None


async def look_up(
    connection: AsyncConnection, keys: Iterable[ReportKey]
) -> tuple[dict[ReportKey, Known], dict[Run, tuple[int, int]]]:
    """Return what is kept under the keys that are taken, and the peaks of their runs.

    The peaks are the lowest and the highest of the settled, accepted ranks of a run.
    """
    known, ranges = {}, {}
    query, given = _look_up(connection.dialect.name), parameters_of(connection, keys, "wanted")
    for row in (await connection.execute(query, given)).mappings():
        key = ReportKey(tenant=row["tenant"], run_id=row["run_id"], rank=row["rank"])
        if row["low"] is not None:
            ranges[key.tenant, key.run_id] = (row["low"], row["high"])
        if row["report_id"] is not None:
            known[key] = _known(row)
    return known, ranges


def _known(row: sa.RowMapping) -> Known:
    return Known(
        kept=KeptReport(
            report_id=row["report_id"],
            digest=row["digest"],
            subject_digest=row["subject_digest"],
            standing=Standing(row["status"]),
            outcome=Outcome(row["outcome"]),
            measured=MeasuredBytes(**{name: row[name] for name in MEASURED}),
        ),
        place=Place(received_at=row["received_at"], position=row["position"]),
    )


@cache
def _look_up(dialect: str) -> sa.Select[Any]:
    """Return the statement, built once: that takes longer than PostgreSQL takes to answer it."""
    wanted = relation(dialect, "wanted")
    runs = sa.select(wanted.c.tenant, wanted.c.run_id).distinct().subquery("runs")
    kept, ranges = _joined(dialect, wanted, runs)
    of_run = sa.and_(ranges.c.tenant == wanted.c.tenant, ranges.c.run_id == wanted.c.run_id)
    shown = [column for column in kept.columns if column.name not in wanted.c]
    return sa.select(*wanted.c, *shown, ranges.c.low, ranges.c.high).select_from(
        sa.outerjoin(
            sa.outerjoin(wanted, kept, _is_same(kept, wanted, *_KEY)),
            ranges,
            of_run,
        )
    )


def _joined(
    dialect: str, wanted: sa.Subquery, runs: sa.Subquery
) -> tuple[sa.FromClause, sa.FromClause]:
    """Return what is kept under the wanted keys, and the lowest and highest peak of each run.

    On PostgreSQL laterally, key by key through the primary key: left to choose, its planner reads
    the whole of a table that has grown since it was last analyzed. SQLite has no such joins, and
    would not.
    """
    peak = report_keys.c.max_allocated_bytes
    settled = (
        report_keys.c.status == Standing.ACCEPTED.value,
        report_keys.c.outcome != Outcome.RUNNING.value,
        peak.is_not(None),
    )
    span = (sa.func.min(peak).label("low"), sa.func.max(peak).label("high"))
    if dialect != "postgresql":
        ranges = (
            sa.select(runs.c.tenant, runs.c.run_id, *span)
            .join(report_keys, _is_same(report_keys, runs, "tenant", "run_id"))
            .where(*settled)
            .group_by(runs.c.tenant, runs.c.run_id)
        )
        return report_keys, ranges.subquery("ranges")
    kept = sa.select(report_keys).where(_is_same(report_keys, wanted, *_KEY)).limit(1)
    of_run = (
        sa.select(*span)
        .where(_is_same(report_keys, runs, "tenant", "run_id"), *settled)
        .lateral("of_run")
    )
    ranges = sa.select(runs.c.tenant, runs.c.run_id, of_run.c.low, of_run.c.high).select_from(
        sa.join(runs, of_run, sa.true())
    )
    return kept.lateral("kept"), ranges.subquery("ranges")


def _is_same(one: sa.FromClause, other: sa.FromClause, *names: str) -> sa.ColumnElement[bool]:
    return sa.and_(*(one.c[name] == other.c[name] for name in names))


def relation(dialect: str, name: str) -> sa.Subquery:
    """Return keys as a relation: one statement, and one plan, however many there are.

    ``parameters_of`` gives its parameters.
    """
    kinds = {"tenant": sa.Text, "run_id": sa.Text, "rank": sa.Integer}
    if dialect == "postgresql":
        arrays: list[sa.BindParameter[Any]] = [
            sa.bindparam(f"{name}_{part}", type_=sa.ARRAY(kinds[part])) for part in kinds
        ]
        rows = (
            sa.func.unnest(*arrays)
            .table_valued(*(sa.column(part, kind) for part, kind in kinds.items()))
            .render_derived()
        )
        return sa.select(*rows.c).subquery(name)
    value = sa.func.json_each(sa.bindparam(name, type_=sa.Text)).table_valued("value").c.value
    return sa.select(
        *(
            sa.func.json_extract(value, f"$[{index}]", type_=kind()).label(part)
            for index, (part, kind) in enumerate(kinds.items())
        )
    ).subquery(name)


def parameters_of(
    connection: AsyncConnection, keys: Iterable[ReportKey], name: str
) -> dict[str, Any]:
    """Return the parameters of ``relation`` for the keys."""
    given = [(one.tenant, one.run_id, one.rank) for one in keys]
    if connection.dialect.name == "postgresql":
        tenants, runs, ranks = map(list, zip(*given, strict=True)) if given else ([], [], [])
        return {f"{name}_tenant": tenants, f"{name}_run_id": runs, f"{name}_rank": ranks}
    return {name: json.dumps(given)}
