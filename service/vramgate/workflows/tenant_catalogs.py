"""Each tenant's catalogs: the site's with the tenant's own entries over them, as they are now.

What a tenant changes is in use in every replica within 5 seconds. A request reads nothing while what
is known is fresh, waits for a read only where it is too old to be used, and goes on with what was
known last while the database is away.
"""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from anyio import CapacityLimiter, to_thread

from vramgate.catalog.own_entries import InvalidEntryError, OwnEntry, read_entry, with_own
from vramgate.catalog.site import Catalogs
from vramgate.catalog.site_entries import EntryId
from vramgate.errors import DomainError
from vramgate.persistence.catalog_entries import digests_of, documents_of, version_of
from vramgate.persistence.engine import Database
from vramgate.telemetry import logger
from vramgate.workflows.read_report import ReportReader

FRESH_SECONDS = 2.0
"""Nothing is read again before; afterwards somebody's request reads while it is answered."""
STALE_SECONDS = 4.0
"""Older than this, a request waits for the read: a change works within 5 seconds."""
WAIT_SECONDS = 1.0
"""How long it waits at most; a read takes a millisecond, some tenths of a second where much is new."""
FIRST_WAIT_SECONDS = 3.0
"""The same where nothing is known of the tenant yet: its names would mean something else."""
MOST_MERGED = 128
"""Tenants whose own catalogs are kept: some 3 MB each with a thousand entries."""
MOST_KNOWN = 10_000
"""Tenants of which is kept that they have none."""
JOBS_OF_A_TENANT = 1024
MERGES_AT_ONCE = 2

_log = logger("vramgate.catalog")


