"""Decisions counted by week, verdict and what became of the jobs: one statement for the shadow report."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.shadow import Counted, Fate, start_of
from vramgate.calibration.report import Outcome
from vramgate.persistence.run_outcomes import BY_WEIGHT, is_accepted, weight_of_run
from vramgate.persistence.tables import decision_runs, decisions, report_keys

_FATES = {Outcome.COMPLETED: Fate.RAN, Outcome.OOM: Fate.RAN_OUT_OF_MEMORY}
"""Of a run that was killed, or still runs, nobody knows whether its memory would have sufficed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSelection:
    """Which decisions of one tenant are counted; None leaves a field open."""

    tenant: str
    queue: str | None = None
    channel: Channel | None = None
    cluster: str | None = None


async def count_by_week(
    connection: AsyncConnection, chosen: ShadowSelection, mondays: Sequence[date]
) -> list[Counted]:
    """Count the decisions made in the weeks that begin on these days, which follow each other."""
    query = counting(chosen, mondays, connection.dialect)
    return [
        Counted(
            monday=date.fromisoformat(str(row["monday"])),
            mode=Mode(row["mode"]),
            verdict=Verdict(row["verdict"]),
            is_refused=bool(row["is_refused"]),
            fate=_fate(row["weight"], has_reports=row["has_reports"]),
            count=row["number"],
        )
        for row in (await connection.execute(query)).mappings()
    ]


def counting(chosen: ShadowSelection, mondays: Sequence[date], dialect: Dialect) -> sa.Select[Any]:
    """Return the statement behind ``count_by_week``."""
    since, until = start_of(mondays[0]), start_of(mondays[-1] + timedelta(weeks=1))
    runs = (
        # A run reports under a decision after it was made, and never before.
        sa.select(
            decision_runs.c.decision_id,
            weight_of_run().filter(is_accepted()).label("weight"),
        )
        .join(
            report_keys,
            sa.and_(
                report_keys.c.tenant == decision_runs.c.tenant,
                report_keys.c.run_id == decision_runs.c.run_id,
            ),
        )
        .where(decision_runs.c.tenant == chosen.tenant, decision_runs.c.bound_at >= since)
        .group_by(decision_runs.c.decision_id)
        .subquery("runs")
    )
    is_refused = decisions.c.decision == Verdict.DENY.value
    alike = (
        _monday(dialect).label("monday"),
        decisions.c.mode,
        decisions.c.verdict,
        is_refused.label("is_refused"),
        runs.c.weight,
        runs.c.decision_id.is_not(None).label("has_reports"),
    )
    query: sa.Select[Any] = (
        sa.select(*alike, sa.func.count().label("number"))
        .select_from(sa.outerjoin(decisions, runs, runs.c.decision_id == decisions.c.decision_id))
        .where(decisions.c.tenant == chosen.tenant)
        .where(decisions.c.decided_at >= since, decisions.c.decided_at < until)
        .group_by(*alike)
    )
    for name in ("queue", "channel", "cluster"):
        value = getattr(chosen, name)
        if value is not None:
            query = query.where(decisions.c[name] == value)
    return query


def _monday(dialect: Dialect) -> sa.ColumnElement[Any]:
    """Return the first day of the ISO week that a decision was made in."""
    if dialect.name == "postgresql":
        # Connections are in UTC.
        return sa.cast(sa.func.date_trunc("week", decisions.c.decided_at), sa.Date)
    # Of the text only the day: SQLite rounds the last half millisecond of a week into the next.
    day = sa.func.substr(sa.type_coerce(decisions.c.decided_at, sa.Text), 1, 10)
    return sa.func.date(day, "weekday 0", "-6 days", type_=sa.Text)


def _fate(weight: int | None, *, has_reports: bool) -> Fate:
    if weight is not None:
        return _FATES.get(BY_WEIGHT[weight], Fate.UNKNOWN)
    return Fate.QUARANTINED if has_reports else Fate.UNKNOWN
