"""Kept reports read while others write: every one once, in order, whatever commits late."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import ClauseElement, Executable
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from tests.databases import Databases
from tests.kept_reports import (
    TENANT,
    a_caller,
    a_submission,
    keep,
    kept,
    move_back,
    multiply,
)
from tests.reports import a_report, measured
from vramgate.calibration.report import Outcome, Standing
from vramgate.calibration.stored_report import StoredReport
from vramgate.persistence import report_lists
from vramgate.persistence.engine import Database
from vramgate.persistence.partitions import ensure_partitions
from vramgate.persistence.report_keys import Place
from vramgate.persistence.report_lists import (
    Order,
    Portion,
    Selection,
    Stretch,
    last_place,
    place_of,
    select_reports,
    selecting,
    whole_report,
)
from vramgate.persistence.reports import Recorded, write_submissions

MINE = Selection(tenant=TENANT)
WRITERS = 16
REPORTS_EACH = 12


async def _page(
    database: Database,
    after: Place | None = None,
    limit: int = 7,
    **stretch: Any,  # noqa: ANN401 whatever a stretch holds
) -> list[StoredReport]:
    async with database.reading() as connection:
        stretched = Stretch(after=after, limit=limit, **stretch)
        return (await select_reports(connection, MINE, stretched)).reports


# ---------------------------------------------------------------- late commits


async def test_a_writer_waits_for_the_one_before_so_no_reader_passes_a_late_commit(
    database: Database,
) -> None:
    (first,) = await keep(database, a_report())
    seen = await _page(database)
    late: list[Recorded] = []
    async with database.writing() as connection:
        await write_submissions(connection, [a_submission([a_report()], a_caller(), late)])
        quick = asyncio.create_task(keep(database, a_report()))
        done, _ = await asyncio.wait([quick], timeout=0.5)
        assert not done
        assert await _page(database, place_of(seen[-1])) == []
    (quick_one,) = await quick
    ids = [one.report_id for one in await _page(database, place_of(seen[-1]))]
    assert ids == [late[0].report_id, quick_one.report_id]
    assert first.report_id not in ids


async def test_a_tailing_reader_sees_what_sixteen_writers_wrote_once_and_in_order(
    databases: Databases,
) -> None:
    url = databases.fresh()
    reading = Database(url)
    seen: list[StoredReport] = []
    are_writing = True

    async def write(number: int) -> list[str | None]:
        database = Database(url)
        ids: list[str | None] = []
        for index in range(REPORTS_EACH):
            recorded: list[Recorded] = []
            items = [a_report(run_id=f"w{number}-{index}", rank=rank) for rank in range(3)]
            async with database.writing() as connection:
                submission = a_submission(items, a_caller(), recorded)
                await write_submissions(connection, [submission])
                # A slow disk: the rows are there and nobody may see them, nor pass them.
                await asyncio.sleep((number * 7 + index * 3) % 5 / 1000)
            ids += [one.report_id for one in recorded]
        await database.close()
        return ids

    async def tail() -> None:
        after = None
        is_last = False
        while not is_last:
            is_last = not are_writing
            while page := await _page(reading, after):
                seen.extend(page)
                after = place_of(page[-1])
            await asyncio.sleep(0.001)

    tailing = asyncio.create_task(tail())
    written = await asyncio.gather(*(write(number) for number in range(WRITERS)))
    are_writing = False
    await tailing
    await reading.close()
    acknowledged = [one for ids in written for one in ids]
    assert len(seen) == len(acknowledged) == WRITERS * REPORTS_EACH * 3
    assert {one.report_id for one in seen} == set(acknowledged)
    places = [(one.received_at, one.position) for one in seen]
    assert places == sorted(places)
    assert len(set(places)) == len(places)


async def test_a_raised_report_appears_again_at_the_end(database: Database) -> None:
    running = a_report(outcome="running", measured=measured(20_000_000_000))
    (first,) = await keep(database, running)
    (other,) = await keep(database, a_report())
    seen = await _page(database)
    assert [one.report_id for one in seen] == [first.report_id, other.report_id]
    await keep(database, {**running, "measured": measured(21_000_000_000)})
    (again,) = await _page(database, place_of(seen[-1]))
    assert again.report_id == first.report_id
    assert again.first_received_at == seen[0].first_received_at < again.received_at
    assert await kept(database) == [other.report_id, first.report_id]


# ---------------------------------------------------------------- what is meant


async def test_every_filter_selects_by_its_field(database: Database) -> None:
    await keep(database, a_report(run_id="a"), a_report(run_id="a", rank=1))
    await keep(database, a_report(run_id="b", outcome="oom"), caller=a_caller(TENANT, "other"))
    await keep(database, a_report(run_id="c", measured=measured(82_000_000_000)))
    await keep(database, a_report(run_id="a"), caller=a_caller("another-tenant"))

    async def runs(**fields: Any) -> list[tuple[str, int]]:  # noqa: ANN401 whatever a selection holds
        async with database.reading() as connection:
            chosen = Selection(tenant=TENANT, **fields)
            found = await select_reports(connection, chosen, Stretch(limit=10))
        return [(one.run_id, one.rank) for one in found.reports]

    whole = await runs()
    assert whole == [("a", 0), ("a", 1), ("b", 0), ("c", 0)]
    assert await runs(run_id="a") == [("a", 0), ("a", 1)]
    assert await runs(rank=1) == await runs(run_id="a", rank=1) == [("a", 1)]
    assert await runs(run_id="a", submitter="other") == []
    assert await runs(outcome=Outcome.OOM) == await runs(submitter="other") == [("b", 0)]
    assert await runs(run_id="b", submitter="other", outcome=Outcome.OOM) == [("b", 0)]
    assert await runs(status=Standing.QUARANTINED) == [("c", 0)]
    assert await runs(run_id="c", status=Standing.ACCEPTED) == []
    assert await runs(model="meta-llama/Llama-3.1-8B", accelerator="a100-sxm4-80gb") == whole
    assert await runs(model="gpt2") == await runs(accelerator="gpt2") == []
    now = datetime.now(UTC)
    assert await runs(since=now - timedelta(hours=1), until=now + timedelta(hours=1)) == whole
    assert await runs(run_id="a", until=now - timedelta(hours=1)) == []
    assert await runs(since=now + timedelta(hours=1)) == []


async def test_the_order_runs_both_ways_and_stops_at_an_end(database: Database) -> None:
    await keep(database, *(a_report(run_id="r", rank=rank) for rank in range(5)))
    async with database.reading() as connection:
        end = await last_place(connection)
    await keep(database, a_report(run_id="later"))
    forth = await _page(database, last=end)
    assert [one.rank for one in forth] == [0, 1, 2, 3, 4]
    back = await _page(database, place_of(forth[3]), order=Order.NEWEST)
    assert [one.rank for one in back] == [2, 1, 0]


@pytest.mark.parametrize("order", Order)
async def test_a_search_looks_through_so_many_rows_and_says_where_it_stopped(
    database: Database, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_lists, "SEARCHED_ROWS", 10)
    outcomes = ["oom" if n in {3, 4, 25, 33} else "completed" for n in range(35)]
    given = [a_report(run_id=f"r{n}", outcome=one) for n, one in enumerate(outcomes)]
    await keep(database, *given)
    chosen = Selection(tenant=TENANT, outcome=Outcome.OOM)
    portions: list[Portion] = []
    after = None
    async with database.reading() as connection:
        while not portions or after is not None:
            stretch = Stretch(order=order, after=after, limit=5)
            portions.append(await select_reports(connection, chosen, stretch))
            after = portions[-1].searched_to
        everything = await select_reports(connection, MINE, Stretch(limit=35))
    runs = [[one.run_id for one in portion.reports] for portion in portions]
    forth = [["r3", "r4"], [], ["r25"], ["r33"]]
    back = [["r33", "r25"], [], [], ["r4", "r3"]]
    assert runs == (forth if order is Order.OLDEST else back)
    # Without such a filter, the index alone leads to what is wanted.
    assert (len(everything.reports), everything.searched_to) == (35, None)


async def test_a_report_is_given_whole(database: Database) -> None:
    sent = a_report(labels={"team": "nlp"}, step_seconds=1.5, measured_at="2026-11-29T10:00:00Z")
    (one,) = await keep(database, sent)
    async with database.reading() as connection:
        found = await whole_report(connection, tenant=TENANT, report_id=str(one.report_id))
        hidden = await whole_report(connection, tenant="other", report_id=str(one.report_id))
    assert hidden is None
    assert found is not None
    assert found.job == sent["job"]
    assert {**found.document, "job": sent["job"]} == sent
    assert found.document["job"] == {"sha256": found.job_digest}
    assert found.labels == {"team": "nlp"}
    assert found.step_seconds == 1.5
    assert found.measured_at == datetime(2026, 11, 29, 10, tzinfo=UTC)
    assert found.residuals["allocated"].measured_bytes == 23_000_000_000


# ---------------------------------------------------------------- how PostgreSQL reads them


@pytest.fixture
async def months(postgres: Databases) -> Any:  # noqa: ANN401 a database and what is in it
    """Return a database with reports of five months, each in its partition."""
    database = Database(postgres.fresh())
    firsts = [datetime(2025, month, 1, tzinfo=UTC) for month in (1, 5, 9)]
    async with database.writing() as connection:
        for first in firsts:
            await ensure_partitions(connection, first)
    moments = [datetime(2025, month, 15, tzinfo=UTC) for month in range(1, 6)]
    recorded = await keep(database, *(a_report(run_id=f"m{one.month}") for one in moments))
    for one, moment in zip(recorded, moments, strict=True):
        await move_back(database, str(one.report_id), moment)
    yield database, moments
    await database.close()


async def test_a_cursor_reads_only_the_partitions_behind_it(months: Any) -> None:  # noqa: ANN401 as above
    database, moments = months
    (after,) = await _page(database, Place(received_at=moments[2], position=0), limit=1)
    assert after.run_id == "m3"
    async with database.reading() as connection:
        everything = await _plan(connection, MINE, Stretch(limit=10))
        behind = await _plan(connection, MINE, Stretch(after=place_of(after), limit=10))
        before = await _plan(
            connection, MINE, Stretch(order=Order.NEWEST, after=place_of(after), limit=10)
        )
        until = await _plan(
            connection, Selection(tenant=TENANT, until=moments[0]), Stretch(limit=10)
        )
    assert _partitions(everything) >= {f"reports_y2025m{month:02}" for month in range(1, 13)}
    assert not _partitions(behind) & {"reports_y2025m01", "reports_y2025m02"}
    assert _partitions(behind) >= {"reports_y2025m03", "reports_y2025m12"}
    assert not _partitions(before) & {f"reports_y2025m{month:02}" for month in range(4, 13)}
    assert _partitions(until) <= {"reports_y2025m01", "reports_default"}


async def test_a_run_is_found_by_its_keys_and_a_page_by_the_index(postgres: Databases) -> None:
    database = Database(postgres.fresh())
    await keep(database, a_report(run_id="big"))
    await multiply(database, 20_000)
    await keep(database, a_report(run_id="small"))
    async with database.reading() as connection:
        small = await _plan(connection, Selection(tenant=TENANT, run_id="small"), Stretch(limit=9))
        (seen,) = await _page(
            database, Place(received_at=datetime(2026, 1, 2, tzinfo=UTC), position=0), 1
        )
        page = await _plan(connection, MINE, Stretch(after=place_of(seen), limit=50))
    await database.close()
    full = f"Seq Scan on reports_y{seen.received_at:%Ym%m}"
    assert "pk_report_keys" in small
    assert full not in small
    assert "tenant_received_at_position_idx" in page
    assert full not in page


class _Explain(Executable, ClauseElement):
    """A statement whose plan is asked for, with its parameters."""

    inherit_cache = False

    def __init__(self, statement: ClauseElement) -> None:
        self.statement = statement


@compiles(_Explain)
def _explain(element: _Explain, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 as SQLAlchemy calls it
    return f"EXPLAIN {compiler.process(element.statement, **options)}"


async def _plan(connection: AsyncConnection, chosen: Selection, stretch: Stretch) -> str:
    query = _Explain(selecting(chosen, stretch, connection.dialect))
    return "\n".join(row[0] for row in await connection.execute(query))


def _partitions(plan: str) -> set[str]:
    """Return the partitions that the plan names, without their indexes."""
    return set(re.findall(r"reports_(?:y\d{4}m\d{2}|default)\b", plan))
