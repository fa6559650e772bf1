"""How a run ended, by what its ranks reported. Quarantined reports say nothing of it."""

from dataclasses import dataclass
from functools import cache

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.calibration.report import Outcome, Standing
from vramgate.persistence.tables import report_keys

BY_WEIGHT = (Outcome.RUNNING, Outcome.KILLED, Outcome.COMPLETED, Outcome.OOM)
"""Of several ranks' outcomes the one that stands last here is the run's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What the accepted reports of a run say together."""

    outcome: Outcome | None
    """None where there is no accepted report."""
    reports: int


async def outcome_of_run(
    connection: AsyncConnection, *, tenant: str, run_id: str | None
) -> RunOutcome:
    """Return how a run of the tenant's ended; None is no run, of which nothing is known."""
    row = (await connection.execute(_of_run(), {"tenant": tenant, "run_id": run_id})).one()
    return RunOutcome(
        outcome=None if row.weight is None else BY_WEIGHT[row.weight], reports=row.reports
    )


def is_accepted() -> sa.ColumnElement[bool]:
    """Return whether a report counts."""
    return report_keys.c.status == sa.literal(Standing.ACCEPTED.value, literal_execute=True)


def weight_of_run() -> sa.sql.functions.max[int]:
    """Return the place in ``BY_WEIGHT`` of the outcome of a group of reports."""
    places = {outcome.value: place for place, outcome in enumerate(BY_WEIGHT)}
    return sa.func.max(sa.case(places, value=report_keys.c.outcome))


@cache
def _of_run() -> sa.Executable:
    return sa.select(weight_of_run().label("weight"), sa.func.count().label("reports")).where(
        report_keys.c.tenant == sa.bindparam("tenant"),
        report_keys.c.run_id == sa.bindparam("run_id", type_=sa.Text),
        is_accepted(),
    )
