"""Every decision becomes a row once, whatever the database does meanwhile, and nobody waits for it."""

import asyncio
import logging
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.chaos.harness import CrashingPostgres
from tests.databases import Databases, rows_of
from tests.kept_decisions import a_decision
from vramgate.admission.record import KeptDecision
from vramgate.persistence.decision_codec import encode_decision
from vramgate.persistence.engine import Database
from vramgate.persistence.journal import Journal
from vramgate.persistence.journal_segments import segments_in
from vramgate.persistence.tables import decisions
from vramgate.workflows.database_outage import SLOW_SECONDS
from vramgate.workflows.record_decisions import DecisionIntake, JournalState, Kept

BOUND = 0.1
"""What an answer may wait for its row."""
PATIENT = 10.0
BACK_SECONDS = 20.0
ROOMY = 2**26

NOTHING = JournalState(
    waiting=0, waiting_bytes=0, dropped=0, damaged=0, refused=0, replayed=0, database_away=False
)


@pytest.fixture(scope="module")
def crashing() -> Iterator[CrashingPostgres]:
    """Return a PostgreSQL server that this module may harm."""
    with tempfile.TemporaryDirectory(prefix="vg") as folder:
        server = CrashingPostgres(Path(folder))
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture
def log() -> Iterator[Sequence[Mapping[str, Any]]]:
    """Return what is logged during a test, also what tells of nothing bad."""
    before = structlog.get_config()["wrapper_class"]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    with structlog.testing.capture_logs() as lines:
        yield lines
    structlog.configure(wrapper_class=before)


