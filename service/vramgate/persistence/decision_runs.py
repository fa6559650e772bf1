"""Which run reports under a decision: the first that did, and no other.

Whoever writes reports holds ``commit_clock``, so that what is read here does not change before the
commit, and what is bound is bound once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Self, TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.calibration.report import Report
from vramgate.errors import DomainError, FieldError
from vramgate.persistence.bulk_insert import insert_rows
from vramgate.persistence.tables import decision_runs

Decision: TypeAlias = tuple[str, str]
"""A tenant and the id of one of its decisions."""


class OtherRunError(DomainError):
    """Another run reports under the decision; nothing of this one is taken."""

    code = "other_run"


@dataclass(slots=True)
class RunsOfDecisions:
    """Which runs report under the decisions of some reports, while these are written."""

    bound: dict[Decision, str]
    new: dict[Decision, str] = field(default_factory=dict)
    """Those of them that this transaction binds."""

    @classmethod
    async def of(cls, connection: AsyncConnection, reports: Iterable[Report]) -> Self:
        """Read what is bound already."""
        decisions = [one for one in map(_decision_of, reports) if one is not None]
        return cls(await bound_runs(connection, decisions))

    def refusal_of(self, report: Report) -> OtherRunError | None:
        """Return why the report's decision stands against it; None where it does not."""
        decision = _decision_of(report)
        bound = None if decision is None else self.bound.get(decision)
        if bound is None or bound == report.key.run_id:
            return None
        name = report.key.run_id
        detail = f"run {bound!r} reports under decision {report.decision_id}; {name!r} is another"
        return OtherRunError(
            f"/run_id: {detail}. Nothing of it was taken.",
            hint="An admission is for one run. Report a second one with its job, not with the "
            "decision or the decision's token.",
            fields=[FieldError(pointer="/run_id", code="other_run", detail=detail, value=name)],
        )

    def bind(self, report: Report) -> None:
        """Let the report's run be the one under its decision, unless it is already."""
        decision = _decision_of(report)
        if decision is not None and decision not in self.bound:
            self.bound[decision] = self.new[decision] = report.key.run_id

    async def write(self, connection: AsyncConnection, at: datetime) -> None:
        """Write what was bound."""
        rows = [
            {"tenant": tenant, "decision_id": decision_id, "run_id": run_id, "bound_at": at}
            for (tenant, decision_id), run_id in self.new.items()
        ]
        await bind_runs(connection, rows)


async def bound_runs(
    connection: AsyncConnection, wanted: Iterable[Decision]
) -> dict[Decision, str]:
    """Return the runs that report under the decisions, of those that have one."""
    given = sorted(set(wanted))
    if not given:
        return {}
    if connection.dialect.name == "postgresql":
        tenants, decisions = map(list, zip(*given, strict=True))
        parameters: dict[str, Any] = {"tenants": tenants, "decisions": decisions}
    else:
        parameters = {"wanted": json.dumps(given)}
    rows = await connection.execute(_bound(connection.dialect.name), parameters)
    return {(row.tenant, row.decision_id): row.run_id for row in rows}


async def bind_runs(connection: AsyncConnection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Bind decisions that have no run yet, by rows of the table."""
    await insert_rows(connection, {decision_runs: rows})


def run_of(*, tenant: str, decision_id: str) -> sa.ScalarSelect[Any]:
    """Return the run under a decision as a part of another statement; NULL where there is none."""
    return (
        sa.select(decision_runs.c.run_id)
        .where(decision_runs.c.tenant == tenant, decision_runs.c.decision_id == decision_id)
        .scalar_subquery()
    )


def _decision_of(report: Report) -> Decision | None:
    return None if report.decision_id is None else (report.key.tenant, report.decision_id)


@cache
def _bound(dialect: str) -> sa.Select[Any]:
    runs = decision_runs.c
    if dialect != "postgresql":
        value = sa.func.json_each(sa.bindparam("wanted", type_=sa.Text)).table_valued("value").c
        tenant, decision_id = (
            sa.func.json_extract(value.value, f"$[{index}]", type_=sa.Text()) for index in range(2)
        )
        return sa.select(runs.tenant, runs.decision_id, runs.run_id).where(
            runs.tenant == tenant, runs.decision_id == decision_id
        )
    wanted = (
        sa.func.unnest(
            sa.bindparam("tenants", type_=sa.ARRAY(sa.Text)),
            sa.bindparam("decisions", type_=sa.ARRAY(sa.Text)),
        )
        .table_valued(
            sa.column("tenant", sa.Text), sa.column("decision_id", sa.Text), name="wanted"
        )
        .render_derived()
    )
    # Key by key through the primary key, however the table has grown since it was last analyzed.
    bound = (
        sa.select(runs.run_id)
        .where(runs.tenant == wanted.c.tenant, runs.decision_id == wanted.c.decision_id)
        .limit(1)
        .lateral("bound")
    )
    return sa.select(wanted.c.tenant, wanted.c.decision_id, bound.c.run_id).select_from(
        sa.join(wanted, bound, sa.true())
    )
