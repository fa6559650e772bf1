"""Reports deleted for good: found at leisure, deleted in batches, each of them a short turn.

Whoever writes reports waits for a batch, not for a purge. What is deleted leaves a tombstone in the
audit trail of its tenant, written in the transaction that deletes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.calibration.report import ReportKey
from vramgate.persistence import audit
from vramgate.persistence.report_keys import Place, parameters_of, relation
from vramgate.persistence.report_lists import last_place
from vramgate.persistence.reports import take_turn
from vramgate.persistence.tables import idempotency_keys, jobs, report_keys, reports

SEARCH_SECONDS = 3600
"""How long a search may take: it holds nobody up, and reads every row of the largest table."""

_FOUND = ("tenant", "run_id", "rank", "received_at", "position")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """Which reports or decisions are to go; None leaves a field open, and one is given."""

    tenant: str | None = None
    submitter: str | None = None
    """The name of a token; of decisions also who sent the job to the scheduler."""
    run_id: str | None = None
    before: datetime | None = None
    """Reports last changed, decisions made before this moment."""

    @property
    def is_by_age_alone(self) -> bool:
        """Whether those of every tenant go, the old ones."""
        return self.tenant is None and self.submitter is None and self.run_id is None

    def told(self) -> dict[str, str]:
        """Return what was asked for, as the audit trail holds it."""
        given = {
            "submitter": self.submitter,
            "run_id": self.run_id,
            "before": None if self.before is None else self.before.isoformat(),
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A report that is to go, and where it lay when it was looked for."""

    key: ReportKey
    place: Place


async def count(connection: AsyncConnection, doomed: Doomed) -> dict[str, int]:
    """Return how many reports of each tenant would go now."""
    await allow_long_search(connection)
    rows = _rows(doomed)
    query = sa.select(rows.c.tenant, sa.func.count()).group_by(rows.c.tenant)
    counted = await connection.execute(query.order_by(rows.c.tenant))
    return {row[0]: row[1] for row in counted}


async def find(
    connection: AsyncConnection,
    doomed: Doomed,
    *,
    after: Place | None,
    limit: int,
    partition: str | None = None,
) -> list[Found]:
    """Return the next reports to go, in the order of their places.

    With the name of a partition: everything in it.
    """
    await allow_long_search(connection)
    rows = _rows(doomed) if partition is None else _partition(partition)
    query = sa.select(*(rows.c[name] for name in _FOUND))
    if after is not None:
        place = sa.tuple_(rows.c.received_at, rows.c.position)
        query = query.where(
            rows.c.received_at >= after.received_at, place > (after.received_at, after.position)
        )
    query = query.order_by(rows.c.received_at, rows.c.position).limit(limit)
    return [
        Found(
            key=ReportKey(tenant=row.tenant, run_id=row.run_id, rank=row.rank),
            place=Place(received_at=row.received_at, position=row.position),
        )
        for row in await connection.execute(query)
    ]


async def delete_found(connection: AsyncConnection, found: Sequence[Found]) -> list[Found]:
    """Delete the reports that still lie where they were found; return those."""
    gone = await delete_keys(connection, found)
    if gone:
        at = sa.delete(reports).where(
            reports.c.received_at == sa.bindparam("at", type_=reports.c.received_at.type),
            reports.c.position == sa.bindparam("place"),
        )
        places = [{"at": one.place.received_at, "place": one.place.position} for one in gone]
        await connection.execute(at, places)
    return gone


async def delete_keys(connection: AsyncConnection, found: Sequence[Found]) -> list[Found]:
    """Delete the keys of the reports that still lie where they were found; return those."""
    await take_turn(connection, 0)
    keys = report_keys.c
    named = relation(connection.dialect.name, "doomed")
    gone = await connection.execute(
        sa.delete(report_keys)
        .where(
            sa.tuple_(keys.tenant, keys.run_id, keys.rank).in_(sa.select(named)),
            # No place is given twice: a report that was raised since stands at another.
            keys.position.in_([one.place.position for one in found]),
        )
        .returning(keys.position),
        parameters_of(connection, [one.key for one in found], "doomed"),
    )
    positions = set(gone.scalars())
    return [one for one in found if one.place.position in positions]


async def unused_jobs(connection: AsyncConnection, tenant: str) -> tuple[Place, list[str]]:
    """Return the digests of jobs that no report is of, and the place up to which that is known."""
    await allow_long_search(connection)
    seen = await last_place(connection)
    kept = sa.select(jobs.c.job_digest).where(jobs.c.tenant == tenant)
    used = sa.select(reports.c.job_digest).where(
        reports.c.tenant == tenant, reports.c.job_digest.is_not(None)
    )
    digests = (await connection.execute(sa.except_(kept, used))).scalars()
    return seen, sorted(digests)


async def delete_jobs(
    connection: AsyncConnection, tenant: str, digests: Sequence[str], *, unused_at: Place
) -> int:
    """Delete jobs that no report was of at a place, and none has come for since."""
    await take_turn(connection, 0)
    place = sa.tuple_(reports.c.received_at, reports.c.position)
    came_since = sa.exists().where(
        reports.c.tenant == tenant,
        reports.c.received_at >= unused_at.received_at,
        place > (unused_at.received_at, unused_at.position),
        reports.c.job_digest == jobs.c.job_digest,
    )
    gone = await connection.execute(
        sa.delete(jobs).where(
            jobs.c.tenant == tenant, jobs.c.job_digest.in_(digests), sa.not_(came_since)
        )
    )
    return int(gone.rowcount)


async def forget_answers(connection: AsyncConnection, tenant: str) -> int:
    """Delete the answers kept under a tenant's idempotency keys: they tell of what is gone."""
    await take_turn(connection, 0)
    gone = await connection.execute(
        sa.delete(idempotency_keys).where(idempotency_keys.c.tenant == tenant)
    )
    return int(gone.rowcount)


async def add_tombstone(
    connection: AsyncConnection,
    tenant: str,
    *,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, Any],
) -> None:
    """Say in a tenant's audit trail what is deleted of it: ``reports`` or ``decisions``."""
    await audit.append(
        connection, tenant=tenant, actor=actor, action=action, subject=subject, detail=detail
    )


async def allow_long_search(connection: AsyncConnection) -> None:
    """Let the statements of this transaction take their time; they hold no turn."""
    if connection.dialect.name == "postgresql":
        milliseconds = 1000 * SEARCH_SECONDS
        await connection.execute(sa.text(f"SET LOCAL statement_timeout = {milliseconds}"))


def _rows(doomed: Doomed) -> sa.Subquery:
    """Return the reports that are to go: of a run by its keys, of others by their times."""
    is_of_a_run = doomed.run_id is not None
    columns = report_keys.c if is_of_a_run else reports.c
    meant = [
        columns[name] == value
        for name, value in (("tenant", doomed.tenant), ("run_id", doomed.run_id))
        if value is not None
    ]
    if doomed.before is not None:
        meant.append(columns.received_at < doomed.before)
    query = sa.select(*(columns[name] for name in _FOUND))
    if doomed.submitter is not None:
        meant.append(reports.c.submitter == doomed.submitter)
        if is_of_a_run:
            is_there = sa.and_(
                reports.c.received_at == columns.received_at,
                reports.c.position == columns.position,
            )
            query = query.join(reports, is_there)
    if not meant:
        raise ValueError("a purge says what is to go")
    return query.where(*meant).subquery("doomed")


def _partition(name: str) -> sa.TableClause:
    return sa.table(name, *(sa.column(one, reports.c[one].type) for one in _FOUND))
