"""One run: schedulers ask, what the service needs is killed or hangs, and then it is looked at."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from tests.chaos.blows import CRASHES_OF_POSTGRESQL, Blow, World, locked_sqlite
from tests.chaos.check import check_durable, settings_of
from tests.chaos.decision_check import (
    DecisionVerdict,
    decision_verdict,
    journalled_ids,
    missing_now,
    stored_decisions,
    withheld,
)
from tests.chaos.harness import PROGRAM, CrashingPostgres, Service, short_folder
from tests.chaos.questions import POLICY, TENANTS, questions_from
from tests.chaos.sabotage import Sabotage, falsify, program_of, take_a_segment
from tests.chaos.schedulers import ANSWER_SECONDS, AdmissionLedger, Scheduler
from tests.chaos.witness import Witness
from tests.databases import SqliteFiles
from tests.services import a_token, bearer
from vramgate.access import Scope
from vramgate.persistence.engine import Database

SCHEDULERS = 16
IN_FLIGHT = 8
"""Requests under way before anything befalls."""
RUN_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPlan:
    """How much is asked, and what happens meanwhile, in this order."""

    questions: int
    """Answered at least, beside those during the blows."""
    blows: tuple[Blow, ...]
    seed: int
    journals: tuple[str, ...] = ("journal", "journal")
    """The folder of each replica's journal; those with one folder are on one machine."""
    sabotage: Sabotage | None = None
    """What is done to the run so that it must find something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOutcome:
    """What came of a run."""

    plan: DecisionPlan
    settings: Mapping[str, str]
    ledger: AdmissionLedger
    witness: Witness
    verdict: DecisionVerdict
    missing: tuple[str, ...]
    """Answered, and not durable when every service was dead."""
    left_in_journal: int
    faults: tuple[str, ...]
    seconds: float

    @property
    def findings(self) -> list[str]:
        """Return everything that must not be, each in a sentence."""
        return [
            *self.verdict.findings,
            *self.missing,
            *self.witness.missed,
            *self.ledger.wrongly_allowed,
            *self.faults,
        ]


def decide_on_sqlite(plan: DecisionPlan) -> DecisionOutcome:
    """Run with an SQLite file, which another program locks at times."""
    with short_folder() as folder:
        url = SqliteFiles(folder).fresh()
        return asyncio.run(_Run(plan, url, folder, postgres=None).outcome())


def decide_on_postgresql(plan: DecisionPlan) -> DecisionOutcome:
    """Run with a PostgreSQL server of its own, which is killed and stands still at times."""
    with short_folder() as folder:
        postgres = CrashingPostgres(folder / "pg")
        try:
            return asyncio.run(_Run(plan, postgres.fresh(), folder, postgres=postgres).outcome())
        finally:
            postgres.stop()


class _Run:
    def __init__(
        self, plan: DecisionPlan, url: str, folder: Path, *, postgres: CrashingPostgres | None
    ) -> None:
        self._plan = plan
        self._postgres = postgres
        self._database = Database(url)
        program = PROGRAM if plan.sabotage is None else program_of(plan.sabotage)
        self._replicas = [
            Service(
                database_url=url,
                folder=folder,
                name=f"replica-{number}",
                journal=journal,
                program=program,
            )
            for number, journal in enumerate(plan.journals)
        ]
        self._ledger = AdmissionLedger()
        self._witness = Witness(self._database)
        file = Path(str(self._database.url.database))
        self._world = World(
            self._replicas,
            self._ledger,
            still=partial(locked_sqlite, file) if postgres is None else postgres.frozen,
            postgres=postgres,
            seed=plan.seed,
        )
        self._missing: tuple[str, ...] = ()
        self._left = 0

    async def outcome(self) -> DecisionOutcome:
        """Ask everything through every blow, then look."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._database.close)
            settings = await settings_of(self._database)
            check_durable(settings)
            began = time.monotonic()
            try:
                await self._ask_through_it_all()
            except TimeoutError:
                # What was answered until then is looked at all the same.
                self._ledger.faults.append(f"it was not over after {RUN_SECONDS:.0f} s")
            await self._look_while_all_are_dead()
            await self._replay_what_is_left()
            if self._plan.sabotage is Sabotage.ROWS:
                await falsify(self._database, self._ledger)
            stored = await stored_decisions(self._database)
            return DecisionOutcome(
                plan=self._plan,
                settings=settings,
                ledger=self._ledger,
                witness=self._witness,
                verdict=decision_verdict(stored, self._ledger),
                missing=self._missing,
                left_in_journal=self._left,
                faults=tuple(self._faults()),
                seconds=time.monotonic() - began,
            )

    async def _ask_through_it_all(self) -> None:
        headers = await self._headers()
        await asyncio.gather(*(one.start() for one in self._replicas))
        try:
            await asyncio.gather(*(one.await_ready() for one in self._replicas))
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=4 * SCHEDULERS)
            async with (
                asyncio.timeout(RUN_SECONDS),
                httpx.AsyncClient(timeout=ANSWER_SECONDS, limits=limits) as http,
            ):
                await self._enforce(http, headers)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._befall_all())
                    for client in self._clients(http, headers):
                        group.create_task(client)
        finally:
            await asyncio.gather(*(one.kill() for one in self._replicas))

    def _clients(
        self, http: httpx.AsyncClient, headers: Mapping[str, Mapping[str, str]]
    ) -> Iterator[Coroutine[None, None, None]]:
        questions = questions_from(self._plan.seed)
        for number in range(SCHEDULERS):
            scheduler = Scheduler(
                http,
                self._replicas,
                self._ledger,
                headers=headers,
                witness=self._witness.look_for,
                seed=number,
            )
            yield scheduler.ask_all(questions)

    async def _befall_all(self) -> None:
        """Let the blows fall, with as many questions before each of them; the last ends the run."""
        share = self._plan.questions // (len(self._plan.blows) + 1)
        for blow in (*self._plan.blows, Blow.END):
            enough = self._ledger.answers + share
            await self._ledger.reached(partial(self._are_answered, enough), in_flight=IN_FLIGHT)
            await self._world.befall(blow)

    def _are_answered(self, count: int) -> bool:
        return self._ledger.answers >= count

    async def _headers(self) -> dict[str, Mapping[str, str]]:
        """Return what each tenant shows: nothing on this machine, or a token."""
        without, tenant = TENANTS
        token = await a_token(self._database, Scope.ADMIN, tenant=tenant, name="scheduler")
        return {without: {}, tenant: bearer(token)}

    async def _enforce(
        self, http: httpx.AsyncClient, headers: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Have every tenant's hopeless jobs refused."""
        at = f"{self._replicas[0].address}/v1/policies"
        for shown in headers.values():
            draft = await http.post(at, json={"policy": POLICY}, headers=shown)
            assert draft.status_code == httpx.codes.CREATED, draft.text
            active = await http.post(
                f"{at}/{draft.json()['version']}/activate",
                headers={**shown, "If-Match": draft.headers["etag"]},
            )
            assert active.json()["status"] == "active", active.text

    async def _look_while_all_are_dead(self) -> None:
        """See whether everything that was answered is on disk somewhere, with nobody left to bring it."""
        if self._plan.sabotage is Sabotage.SEGMENT:
            take_a_segment(self._world.segments)
        journalled = journalled_ids(self._world.segments)
        rows = (await stored_decisions(self._database)).ids
        self._missing = tuple(missing_now(self._ledger, rows, journalled))
        self._left = len(journalled - rows)

    async def _replay_what_is_left(self) -> None:
        """Start one replica a journal, which takes over what all that used it left there."""
        heirs = list({one.journal: one for one in self._replicas}.values())
        await asyncio.gather(*(one.start() for one in heirs))
        await asyncio.gather(*(one.await_ready() for one in heirs))
        await self._world.taken_over(self._world.segments)
        codes = await asyncio.gather(*(one.stop() for one in heirs))
        if any(codes):
            self._ledger.faults.append(f"services that were asked to stop ended with {codes}")
        if self._world.segments:
            self._ledger.faults.append(f"the journal still holds {sorted(self._world.segments)}")

    def _faults(self) -> Iterator[str]:
        yield from self._ledger.faults
        if any(one.startswith("answered ") for one in self._ledger.faults):
            yield from (f"{one.log.name} ends with\n{one.log_tail()}" for one in self._replicas)
        yield from withheld(self._ledger)
        for one in self._replicas:
            yield from one.ended_alone
        if not self._witness.seen:
            yield "no row was seen right after its answer"
        if not self._left:
            yield "the journal was empty at the end: nothing was left to replay"
        crashes = sum(one in CRASHES_OF_POSTGRESQL for one in self._plan.blows)
        if self._postgres is not None and self._postgres.recoveries != crashes:
            yield f"PostgreSQL recovered {self._postgres.recoveries} times, not {crashes}"
