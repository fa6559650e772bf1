"""Delete decisions for good, with what they were about; what is left is a tombstone."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from vramgate.persistence import decision_documents as documents
from vramgate.persistence import purge_decisions as rows
from vramgate.persistence.decision_documents import ANSWERS, SUBJECTS, DocumentKind
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.persistence.partitions import DECISIONS, drop_partition, partitions_before
from vramgate.persistence.purge import Doomed, add_tombstone
from vramgate.persistence.purge_decisions import FoundDecision
from vramgate.workflows.purge import (
    BATCH_ROWS,
    BETWEEN_ATTEMPTS_SECONDS,
    DROP_ATTEMPTS,
    PAUSE_SECONDS,
)

_Delete = Callable[..., Awaitable[Sequence[FoundDecision]]]


@dataclass(slots=True)
class PurgedDecisions:
    """What has gone of one tenant."""

    decisions: int = 0
    subjects: int = 0
    answers: int = 0


class DecisionPurge:
    """One purge of decisions, its batches and its tombstones."""

    def __init__(self, database: Database, doomed: Doomed, *, actor: str) -> None:
        self._database = database
        self._doomed = doomed
        self._actor = actor
        self._purged: defaultdict[str, PurgedDecisions] = defaultdict(PurgedDecisions)

    async def count(self) -> dict[str, int]:
        """Return how many decisions of each tenant would go; nothing is changed."""
        async with self._database.reading() as connection:
            return await rows.count_decisions(connection, self._doomed)

    async def run(self) -> dict[str, PurgedDecisions]:
        """Delete, and return what has gone by tenant.

        The audit trail of each tenant tells of it as ``Purge.run`` says.

        Raises:
            DatabaseUnavailableError: the database does not answer. What went is gone; the same
                purge again goes on.
        """
        try:
            await self._delete_partitions()
            await self._delete_all(rows.delete_decisions)
            await self._delete_what_hung_on_them()
        except BaseException:
            with suppress(Exception):
                await self._tell(is_complete=False)
            raise
        await self._tell(is_complete=True)
        return dict(self._purged)

    async def _delete_partitions(self) -> None:
        """Drop whole months on PostgreSQL, where everything in them is too old."""
        before = self._doomed.before
        if before is None or not self._doomed.is_by_age_alone:
            return
        async with self._database.reading() as connection:
            names = await partitions_before(connection, DECISIONS, before)
        for name in names:
            # The keys first: without them nothing is found, whenever the rows go.
            await self._delete_all(rows.delete_decision_keys, partition=name)
            await self._patiently(partial(drop_partition, name=name))

    async def _delete_all(self, delete: _Delete, *, partition: str | None = None) -> None:
        after = None
        while found := await self._find(after, partition):
            await self._delete_batch(delete, found)
            after = found[-1]
            await asyncio.sleep(PAUSE_SECONDS)

    async def _find(
        self, after: FoundDecision | None, partition: str | None
    ) -> list[FoundDecision]:
        async with self._database.reading() as connection:
            return await rows.find_decisions(
                connection, self._doomed, after=after, limit=BATCH_ROWS, partition=partition
            )

    async def _delete_batch(self, delete: _Delete, found: Sequence[FoundDecision]) -> None:
        async with self._database.writing() as connection:
            gone = await delete(connection, found)
            for tenant in sorted({one.tenant for one in gone} - self._purged.keys()):
                await add_tombstone(
                    connection,
                    tenant,
                    actor=self._actor,
                    action="purge.begin",
                    subject="decisions",
                    detail=self._doomed.told(),
                )
        for one in gone:
            self._purged[one.tenant].decisions += 1

    async def _delete_what_hung_on_them(self) -> None:
        async with self._database.writing() as connection:
            await rows.delete_stray_runs(connection, self._doomed)
        if self._doomed.tenant is not None:
            # Named, so looked after even where no decision of it was left.
            self._purged.setdefault(self._doomed.tenant, PurgedDecisions())
        for tenant, purged in self._purged.items():
            purged.subjects += await self._delete_documents(SUBJECTS, tenant)
            purged.answers += await self._delete_documents(ANSWERS, tenant)

    async def _delete_documents(self, kind: DocumentKind, tenant: str) -> int:
        async with self._database.reading() as connection:
            unused = await documents.unused_documents(connection, kind, tenant)
        for batch in _batches(unused):
            await self._patiently(
                partial(documents.set_aside, kind=kind, tenant=tenant, digests=batch)
            )
            await asyncio.sleep(PAUSE_SECONDS)
        async with self._database.reading() as connection:
            used, unused = await documents.used_of_aside(connection, kind, tenant)
        for batch in _batches(used):
            async with self._database.writing() as connection:
                await documents.put_back(connection, kind, tenant, batch)
        gone = 0
        for batch in _batches(unused):
            async with self._database.writing() as connection:
                gone += await documents.delete_aside(connection, kind, tenant, batch)
            await asyncio.sleep(PAUSE_SECONDS)
        return gone

    async def _patiently(self, act: Callable[..., Awaitable[Any]]) -> None:
        """Do what needs a table to itself: nobody waits behind it for a long reader or writer."""
        for attempt in range(1, DROP_ATTEMPTS + 1):
            try:
                async with self._database.writing() as connection:
                    await act(connection)
            except DatabaseUnavailableError:
                if attempt == DROP_ATTEMPTS:
                    raise
                await asyncio.sleep(BETWEEN_ATTEMPTS_SECONDS)
            else:
                return

    async def _tell(self, *, is_complete: bool) -> None:
        if not self._purged:
            return
        async with self._database.writing() as connection:
            for tenant, purged in sorted(self._purged.items()):
                await add_tombstone(
                    connection,
                    tenant,
                    actor=self._actor,
                    action="purge.end",
                    subject="decisions",
                    detail={**self._doomed.told(), **asdict(purged), "complete": is_complete},
                )


def _batches(digests: Sequence[str]) -> list[Sequence[str]]:
    return [digests[start : start + BATCH_ROWS] for start in range(0, len(digests), BATCH_ROWS)]
