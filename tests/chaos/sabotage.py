"""Damage on purpose: a run that comes after it must find it, or its silence means nothing."""

import uuid
from collections.abc import Collection
from enum import Enum
from pathlib import Path

import sqlalchemy as sa

from tests.chaos.harness import PROGRAM
from tests.chaos.liars import Lie
from tests.chaos.schedulers import AdmissionLedger, Key
from tests.databases import rows_of
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import decision_keys, decisions

DELETED = 3


class Sabotage(Enum):
    """One way to damage, in the words of the counts."""

    ROWS = "rows deleted, changed, doubled and made up"
    SEGMENT = "a segment of the journal deleted"
    TOLD_TOO_EARLY = "a service that says recorded before the commit"
    KEPT_NOWHERE = "a service whose journal keeps nothing"


_LIES = {Sabotage.TOLD_TOO_EARLY: Lie.TOLD_TOO_EARLY, Sabotage.KEPT_NOWHERE: Lie.KEPT_NOWHERE}


def program_of(sabotage: Sabotage) -> tuple[str, ...]:
    """Return what Python runs as the service."""
    lie = _LIES.get(sabotage)
    return PROGRAM if lie is None else ("-m", "tests.chaos.liars", lie.value)


def take_a_segment(segments: Collection[Path]) -> None:
    """Delete the largest file of the journal, which holds something."""
    max(segments, key=lambda one: one.stat().st_size).unlink()


async def falsify(database: Database, ledger: AdmissionLedger) -> None:
    """Do to the rows everything that must never happen to them."""
    deleted, spared = await _told_rows(database, ledger)
    denied, other = (
        next(row for row in spared if row["verdict"] == verdict and row["external_id"] is not None)
        for verdict in ("deny", "allow")
    )
    tenant, dry_run = min(ledger.dry_runs)
    added = [
        {**other, "decided_at": denied["decided_at"]},
        {**other, "decision_id": str(uuid.UUID(int=0)), "verdict": "deny"},
        {**other, "tenant": tenant, "decision_id": dry_run},
    ]
    async with database.writing() as connection:
        for row in deleted:
            await connection.execute(sa.delete(decisions).where(_is(decisions, _key(row))))
            await connection.execute(sa.delete(decision_keys).where(_is(decision_keys, _key(row))))
        changed = sa.update(decisions).where(_is(decisions, _key(denied)))
        await connection.execute(changed.values(decision="allow"))
        await connection.execute(sa.insert(decisions), added)


async def _told_rows(
    database: Database, ledger: AdmissionLedger
) -> tuple[list[sa.RowMapping], list[sa.RowMapping]]:
    """Return the rows of decisions that were told: a few to be deleted, and the others."""
    rows = [row for row in await rows_of(database, decisions) if _key(row) in ledger.told]
    return rows[:DELETED], rows[DELETED:]


def _key(row: sa.RowMapping) -> Key:
    return row["tenant"], row["decision_id"]


def _is(table: sa.Table, key: Key) -> sa.ColumnElement[bool]:
    tenant, decision_id = key
    return sa.and_(table.c.tenant == tenant, table.c.decision_id == decision_id)
