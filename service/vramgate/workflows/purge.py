"""Delete reports for good: by age, tenant, submitter or run; what is left is a tombstone."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from vramgate.persistence import purge as rows
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.persistence.idempotency import KEPT_FOR, forget_expired
from vramgate.persistence.partitions import REPORTS, drop_partition, partitions_before
from vramgate.persistence.purge import Doomed, Found
from vramgate.persistence.report_keys import Place
from vramgate.persistence.reports import take_turn

BATCH_ROWS = 1_000
"""A turn of a tenth of a second; writers wait that long."""
PAUSE_SECONDS = 0.05
"""Between turns. SQLite's writers poll, and would hardly find a shorter gap."""
DROP_ATTEMPTS = 20
BETWEEN_ATTEMPTS_SECONDS = 1.0
_Delete = Callable[..., Awaitable[Sequence[Found]]]


@dataclass(slots=True)
class Purged:
    """What has gone of one tenant."""

    reports: int = 0
    jobs: int = 0
    idempotency_keys: int = 0


class Purge:
    """One purge, its batches and its tombstones."""

    def __init__(self, database: Database, doomed: Doomed, *, actor: str) -> None:
        self._database = database
        self._doomed = doomed
        self._actor = actor
        self._purged: defaultdict[str, Purged] = defaultdict(Purged)

    async def count(self) -> dict[str, int]:
        """Return how many reports of each tenant would go; nothing is changed."""
        async with self._database.reading() as connection:
            return await rows.count(connection, self._doomed)

    async def run(self) -> dict[str, Purged]:
        """Delete, and return what has gone by tenant.

        In the audit trail of each tenant stand two entries: ``purge.begin``, written with the first
        rows that go, and ``purge.end`` with the counts, also where it was cut short.

        Raises:
            DatabaseUnavailableError: the database does not answer. What went is gone; the same
                purge again goes on.
        """
        try:
            await self._delete_partitions()
            await self._delete_all(rows.delete_found)
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
            names = await partitions_before(connection, REPORTS, before)
        for name in names:
            # The keys first: without them its reports can be sent anew, whenever it goes.
            await self._delete_all(rows.delete_keys, partition=name)
            await self._drop(name)

    async def _delete_all(self, delete: _Delete, *, partition: str | None = None) -> None:
        after = None
        while found := await self._find(after, partition):
            await self._delete_batch(delete, found)
            after = found[-1].place
            await asyncio.sleep(PAUSE_SECONDS)

    async def _delete_batch(self, delete: _Delete, found: Sequence[Found]) -> None:
        async with self._database.writing() as connection:
            gone = await delete(connection, found)
            for tenant in sorted({one.key.tenant for one in gone} - self._purged.keys()):
                await rows.add_tombstone(
                    connection,
                    tenant,
                    actor=self._actor,
                    action="purge.begin",
                    subject="reports",
                    detail=self._doomed.told(),
                )
        for one in gone:
            self._purged[one.key.tenant].reports += 1

    async def _drop(self, partition: str) -> None:
        for attempt in range(1, DROP_ATTEMPTS + 1):
            try:
                async with self._database.writing() as connection:
                    await take_turn(connection, 0)
                    await drop_partition(connection, partition)
            except DatabaseUnavailableError:
                # A long reader, most likely; others must not wait behind us for it.
                if attempt == DROP_ATTEMPTS:
                    raise
                await asyncio.sleep(BETWEEN_ATTEMPTS_SECONDS)
            else:
                return

    async def _delete_what_hung_on_them(self) -> None:
        now = datetime.now(UTC)
        async with self._database.writing() as connection:
            await forget_expired(connection, now)
        if self._doomed.tenant is not None:
            # Named, so looked after even where no report of it was left.
            self._purged.setdefault(self._doomed.tenant, Purged())
        before = self._doomed.before
        may_be_told_of = before is None or before > now - KEPT_FOR
        for tenant, purged in self._purged.items():
            purged.jobs += await self._delete_jobs(tenant)
            if may_be_told_of:
                async with self._database.writing() as connection:
                    purged.idempotency_keys += await rows.forget_answers(connection, tenant)

    async def _delete_jobs(self, tenant: str) -> int:
        async with self._database.reading() as connection:
            seen, unused = await rows.unused_jobs(connection, tenant)
        gone = 0
        for start in range(0, len(unused), BATCH_ROWS):
            batch = unused[start : start + BATCH_ROWS]
            async with self._database.writing() as connection:
                gone += await rows.delete_jobs(connection, tenant, batch, unused_at=seen)
            await asyncio.sleep(PAUSE_SECONDS)
        return gone

    async def _find(self, after: Place | None, partition: str | None = None) -> list[Found]:
        async with self._database.reading() as connection:
            return await rows.find(
                connection, self._doomed, after=after, limit=BATCH_ROWS, partition=partition
            )

    async def _tell(self, *, is_complete: bool) -> None:
        if not self._purged:
            return
        async with self._database.writing() as connection:
            for tenant, purged in sorted(self._purged.items()):
                await rows.add_tombstone(
                    connection,
                    tenant,
                    actor=self._actor,
                    action="purge.end",
                    subject="reports",
                    detail={
                        **self._doomed.told(),
                        "reports": purged.reports,
                        "jobs": purged.jobs,
                        "idempotency_keys": purged.idempotency_keys,
                        "complete": is_complete,
                    },
                )
