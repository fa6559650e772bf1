"""What befalls the service and its database while schedulers ask."""

import asyncio
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from enum import Enum
from pathlib import Path

from tests.chaos.harness import CrashingPostgres, Service
from tests.chaos.schedulers import AdmissionLedger
from vramgate.persistence.journal_segments import SUFFIX

JOURNALLED_BEFORE_A_KILL = 10
JOURNALLED_SECONDS = 15.0
TAKEN_OVER_SECONDS = 30.0
"""For a look twice a second, and the replay of all that one process left."""
LOOK_SECONDS = 0.05
MOST_TRIES = 10
BACK_SECONDS = 1.5
"""For a process to see that the database answers again."""


class Blow(Enum):
    """One of them, in the words of the counts."""

    SERVICE = "service killed"
    SERVICE_STOPPED = "service stopped (SIGTERM), database frozen"
    POSTGRESQL = "PostgreSQL killed"
    POSTGRESQL_STOPPED = "PostgreSQL stopped"
    BOTH = "PostgreSQL and every service killed"
    HANG = "database frozen"
    HANG_AND_SERVICE = "service killed, database frozen"
    END = "every service killed, database frozen"


CRASHES_OF_POSTGRESQL = frozenset({Blow.POSTGRESQL, Blow.POSTGRESQL_STOPPED, Blow.BOTH})


