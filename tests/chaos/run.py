"""One run: clients post, processes are killed, and then the database is looked at."""

import asyncio
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from tests.chaos.check import Verdict, check_durable, settings_of, stored_in, verdict
from tests.chaos.clients import ANSWER_SECONDS, Ledger, Trainer
from tests.chaos.harness import CrashingPostgres, Service, short_folder
from tests.chaos.reader import Reader, misread
from tests.chaos.traffic import scripts_of
from tests.databases import SqliteFiles
from vramgate.persistence.engine import Database

CLIENTS = 16
LEAST_IN_FLIGHT = 8
"""Requests under way before anything is killed."""
RUN_SECONDS = 1_200.0
SERVICE, POSTGRESQL = "service", "PostgreSQL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is posted and how often what is killed."""

    reports: int
    service_kills: int
    postgres_kills: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    plan: Plan
    settings: Mapping[str, str]
    ledger: Ledger
    reader: Reader
    verdict: Verdict
    misread: tuple[str, ...]
    faults: tuple[str, ...]
    seconds: float

    @property
    def findings(self) -> list[str]:
        """Return everything that must not be, each in a sentence."""
        return [*self.verdict.findings, *self.misread, *self.faults]


def run_on_sqlite(plan: Plan) -> Outcome:
    """Run with an SQLite file; only the service is killed."""
    with short_folder() as folder:
        url = SqliteFiles(folder).fresh()
        return asyncio.run(_Run(plan, url, folder, postgres=None).outcome())


def run_on_postgresql(plan: Plan) -> Outcome:
    """Run with a PostgreSQL server of its own, which is killed too."""
    with short_folder() as folder:
        postgres = CrashingPostgres(folder / "pg")
        try:
            return asyncio.run(_Run(plan, postgres.fresh(), folder, postgres=postgres).outcome())
        finally:
            postgres.stop()


class _Run:
    def __init__(
        self, plan: Plan, url: str, folder: Path, *, postgres: CrashingPostgres | None
    ) -> None:
        self._plan = plan
        self._url = url
        self._postgres = postgres
        self._service = Service(database_url=url, folder=folder)
        self._ledger = Ledger()
        self._reader = Reader()
        self._random = random.Random(plan.seed)  # noqa: S311 the same every time is what we want

    async def outcome(self) -> Outcome:
        """Post everything through every kill, then look."""
        settings = await self._durable_settings()
        began = time.monotonic()
        await self._service.start()
        try:
            await self._service.await_ready()
            async with asyncio.timeout(RUN_SECONDS):
                await self._post_and_kill()
        except TimeoutError:
            # What was acknowledged until then is looked at all the same.
            self._ledger.faults.append(f"clients were still posting after {RUN_SECONDS:.0f} s")
        finally:
            await self._service.stop()
        seconds = time.monotonic() - began
        found = await self._verdict()
        return Outcome(
            plan=self._plan,
            settings=settings,
            ledger=self._ledger,
            reader=self._reader,
            verdict=found,
            misread=tuple(misread(self._reader, self._ledger.acknowledged)),
            faults=tuple(self._faults()),
            seconds=seconds,
        )

    async def _post_and_kill(self) -> None:
        scripts = scripts_of(reports=self._plan.reports, clients=CLIENTS, seed=self._plan.seed)
        limits = httpx.Limits(max_connections=2 * CLIENTS, max_keepalive_connections=2 * CLIENTS)
        all_posted = asyncio.Event()
        async with (
            httpx.AsyncClient(
                base_url=self._service.address, timeout=ANSWER_SECONDS, limits=limits
            ) as http,
            asyncio.TaskGroup() as around,
        ):
            around.create_task(self._reader.follow(http, all_posted))
            kills = around.create_task(self._kill_all())
            async with asyncio.TaskGroup() as clients:
                for number, script in enumerate(scripts):
                    trainer = Trainer(http, self._ledger, seed=number)
                    clients.create_task(trainer.post_all(script))
            await self._ledger.close()
            await kills
            all_posted.set()

    async def _kill_all(self) -> None:
        strikes = self._strikes()
        share = self._plan.reports / (len(strikes) + 1)
        for number, killed in enumerate(strikes, 1):
            moment = round(share * (number + self._random.uniform(-0.4, 0.4)))
            await self._ledger.reached(
                partial(self._are_acknowledged, moment), in_flight=LEAST_IN_FLIGHT
            )
            if number % 2:
                # Behind a commit, of which some are told and others not yet.
                await self._ledger.next_answer()
            else:
                await asyncio.sleep(self._random.uniform(0, 0.05))
                await self._ledger.reached(lambda: True, in_flight=LEAST_IN_FLIGHT)
            await self._kill(killed)

    def _are_acknowledged(self, count: int) -> bool:
        return len(self._ledger.acknowledged) >= count

    def _strikes(self) -> list[tuple[str, ...]]:
        """Return what is killed, moment by moment; at one of them both, if PostgreSQL is twice."""
        both = self._plan.postgres_kills > 1
        strikes: list[tuple[str, ...]] = [
            *[(SERVICE,)] * (self._plan.service_kills - both),
            *[(POSTGRESQL,)] * (self._plan.postgres_kills - both),
            *[(POSTGRESQL, SERVICE)] * both,
        ]
        self._random.shuffle(strikes)
        return strikes

    async def _kill(self, killed: tuple[str, ...]) -> None:
        self._ledger.strike(*killed)
        if POSTGRESQL in killed:
            assert self._postgres is not None
            await asyncio.to_thread(self._postgres.crash)
        if SERVICE in killed:
            await self._service.kill()
            await self._service.start()
        if POSTGRESQL in killed:
            # Long enough for the service to meet its absence.
            await asyncio.sleep(self._random.uniform(0.2, 1.5))
            assert self._postgres is not None
            await asyncio.to_thread(self._postgres.restart)

    async def _durable_settings(self) -> Mapping[str, str]:
        database = Database(self._url)
        try:
            settings = await settings_of(database)
        finally:
            await database.close()
        check_durable(settings)
        return settings

    async def _verdict(self) -> Verdict:
        database = Database(self._url)
        try:
            return verdict(
                await stored_in(database), self._ledger.acknowledged, self._ledger.answers
            )
        finally:
            await database.close()

    def _faults(self) -> Iterator[str]:
        yield from self._ledger.faults
        yield from self._reader.faults
        yield from self._service.ended_alone
        acknowledged = len(self._ledger.acknowledged)
        if acknowledged != self._plan.reports:
            yield f"{acknowledged} of {self._plan.reports} reports were acknowledged"
        for strike in self._ledger.strikes:
            if not strike.unanswered:
                yield f"killing {' and '.join(strike.killed)} left no request unanswered"
        if self._postgres and self._postgres.recoveries != self._plan.postgres_kills:
            yield f"PostgreSQL recovered {self._postgres.recoveries} times"
