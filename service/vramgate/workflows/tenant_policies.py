"""Each tenant's active policy, kept in memory: no admission waits for the database to know it.

A version that is activated is in use in every replica within 5 seconds. A question reads nothing while
what is known is fresh, waits a moment where it is too old, and goes on with what was known last while
the database is away.
"""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from anyio import to_thread

from vramgate.admission.documents import read_document
from vramgate.admission.policy import DEFAULT_POLICY, AdmissionPolicy
from vramgate.errors import DomainError
from vramgate.persistence.engine import Database
from vramgate.persistence.policies import ActivePolicy, read_active
from vramgate.telemetry import logger

FRESH_SECONDS = 2.0
"""Nothing is read again before; afterwards somebody's question reads while it is answered."""
STALE_SECONDS = 4.0
"""Older than this, a question waits for the read: a change works within 5 seconds."""
WAIT_SECONDS = 0.3
"""How long it waits at most; a read takes a millisecond."""
FIRST_WAIT_SECONDS = 1.0
"""The same where nothing is known of the tenant: until then the built-in policy would hold."""
MOST_KNOWN = 4_096
"""Tenants; a policy of a thousand exemptions takes a megabyte, most take a few thousand bytes."""
READS_AT_ONCE = 4
"""Others wait, so that a database that hangs keeps connections for what must be written."""

_log = logger("vramgate.policies")


@dataclass(frozen=True, slots=True)
class _Known:
    """What the database said of a tenant."""

    policy: AdmissionPolicy
    read_at: float
    """When the read began: what was committed before is in it."""


@dataclass(frozen=True, slots=True)
class _Read:
    task: asyncio.Task[None]
    began: float


class TenantPolicies:
    """The policy that holds for each tenant; the built-in one where none is active."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet."""
        self._clock = clock
        self._database: Database | None = None
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._underway: dict[str, _Read] = {}
        self._next_try = 0.0
        self._is_failing = False
        """Told once: a database that is away is asked every other second."""
        self._reads = asyncio.Semaphore(READS_AT_ONCE)

    @asynccontextmanager
    async def reading(self, database: Database) -> AsyncIterator[None]:
        """Read policies from the database until the block ends."""
        self._database = database
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        try:
            yield
        finally:
            self._database = None
            await _ended({one.task for one in self._underway.values()})

    def known(self, tenant: str) -> AdmissionPolicy | None:
        """Return the policy as it is known, however old; None where nothing is."""
        known = self._known.get(tenant)
        return None if known is None else known.policy

    async def of(self, tenant: str) -> AdmissionPolicy:
        """Return a tenant's policy as it was at most a few seconds ago.

        Fails never: while the database is away, what was known last is used.
        """
        known = self._known.get(tenant)
        now = self._clock()
        if known is not None and now - known.read_at < FRESH_SECONDS:
            return known.policy
        database = self._database
        if database is not None and now >= self._next_try:
            read = self._begin(tenant, database)
            if known is None or now - known.read_at >= STALE_SECONDS:
                most = FIRST_WAIT_SECONDS if known is None else WAIT_SECONDS
                await asyncio.wait({read.task}, timeout=max(0.0, most - (now - read.began)))
                known = self._known.get(tenant)
        return DEFAULT_POLICY if known is None else known.policy

    async def refreshed(self, tenant: str) -> AdmissionPolicy:
        """Return a tenant's policy with everything that was committed before the call.

        Where the database went away since, as ``of`` does.
        """
        underway = self._underway.get(tenant)
        if underway is not None:
            # It may have begun before the commit.
            await asyncio.wait({underway.task}, timeout=FIRST_WAIT_SECONDS)
        if self._database is not None:
            read = self._begin(tenant, self._database)
            await asyncio.wait({read.task}, timeout=FIRST_WAIT_SECONDS)
        return self.known(tenant) or DEFAULT_POLICY

    def _begin(self, tenant: str, database: Database) -> _Read:
        """Return the read of a tenant that is under way, or begin one; others may wait for it."""
        read = self._underway.get(tenant)
        if read is None:
            task = asyncio.create_task(self._read(tenant, database), name="policy read")
            read = self._underway[tenant] = _Read(task, self._clock())
            task.add_done_callback(lambda _: self._underway.pop(tenant, None))
        return read

    async def _read(self, tenant: str, database: Database) -> None:
        try:
            async with self._reads:
                known = await self._current(tenant, database)
        except Exception as error:  # noqa: BLE001 whatever the database does, answers go on
            if not isinstance(error, DomainError):
                _log.exception("policy not read")
            elif not self._is_failing:
                _log.warning("policy not read", reason=error.message)
            self._is_failing = True
            self._next_try = self._clock() + FRESH_SECONDS
        else:
            if self._is_failing:
                _log.warning("policies read again")
            self._is_failing = False
            self._keep(tenant, known)

    async def _current(self, tenant: str, database: Database) -> _Known:
        began = self._clock()
        known = self._known.get(tenant)
        version = None if known is None else known.policy.version
        async with database.reading() as connection:
            active = await read_active(connection, tenant, known=version)
        if active is None:
            return _Known(DEFAULT_POLICY, began)
        if known is not None and active.version == version:
            return replace(known, read_at=began)
        # A long one takes some ten milliseconds, in which others are answered.
        return _Known(await to_thread.run_sync(_policy_in, active, tenant), began)

    def _keep(self, tenant: str, known: _Known) -> None:
        """Keep what is known; tenants asked for longest ago are forgotten first."""
        self._known[tenant] = known
        self._known.move_to_end(tenant)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)


def _policy_in(active: ActivePolicy, tenant: str) -> AdmissionPolicy:
    """Return the policy that a stored document is, as far as this version understands it."""
    try:
        document = json.loads(active.document or "")
    except ValueError:
        document = None
    read = read_document(document, version=active.version)
    if read.left_out:
        _log.warning(
            "parts of a policy are not understood, and do not count",
            tenant=tenant,
            version=active.version,
            left_out=read.left_out,
        )
    return read.policy


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    """Let reads end, which takes a moment; those of a database that is away are given up."""
    if not tasks:
        return
    # One that is broken off while it connects would leave the connection open.
    _, hanging = await asyncio.wait(tasks, timeout=FIRST_WAIT_SECONDS)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