@dataclass(frozen=True, slots=True)
class CatalogState:
    """One state of a tenant's catalogs, and the reader of reports that remembers jobs by it."""

    catalogs: Catalogs
    reports: ReportReader


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the database said of a tenant."""

    state: CatalogState
    read_at: float
    """When the read began: what was committed before is in it."""
    version: str | None = None
    entries: Mapping[EntryId, OwnEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Read:
    task: asyncio.Task[None]
    began: float


class TenantCatalogs:
    """The catalogs of every tenant. Tenants without entries of their own share the site's."""

    def __init__(self, site: Catalogs, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet: everybody has the site's."""
        self._site = CatalogState(site, ReportReader(site))
        self._clock = clock
        self._database: Database | None = None
        self._merged: OrderedDict[str, _Known] = OrderedDict()
        self._plain: OrderedDict[str, _Known] = OrderedDict()
        self._underway: dict[str, _Read] = {}
        self._next_try = 0.0
        self._is_failing = False
        """Told once: a database that is away is asked every other second."""
        self._merging = CapacityLimiter(MERGES_AT_ONCE)

    @property
    def site(self) -> Catalogs:
        """Return the catalogs that stand below every tenant's own entries."""
        return self._site.catalogs

    @asynccontextmanager
    async def reading(self, database: Database) -> AsyncIterator[None]:
        """Read tenants' entries from the database until the block ends."""
        self._database = database
        try:
            yield
        finally:
            self._database = None
            await _ended({one.task for one in self._underway.values()})

    async def of(self, tenant: str) -> CatalogState:
        """Return a tenant's catalogs as they were at most a few seconds ago.

        Fails never: while the database is away, what was known last is used.
        """
        known = self._merged.get(tenant) or self._plain.get(tenant)
        now = self._clock()
        if known is not None and now - known.read_at < FRESH_SECONDS:
            return known.state
        database = self._database
        if database is not None and now >= self._next_try:
            read = self._begin(tenant, database)
            if known is None or now - known.read_at >= STALE_SECONDS:
                most = FIRST_WAIT_SECONDS if known is None else WAIT_SECONDS
                await asyncio.wait({read.task}, timeout=max(0.0, most - (now - read.began)))
                known = self._find(tenant)
        return self._site if known is None else known.state

    async def refreshed(self, tenant: str) -> CatalogState:
        """Return a tenant's catalogs with everything that was committed before the call."""
        underway = self._underway.get(tenant)
        if underway is not None:
            # It may have begun before the commit.
            await asyncio.wait({underway.task})
        known = self._find(tenant)
        if known is not None:
            self._keep(tenant, replace(known, read_at=known.read_at - STALE_SECONDS))
        if self._database is not None:
            await asyncio.wait({self._begin(tenant, self._database).task})
        known = self._find(tenant)
        return self._site if known is None else known.state

    def _find(self, tenant: str) -> _Known | None:
        return self._merged.get(tenant) or self._plain.get(tenant)

    def _begin(self, tenant: str, database: Database) -> _Read:
        """Return the read of a tenant that is under way, or begin one; others may wait for it."""
        read = self._underway.get(tenant)
        if read is None:
            task = asyncio.create_task(self._read(tenant, database), name="catalog read")
            read = self._underway[tenant] = _Read(task, self._clock())
            task.add_done_callback(lambda _: self._underway.pop(tenant, None))
        return read

    async def _read(self, tenant: str, database: Database) -> None:
        try:
            known = await self._current(tenant, database)
        except Exception as error:  # noqa: BLE001 whatever the database does, answers go on
            if not isinstance(error, DomainError):
                _log.exception("catalog entries not read")
            elif not self._is_failing:
                _log.warning("catalog entries not read", reason=error.message)
            self._is_failing = True
            self._next_try = self._clock() + FRESH_SECONDS
        else:
            if self._is_failing:
                _log.warning("catalog entries read again")
            self._is_failing = False
            self._keep(tenant, known)

    async def _current(self, tenant: str, database: Database) -> _Known:
        began = self._clock()
        known = self._find(tenant)
        async with database.reading() as connection:
            # Before the entries: what changes after it is seen as another version next time.
            version = await version_of(connection, tenant)
            if known is not None and version == known.version:
                return replace(known, read_at=began)
            digests = {} if version is None else await digests_of(connection, tenant)
            kept = {} if known is None else known.entries
            new = {d for one, d in digests.items() if one not in kept or kept[one].digest != d}
            documents = await documents_of(connection, tenant, sorted(new))
        if not digests:
            return _Known(state=self._site, read_at=began, version=version)
        build = partial(self._built, tenant, digests, documents, kept)
        # Tens of milliseconds, in which others are answered.
        state, entries = await to_thread.run_sync(build, limiter=self._merging)
        return _Known(state=state, read_at=began, version=version, entries=entries)

    def _built(
        self,
        tenant: str,
        digests: Mapping[EntryId, str],
        documents: Mapping[str, str],
        kept: Mapping[EntryId, OwnEntry],
    ) -> tuple[CatalogState, dict[EntryId, OwnEntry]]:
        """Return the catalogs with the entries of these digests, reading only those that are new."""
        entries: dict[EntryId, OwnEntry] = {}
        for one, digest in digests.items():
            known = kept.get(one)
            if known is None or known.digest != digest:
                known = self._entry(tenant, one, digest, documents.get(digest))
            if known is not None:
                entries[one] = known
        catalogs = with_own(self.site, entries.values())
        catalogs.models.prepare()
        catalogs.accelerators.prepare()
        reports = ReportReader(catalogs, most_jobs=JOBS_OF_A_TENANT)
        return CatalogState(catalogs, reports), entries

    def _entry(
        self, tenant: str, one: EntryId, digest: str, document: str | None
    ) -> OwnEntry | None:
        """Return a stored entry; None where this version, or this site's file, has no use for it."""
        if document is None:
            # Replaced since the version was read; the next read sees another version.
            return None
        try:
            return read_entry(one[0], json.loads(document), digest=digest, site=self.site)
        except InvalidEntryError as error:
            _log.warning("catalog entry left out", tenant=tenant, entry=one, reason=error.message)
            return None

    def _keep(self, tenant: str, known: _Known) -> None:
        """Keep what is known; tenants asked for longest ago are forgotten first."""
        self._merged.pop(tenant, None)
        self._plain.pop(tenant, None)
        is_plain = known.state is self._site
        kept, most = (self._plain, MOST_KNOWN) if is_plain else (self._merged, MOST_MERGED)
        kept[tenant] = known
        while len(kept) > most:
            kept.popitem(last=False)


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    """Let reads end, which takes a moment; those of a database that is away are given up."""
    if not tasks:
        return
    # One that is broken off while it connects would leave the connection open.
    _, hanging = await asyncio.wait(tasks, timeout=WAIT_SECONDS)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
