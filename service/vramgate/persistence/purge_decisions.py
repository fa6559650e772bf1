"""Decisions deleted for good: found at leisure, deleted in batches with their keys and their runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.purge import Doomed, allow_long_search
from vramgate.persistence.reports import take_turn
from vramgate.persistence.tables import decision_keys, decision_runs, decisions

_FOUND = ("decided_at", "decision_id", "tenant")
"""Their order, and all that a decision is found by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDecision:
    """A decision that is to go; it never moves."""

    decided_at: datetime
    decision_id: str
    tenant: str


async def count_decisions(connection: AsyncConnection, doomed: Doomed) -> dict[str, int]:
    """Return how many decisions of each tenant would go now."""
    await allow_long_search(connection)
    rows = _rows(doomed)
    query = sa.select(rows.c.tenant, sa.func.count()).group_by(rows.c.tenant)
    counted = await connection.execute(query.order_by(rows.c.tenant))
    return {row[0]: row[1] for row in counted}


async def find_decisions(
    connection: AsyncConnection,
    doomed: Doomed,
    *,
    after: FoundDecision | None,
    limit: int,
    partition: str | None = None,
) -> list[FoundDecision]:
    """Return the next decisions to go, in the order they were made.

    With the name of a partition: everything in it.
    """
    await allow_long_search(connection)
    rows = _rows(doomed) if partition is None else _partition(partition)
    columns = [rows.c[name] for name in _FOUND]
    query = sa.select(*columns)
    if after is not None:
        place = tuple(getattr(after, name) for name in _FOUND)
        query = query.where(rows.c.decided_at >= after.decided_at, sa.tuple_(*columns) > place)
    found = await connection.execute(query.order_by(*columns).limit(limit))
    return [FoundDecision(**row) for row in found.mappings()]


async def delete_decisions(
    connection: AsyncConnection, found: Sequence[FoundDecision]
) -> list[FoundDecision]:
    """Delete the decisions that are still there, with their keys and runs; return those."""
    gone = await delete_decision_keys(connection, found)
    if gone:
        at = sa.delete(decisions).where(
            *(
                decisions.c[name] == sa.bindparam(f"doomed_{name}", type_=decisions.c[name].type)
                for name in _FOUND
            )
        )
        places = [{f"doomed_{name}": getattr(one, name) for name in _FOUND} for one in gone]
        await connection.execute(at, places)
    return gone


async def delete_decision_keys(
    connection: AsyncConnection, found: Sequence[FoundDecision]
) -> list[FoundDecision]:
    """Delete the keys that are still there and the runs under them; return whose they were."""
    # Whoever binds a run holds the turn to his commit.
    await take_turn(connection, 0)
    keys, runs = decision_keys.c, decision_runs.c
    doomed = [(one.tenant, one.decision_id) for one in found]
    gone = await connection.execute(
        sa.delete(decision_keys)
        .where(sa.tuple_(keys.tenant, keys.decision_id).in_(doomed))
        .returning(keys.tenant, keys.decision_id)
    )
    deleted = {(row.tenant, row.decision_id) for row in gone}
    await connection.execute(
        sa.delete(decision_runs).where(sa.tuple_(runs.tenant, runs.decision_id).in_(doomed))
    )
    return [one for one in found if (one.tenant, one.decision_id) in deleted]


async def delete_stray_runs(connection: AsyncConnection, doomed: Doomed) -> None:
    """Delete runs whose decision never became a row, where age or tenant alone decides."""
    if doomed.submitter is not None or doomed.run_id is not None:
        return
    await allow_long_search(connection)
    runs, keys = decision_runs.c, decision_keys.c
    is_there = sa.exists().where(keys.tenant == runs.tenant, keys.decision_id == runs.decision_id)
    stray = sa.delete(decision_runs).where(sa.not_(is_there))
    if doomed.tenant is not None:
        stray = stray.where(runs.tenant == doomed.tenant)
    if doomed.before is not None:
        stray = stray.where(runs.bound_at < doomed.before)
    await connection.execute(stray)


def _rows(doomed: Doomed) -> sa.Subquery:
    """Return the decisions that are to go: of a run by its keys, of others by their times."""
    query = sa.select(*(decisions.c[name] for name in _FOUND))
    meant: list[sa.ColumnElement[bool]] = []
    if doomed.tenant is not None:
        meant.append(decisions.c.tenant == doomed.tenant)
    if doomed.before is not None:
        meant.append(decisions.c.decided_at < doomed.before)
    if doomed.submitter is not None:
        names = (decisions.c.caller, decisions.c.submitter)
        meant.append(sa.or_(*(name == doomed.submitter for name in names)))
    if doomed.run_id is not None:
        query = query.join(decision_keys, _is_same(decision_keys, decisions, *_FOUND))
        query = query.join(
            decision_runs, _is_same(decision_runs, decision_keys, "tenant", "decision_id")
        )
        meant.append(decision_runs.c.run_id == doomed.run_id)
    if not meant:
        raise ValueError("a purge says what is to go")
    return query.where(*meant).subquery("doomed")


def _is_same(one: sa.FromClause, other: sa.FromClause, *names: str) -> sa.ColumnElement[bool]:
    return sa.and_(*(one.c[name] == other.c[name] for name in names))


def _partition(name: str) -> sa.TableClause:
    columns: list[sa.ColumnClause[Any]] = [sa.column(one, decisions.c[one].type) for one in _FOUND]
    return sa.table(name, *columns)