class World:
    """The replicas on one machine, and the database they share."""

    def __init__(
        self,
        replicas: Sequence[Service],
        ledger: AdmissionLedger,
        *,
        still: Callable[[], AbstractContextManager[None]],
        postgres: CrashingPostgres | None,
        seed: int,
    ) -> None:
        """Prepare; ``still`` lets the database stand still for the length of a block."""
        self._replicas = replicas
        self._ledger = ledger
        self._still = still
        self._postgres = postgres
        self._random = random.Random(seed)  # noqa: S311 the same every time is what we want
        self._deeds: dict[Blow, Callable[[], Awaitable[None]]] = {
            Blow.SERVICE: self._kill_one,
            Blow.SERVICE_STOPPED: self._hang_and_stop_one,
            Blow.POSTGRESQL: self._crash_postgresql,
            Blow.POSTGRESQL_STOPPED: self._stop_postgresql,
            Blow.BOTH: self._crash_both,
            Blow.HANG: self._hang,
            Blow.HANG_AND_SERVICE: self._hang_and_kill_one,
            Blow.END: self._hang_and_kill_all,
        }

    async def befall(self, blow: Blow) -> None:
        """Let it happen, and let what was killed come back, but at the end."""
        if blow is not Blow.SERVICE_STOPPED:
            self._ledger.strike(blow.value)
        await self._deeds[blow]()

    @property
    def journals(self) -> set[Path]:
        """Return the folders that hold the journals."""
        return {one.journal for one in self._replicas}

    @property
    def segments(self) -> set[Path]:
        """Return the files of the journal, of all processes."""
        return {segment for one in self.journals for segment in segments_under(one)}

    async def taken_over(self, left: set[Path]) -> None:
        """Wait until what dead processes left in the journal is gone from there."""
        deadline = time.monotonic() + TAKEN_OVER_SECONDS
        while left & self.segments:
            if time.monotonic() > deadline:
                names = ", ".join(sorted(one.name for one in left & self.segments))
                self._ledger.faults.append(f"nobody took over {names}")
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _kill_one(self) -> None:
        victim = self._random.choice(self._replicas)
        # Behind a commit, of which some are told and others not yet.
        await self._ledger.next_answer()
        await victim.kill()
        await asyncio.sleep(self._random.uniform(0, 0.5))
        await victim.start()

    async def _hang_and_stop_one(self) -> None:
        """Ask a process to stop while it owes answers; what it journals meanwhile others take over."""
        victim = self._random.choice(self._replicas)
        for _ in range(MOST_TRIES):
            # One that still starts has no questions, and may be stopped like any program.
            await victim.await_ready()
            await self._ledger.reached(lambda: True, in_flight=2 * len(self._replicas))
            with self._still():
                # As a load balancer does, which first sends no more; those it sent count.
                victim.is_up = False
                for _ in range(2):
                    await victim.catch_up()
                if self._ledger.under_way(at=victim.address):
                    await self._stop(victim)
                    break
            victim.is_up = True
            await asyncio.sleep(BACK_SECONDS)
        else:
            self._ledger.faults.append(
                "the service had never anything under way, and was not stopped"
            )
            return
        await self._inherited(victim, segments_under(victim.journal))

    async def _stop(self, victim: Service) -> None:
        strike = self._ledger.strike(Blow.SERVICE_STOPPED.value, at=victim.address)
        code = await victim.stop()
        if code != 0 or strike.cut_off:
            self._ledger.faults.append(
                f"a service that was asked to stop ended with {code}, and without having answered "
                f"{strike.cut_off} of {strike.in_flight} questions under way"
            )

    async def _crash_postgresql(self) -> None:
        await asyncio.to_thread(self._server.crash)
        await self._journalled(JOURNALLED_BEFORE_A_KILL)
        await asyncio.sleep(self._random.uniform(0, 1.5))
        await asyncio.to_thread(self._server.restart)

    async def _stop_postgresql(self) -> None:
        await asyncio.to_thread(self._server.stop)
        await asyncio.sleep(self._random.uniform(0.2, 1.5))
        await asyncio.to_thread(self._server.restart)

    async def _crash_both(self) -> None:
        await asyncio.to_thread(self._server.crash)
        await asyncio.gather(*(one.kill() for one in self._replicas))
        await asyncio.gather(*(one.start() for one in self._replicas))
        # They answer before the database does, and know no policy.
        await asyncio.gather(*(one.await_alive() for one in self._replicas))
        await self._journalled(JOURNALLED_BEFORE_A_KILL)
        await asyncio.to_thread(self._server.restart)

    async def _hang(self) -> None:
        with self._still():
            await self._journalled(JOURNALLED_BEFORE_A_KILL)
            await asyncio.sleep(self._random.uniform(0.5, 2.5))

    async def _hang_and_kill_one(self) -> None:
        victim = self._random.choice(self._replicas)
        with self._still():
            await self._journalled(JOURNALLED_BEFORE_A_KILL)
            await victim.kill()
            left = segments_under(victim.journal)
            if self._is_alone(victim):
                # It comes back to a database that neither answers nor refuses.
                await victim.start()
            await asyncio.sleep(0.5)
        await self._inherited(victim, left)

    async def _hang_and_kill_all(self) -> None:
        """End the run with a journal that is as full as it comes."""
        with self._still():
            await self._journalled(JOURNALLED_BEFORE_A_KILL)
            await asyncio.gather(*(one.kill() for one in self._replicas))
            await self._ledger.close()

    @property
    def _server(self) -> CrashingPostgres:
        assert self._postgres is not None, "SQLite has no server"
        return self._postgres

    async def _journalled(self, more: int) -> None:
        """Wait until so many answers more told of the journal."""
        counts = self._ledger.counts
        enough = counts.journalled + more
        try:
            async with asyncio.timeout(JOURNALLED_SECONDS):
                await self._ledger.reached(lambda: counts.journalled >= enough, in_flight=0)
        except TimeoutError:
            self._ledger.faults.append(
                f"with the database away, {more} answers from the journal took more than "
                f"{JOURNALLED_SECONDS:.0f} s"
            )

    async def _inherited(self, dead: Service, left: set[Path]) -> None:
        """Wait until what a process left is taken over, then start it again.

        By another one of its journal, which must do so with the dead one gone for good; where there is
        none, by its successor.
        """
        if self._is_alone(dead) and not dead.is_up:
            await dead.start()
        await self.taken_over(left)
        if not dead.is_up:
            await dead.start()

    def _is_alone(self, service: Service) -> bool:
        return all(one is service or one.journal != service.journal for one in self._replicas)


def segments_under(journal: Path) -> set[Path]:
    """Return the files of a journal, of all processes that use it."""
    return set(journal.rglob(f"*{SUFFIX}"))


@contextmanager
def locked_sqlite(file: Path) -> Iterator[None]:
    """Hold everybody else off an SQLite file, as another program can."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=10)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