@asynccontextmanager
async def intake_on(
    database: Database, folder: Path, *, most_bytes: int = ROOMY
) -> AsyncIterator[DecisionIntake]:
    async with DecisionIntake(database, Journal(folder, most_bytes=most_bytes)) as intake:
        yield intake


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    try:
        yield database
    finally:
        await database.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, which takes a moment."""
    deadline = time.monotonic() + BACK_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it does not come to hold"
        await asyncio.sleep(0.02)


def is_back(intake: DecisionIntake) -> Callable[[], bool]:
    return lambda: not intake.state.database_away and not intake.state.waiting


async def kept(
    intake: DecisionIntake, given: Sequence[KeptDecision], *, seconds: float = PATIENT
) -> list[Kept]:
    return await asyncio.gather(*[intake.keep(one, within_seconds=seconds) for one in given])


async def stored(database: Database) -> list[str]:
    return sorted(row["decision_id"] for row in await rows_of(database, decisions))


def ids(given: Sequence[KeptDecision]) -> list[str]:
    return sorted(one.decision_id for one in given)


def a_number_of(count: int) -> list[KeptDecision]:
    return [a_decision() for _ in range(count)]


async def test_a_decision_is_a_row_before_it_is_answered(
    database: Database, tmp_path: Path
) -> None:
    given = a_number_of(50)
    async with intake_on(database, tmp_path / "journal") as intake:
        assert await kept(intake, given) == [Kept.STORED] * 50
        assert await stored(database) == ids(given)
        assert intake.state == NOTHING
    assert list((tmp_path / "journal").iterdir()) == []


async def test_one_that_comes_again_is_kept_once(database: Database, tmp_path: Path) -> None:
    one = a_decision()
    async with intake_on(database, tmp_path / "journal") as intake:
        assert await kept(intake, [one, one]) == [Kept.STORED, Kept.STORED]
        assert await kept(intake, [one]) == [Kept.STORED]
    assert await stored(database) == ids([one])


async def test_what_is_decided_while_the_database_is_away_is_a_row_once_it_is_back(
    crashing: CrashingPostgres, tmp_path: Path
) -> None:
    before, first, rest, after = (a_number_of(count) for count in (5, 1, 200, 5))
    async with (
        opened(crashing.fresh()) as database,
        intake_on(database, tmp_path / "journal") as intake,
    ):
        assert await kept(intake, before) == [Kept.STORED] * 5
        await asyncio.to_thread(crashing.crash)
        assert await kept(intake, first, seconds=5) == [Kept.JOURNALLED]
        assert intake.state.database_away
        began = time.monotonic()
        for one in rest:
            assert await intake.keep(one, within_seconds=PATIENT) is Kept.JOURNALLED
        # Nobody waits for a database that is known to be away: 200 would, for half an hour.
        assert time.monotonic() - began < BACK_SECONDS / 2
        assert intake.state.waiting == 201
        await asyncio.to_thread(crashing.restart)
        await until(is_back(intake))
        assert await kept(intake, after) == [Kept.STORED] * 5
        await until(lambda: intake.state == replace(NOTHING, replayed=201))
        assert await stored(database) == ids([*before, *first, *rest, *after])


async def test_callers_in_a_hurry_are_no_sign_that_the_database_is_away(
    database: Database, tmp_path: Path
) -> None:
    async with intake_on(database, tmp_path / "journal") as intake:
        end = time.monotonic() + 2 * SLOW_SECONDS
        while time.monotonic() < end:
            assert await intake.keep(a_decision(), within_seconds=0) is Kept.JOURNALLED
            assert not intake.state.database_away
            await asyncio.sleep(0.01)
        assert await intake.keep(a_decision(), within_seconds=PATIENT) is Kept.STORED


async def test_a_database_that_hangs_holds_nobody_up_and_works_again_afterwards(
    crashing: CrashingPostgres, tmp_path: Path
) -> None:
    before, hanging, after = (a_number_of(count) for count in (20, 60, 20))
    waits: list[float] = []

    async def timed(one: KeptDecision) -> Kept:
        began = time.monotonic()
        found = await intake.keep(one, within_seconds=BOUND)
        waits.append(time.monotonic() - began)
        return found

    async with (
        opened(crashing.fresh()) as database,
        intake_on(database, tmp_path / "journal") as intake,
    ):
        assert await kept(intake, before) == [Kept.STORED] * 20
        with crashing.frozen():
            for one in hanging:
                assert await timed(one) is Kept.JOURNALLED
                await asyncio.sleep(0.08)
            assert intake.state.database_away
        # A second more is this machine's own: it is busy with other tests.
        assert max(waits) < BOUND + 1.0
        # A quarter of a second of overruns tells that it hangs; from then on nobody waits.
        assert sum(wait >= BOUND for wait in waits) < 15
        await until(is_back(intake))
        assert await kept(intake, after) == [Kept.STORED] * 20
        assert await stored(database) == ids([*before, *hanging, *after])


async def test_a_commit_that_hangs_is_given_up_so_that_those_after_it_are_written(
    databases: Databases, tmp_path: Path
) -> None:
    url = databases.fresh()
    given = a_number_of(3)
    async with opened(url) as database, intake_on(database, tmp_path / "journal") as intake:
        async with opened(url) as other, other.writing() as connection:
            # On SQLite the transaction alone holds everybody off.
            if not database.is_sqlite:
                await connection.exec_driver_sql("LOCK TABLE decisions")
            assert await kept(intake, given, seconds=BOUND) == [Kept.JOURNALLED] * 3
        await until(is_back(intake))
        assert await kept(intake, given) == [Kept.STORED] * 3
        assert await stored(database) == ids(given)


async def test_sqlite_locked_by_another_program_longer_than_the_bound(
    sqlite_files: Databases, tmp_path: Path
) -> None:
    url = sqlite_files.fresh()
    given = a_number_of(20)
    async with opened(url) as database, intake_on(database, tmp_path / "journal") as intake:
        with closing(sqlite3.connect(str(database.url.database), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for one in given:
                assert await intake.keep(one, within_seconds=BOUND) is Kept.JOURNALLED
            assert intake.state.database_away
            other.execute("ROLLBACK")
        await until(is_back(intake))
        assert await stored(database) == ids(given)


async def test_what_a_process_left_is_written_by_the_next_as_soon_as_the_database_answers(
    databases: Databases, tmp_path: Path
) -> None:
    given = a_number_of(30)
    folder = tmp_path / "journal"
    async with (
        opened("postgresql://nobody@127.0.0.1:9/none") as away,
        intake_on(away, folder) as one,
    ):
        assert await kept(one, given) == [Kept.JOURNALLED] * 30
    async with opened(databases.fresh()) as database, intake_on(database, folder) as next_one:
        await until(lambda: next_one.state.replayed == 30)
        assert await stored(database) == ids(given)
    assert list(folder.iterdir()) == []


async def test_at_the_end_everything_taken_is_a_row_or_in_the_journal(
    database: Database, tmp_path: Path
) -> None:
    given = a_number_of(40)
    async with intake_on(database, tmp_path / "journal") as intake:
        taken = [asyncio.create_task(intake.keep(one, within_seconds=PATIENT)) for one in given]
        await asyncio.sleep(0)
    assert set(await asyncio.gather(*taken)) <= {Kept.STORED, Kept.JOURNALLED}
    async with intake_on(database, tmp_path / "journal") as intake:
        await until(is_back(intake))
        await until(lambda: not list((tmp_path / "journal").iterdir()))
    assert await stored(database) == ids(given)


async def test_a_decision_that_finds_the_service_stopped_is_told_to_be_lost(
    database: Database, tmp_path: Path
) -> None:
    async with intake_on(database, tmp_path / "journal") as intake:
        pass
    assert await intake.keep(a_decision(), within_seconds=BOUND) is Kept.LOST


async def test_beyond_the_journals_bound_decisions_are_lost_and_counted(tmp_path: Path) -> None:
    given = a_number_of(20)
    async with (
        opened("postgresql://nobody@127.0.0.1:9/none") as away,
        intake_on(away, tmp_path / "journal", most_bytes=15_000) as intake,
    ):
        found = [await intake.keep(one, within_seconds=PATIENT) for one in given]
        lost = found.count(Kept.LOST)
        assert 0 < lost < 20
        assert found == [Kept.JOURNALLED] * (20 - lost) + [Kept.LOST] * lost
        assert (intake.state.dropped, intake.state.waiting) == (lost, 20 - lost)


async def test_a_record_of_a_newer_version_stays_in_the_journal(
    database: Database, tmp_path: Path, log: Sequence[Mapping[str, Any]]
) -> None:
    newer = b'{"v":2,"ruling":"allow"}'
    one = a_decision()
    journal = Journal(tmp_path, most_bytes=ROOMY)
    await journal.append([newer, encode_decision(one)])
    await journal.close()
    async with intake_on(database, tmp_path) as intake:
        await until(lambda: intake.state.replayed == 1)
        await until(is_back(intake))
        assert intake.state.refused == 1
    assert await stored(database) == ids([one])
    (file,) = segments_in(tmp_path)
    assert newer in file.read_bytes()
    assert any("format 2" in str(line.get("reason")) for line in log)


async def _refuse_queue(database: Database, queue: str) -> None:
    """Make the database refuse decisions of a queue, as one does whose rules are others."""
    async with database.writing() as connection:
        if database.is_sqlite:
            rule = (
                "CREATE TRIGGER refuse BEFORE INSERT ON decisions "
                f"WHEN NEW.queue = '{queue}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )
        else:
            rule = f"ALTER TABLE decisions ADD CONSTRAINT refuse CHECK (queue <> '{queue}')"
        await connection.exec_driver_sql(rule)


async def test_one_that_the_database_refuses_takes_no_other_along(
    database: Database, tmp_path: Path
) -> None:
    await _refuse_queue(database, "odd")
    good, odd = a_number_of(3), a_decision(queue="odd")
    async with intake_on(database, tmp_path / "journal") as intake:
        found = await kept(intake, [good[0], odd, good[1]])
        assert found == [Kept.STORED, Kept.JOURNALLED, Kept.STORED]
        await until(lambda: intake.state.refused == 1)
        await until(is_back(intake))
    journal = Journal(tmp_path / "other", most_bytes=ROOMY)
    (tmp_path / "other").mkdir()
    await journal.append([encode_decision(one) for one in (odd, good[2])])
    await journal.close()
    async with intake_on(database, tmp_path / "other") as intake:
        await until(lambda: intake.state.refused == 1 and intake.state.replayed == 1)
    assert await stored(database) == ids(good)


async def test_a_database_that_lacks_a_table_for_a_while_costs_no_decision(
    postgres: Databases, tmp_path: Path
) -> None:
    given = a_number_of(5)
    async with (
        opened(postgres.fresh()) as database,
        intake_on(database, tmp_path / "journal") as intake,
    ):
        async with database.writing() as connection:
            await connection.exec_driver_sql("ALTER TABLE decision_keys RENAME TO elsewhere")
        assert await kept(intake, given) == [Kept.JOURNALLED] * 5
        await asyncio.sleep(1.0)
        assert intake.state == replace(
            NOTHING, waiting=5, waiting_bytes=intake.state.waiting_bytes, database_away=True
        )
        async with database.writing() as connection:
            await connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO decision_keys")
        await until(is_back(intake))
        assert await stored(database) == ids(given)


async def test_a_journal_that_is_gone_loses_decisions_only_while_the_database_is_away(
    crashing: CrashingPostgres, tmp_path: Path
) -> None:
    given = a_number_of(2)
    async with (
        opened(crashing.fresh()) as database,
        intake_on(database, tmp_path / "journal") as intake,
    ):
        shutil.rmtree(tmp_path / "journal")
        await asyncio.to_thread(crashing.crash)
        assert await kept(intake, given[:1], seconds=5) == [Kept.LOST]
        await asyncio.to_thread(crashing.restart)
        await until(is_back(intake))
        assert await kept(intake, given[1:]) == [Kept.STORED]
        assert intake.state.dropped == 1


async def test_an_outage_is_told_when_it_begins_and_when_it_ends(
    crashing: CrashingPostgres, tmp_path: Path, log: Sequence[Mapping[str, Any]]
) -> None:
    async with (
        opened(crashing.fresh()) as database,
        intake_on(database, tmp_path / "journal") as intake,
    ):
        await asyncio.to_thread(crashing.crash)
        await kept(intake, a_number_of(3), seconds=5)
        await asyncio.to_thread(crashing.restart)
        await until(lambda: len(log) == 3)
    assert [(line["event"], line.get("decisions")) for line in log] == [
        ("database away, decisions go to the journal", None),
        ("database back, decisions are stored again", None),
        ("journal replayed", 3),
    ]


async def _decided_under_crashes(
    server: CrashingPostgres, folder: Path, *, crashes: int
) -> tuple[list[Kept], list[str], list[str]]:
    """Decide without pause while the database crashes and freezes; return what was kept where."""
    given: list[KeptDecision] = []
    found: list[Kept] = []
    async with opened(server.fresh()) as database, intake_on(database, folder) as intake:
        is_over = asyncio.Event()

        async def ask() -> None:
            while not is_over.is_set():
                one = a_decision()
                given.append(one)
                found.append(await intake.keep(one, within_seconds=BOUND))
                await asyncio.sleep(0.005)

        askers = [asyncio.create_task(ask()) for _ in range(4)]
        for _ in range(crashes):
            await asyncio.sleep(0.5)
            await asyncio.to_thread(server.crash)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(server.restart)
            await asyncio.sleep(1.0)
            with server.frozen():
                await asyncio.sleep(1.0)
        is_over.set()
        await asyncio.gather(*askers)
        await until(is_back(intake))
        return found, ids(given), await stored(database)


async def test_under_load_crashes_and_standstills_lose_no_decision(
    crashing: CrashingPostgres, tmp_path: Path
) -> None:
    found, asked, rows = await _decided_under_crashes(crashing, tmp_path / "j", crashes=1)
    assert {Kept.STORED, Kept.JOURNALLED} == set(found)
    assert rows == asked


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_under_load_many_crashes_lose_no_decision(
    crashing: CrashingPostgres, tmp_path: Path
) -> None:
    found, asked, rows = await _decided_under_crashes(crashing, tmp_path / "j", crashes=15)
    assert {Kept.STORED, Kept.JOURNALLED} == set(found)
    assert rows == asked
