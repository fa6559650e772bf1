"""Reports deleted for good, and what must stay."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.databases import Databases, rows_of
from tests.factories import a_job
from tests.kept_reports import a_caller, a_submission, keep, kept, move_back, multiply
from tests.reports import a_report, measured
from vramgate.persistence.audit import AuditEntry, entries_of
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.persistence.idempotency import Claim
from vramgate.persistence.partitions import ensure_partitions
from vramgate.persistence.purge import Doomed, delete_found, delete_jobs, find, unused_jobs
from vramgate.persistence.reports import Recorded, Submission, write_submissions
from vramgate.persistence.tables import idempotency_keys, jobs, report_keys, reports
from vramgate.workflows.purge import Purge, Purged

A, B = "team-a", "team-b"
IN_A, IN_B = a_caller(A), a_caller(B)
OTHER_JOB = a_job(micro_batch_size=1)
NOW = datetime.now(UTC)


async def _purge(database: Database, **doomed: Any) -> dict[str, Purged]:  # noqa: ANN401 whatever it has
    return await Purge(database, Doomed(**doomed), actor="ops").run()


async def _trail(database: Database, tenant: str) -> list[AuditEntry]:
    async with database.reading() as connection:
        return await entries_of(connection, tenant=tenant, before=None, limit=50)


async def _jobs(database: Database) -> list[tuple[str, str]]:
    return sorted((row.tenant, row.job_digest[:8]) for row in await rows_of(database, jobs))


async def test_a_run_goes_with_its_keys_and_the_job_that_only_it_was_of(database: Database) -> None:
    shared = a_report(run_id="keep")
    await keep(database, shared, a_report(run_id="go"), caller=IN_A)
    await keep(database, a_report(run_id="go", rank=1, job=OTHER_JOB), caller=IN_A)
    await keep(database, a_report(run_id="go"), caller=IN_B)
    gone = await _purge(database, tenant=A, run_id="go")
    assert gone == {A: Purged(reports=2, jobs=1)}
    assert len(await kept(database, A)) == len(await kept(database, B)) == 1
    assert {(row.tenant, row.run_id) for row in await rows_of(database, report_keys)} == {
        (A, "keep"), (B, "go"),
    }  # fmt: skip
    assert [tenant for tenant, _ in await _jobs(database)] == [A, B]


async def test_a_purge_leaves_tombstones_for_the_tenants_concerned_alone(
    database: Database,
) -> None:
    await keep(database, a_report(run_id="go"), caller=IN_A)
    await keep(database, a_report(run_id="stay"), caller=IN_B)
    await _purge(database, tenant=A, run_id="go", submitter="trainer")
    end, begin = await _trail(database, A)
    assert (begin.action, end.action) == ("purge.begin", "purge.end")
    assert begin.actor == end.actor == "ops"
    assert begin.detail == {"run_id": "go", "submitter": "trainer"}
    assert end.detail == {
        **begin.detail, "reports": 1, "jobs": 1, "idempotency_keys": 0, "complete": True
    }  # fmt: skip
    assert await _trail(database, B) == []


async def test_what_was_purged_can_be_reported_anew(database: Database) -> None:
    report = a_report()
    (first,) = await keep(database, report, caller=IN_A)
    assert (await keep(database, report, caller=IN_A))[0].receipt == "duplicate"
    await _purge(database, tenant=A)
    (again,) = await keep(database, report, caller=IN_A)
    assert again.receipt == "accepted"
    assert again.report_id != first.report_id
    assert len(await kept(database, A)) == 1


async def test_only_the_reports_of_a_submitter_go(database: Database) -> None:
    await keep(database, a_report(run_id="mine"), caller=IN_A)
    await keep(database, a_report(run_id="else"), caller=a_caller(A, "somebody-else"))
    gone = await _purge(database, tenant=A, submitter="somebody-else")
    # The job is one of mine as well.
    assert gone[A] == Purged(reports=1)
    (left,) = await rows_of(database, reports)
    assert left.run_id == "mine"


async def test_age_counts_from_the_last_change_over_all_tenants(database: Database) -> None:
    old = await keep(database, a_report(run_id="old"), a_report(run_id="new"), caller=IN_A)
    other = await keep(database, a_report(run_id="old"), caller=IN_B)
    for one in (old[0], other[0]):
        await move_back(database, str(one.report_id), NOW - timedelta(days=500))
    gone = await _purge(database, before=NOW - timedelta(days=400))
    assert {tenant: one.reports for tenant, one in gone.items()} == {A: 1, B: 1}
    assert {row.run_id for row in await rows_of(database, reports)} == {"new"}
    assert await _purge(database, before=NOW - timedelta(days=400)) == {}
    assert len(await _trail(database, A)) == 2


async def test_counting_changes_nothing(database: Database) -> None:
    await keep(database, a_report(run_id="r"), a_report(run_id="r", rank=1), caller=IN_A)
    for doomed in (Doomed(tenant=A), Doomed(tenant=A, run_id="r", submitter="trainer")):
        assert await Purge(database, doomed, actor="ops").count() == {A: 2}
    assert await Purge(database, Doomed(tenant=A, run_id="s"), actor="ops").count() == {}
    assert len(await kept(database, A)) == 2
    assert await _trail(database, A) == []


async def test_a_purge_of_nothing_in_particular_is_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="what is to go"):
        await Purge(database, Doomed(), actor="ops").run()


async def test_no_answer_of_a_purged_tenant_is_given_again(database: Database) -> None:
    recorded: list[Recorded] = []
    for caller in (IN_A, IN_B):
        tenant = caller.tenant.name
        claim = Claim(tenant=tenant, route="createReports", key="k", fingerprint="f")
        given = a_submission([a_report()], caller, recorded)
        async with database.writing() as connection:
            submission = Submission(reports=given.reports, claim=claim, answer=given.answer)
            await write_submissions(connection, [submission])
    gone = await _purge(database, tenant=A)
    assert gone[A].idempotency_keys == 1
    assert [row.tenant for row in await rows_of(database, idempotency_keys)] == [B]


async def test_many_batches_go_while_others_write(databases: Databases) -> None:
    url = databases.fresh()
    database, writing = Database(url), Database(url)
    await keep(database, a_report(run_id="go"), caller=IN_A)
    await multiply(database, 3_499)
    purging = asyncio.create_task(_purge(database, tenant=A, run_id="go"))
    written = 0
    while not purging.done():
        recorded = await keep(writing, a_report(job=OTHER_JOB), caller=IN_A)
        assert recorded[0].receipt == "accepted"
        written += 1
    assert (await purging)[A].reports == 3_500
    assert len(await kept(database, A)) == written > 3
    assert len(await rows_of(database, report_keys)) == written
    await writing.close()
    await database.close()


async def test_a_report_raised_after_it_was_found_stays(database: Database) -> None:
    running = a_report(outcome="running", measured=measured(20_000_000_000))
    await keep(database, running, a_report(), caller=IN_A)
    async with database.reading() as connection:
        found = await find(connection, Doomed(tenant=A), after=None, limit=10)
    await keep(database, {**running, "measured": measured(21_000_000_000)}, caller=IN_A)
    async with database.writing() as connection:
        gone = await delete_found(connection, found)
    assert gone == found[1:]
    (left,) = await rows_of(database, reports)
    assert left.run_id == running["run_id"]


async def test_a_job_reported_again_after_it_was_found_unused_stays(database: Database) -> None:
    await keep(database, a_report(run_id="go"), a_report(job=OTHER_JOB), caller=IN_A)
    async with database.reading() as connection:
        found = await find(connection, Doomed(tenant=A, run_id="go"), after=None, limit=10)
    async with database.writing() as connection:
        await delete_found(connection, found)
    async with database.reading() as connection:
        seen, unused = await unused_jobs(connection, A)
    assert len(unused) == 1
    await keep(database, a_report(), caller=IN_A)
    async with database.writing() as connection:
        assert await delete_jobs(connection, A, unused, unused_at=seen) == 0
    assert len(await _jobs(database)) == 2


async def test_a_purge_cut_short_says_so_and_goes_on_when_asked_again(database: Database) -> None:
    await keep(database, a_report(run_id="go"), caller=IN_A)
    await multiply(database, 1_499)

    class Failing(Purge):
        async def _delete_batch(self, *given: Any) -> None:  # noqa: ANN401 passed on
            await super()._delete_batch(*given)
            raise DatabaseUnavailableError("The database went away.")

    with pytest.raises(DatabaseUnavailableError):
        await Failing(database, Doomed(tenant=A), actor="ops").run()
    end, begin = await _trail(database, A)
    assert (begin.action, end.detail["reports"], end.detail["complete"]) == (
        "purge.begin", 1_000, False,
    )  # fmt: skip
    assert (await _purge(database, tenant=A))[A].reports == 500
    assert await rows_of(database, reports) == await rows_of(database, report_keys) == []


# ---------------------------------------------------------------- whole months on PostgreSQL


async def test_whole_months_are_dropped_where_age_alone_decides(postgres: Databases) -> None:
    database = Database(postgres.fresh())
    async with database.writing() as connection:
        await ensure_partitions(connection, datetime(2025, 1, 1, tzinfo=UTC))
    recorded = await keep(
        database, *(a_report(run_id=f"m{month}") for month in (1, 2, 3)), caller=IN_A
    )
    for month, one in zip((1, 2, 3), recorded, strict=True):
        moment = datetime(2025, month, 10, tzinfo=UTC)
        await move_back(database, str(one.report_id), moment)
    middle = datetime(2025, 3, 5, tzinfo=UTC)
    assert (await _purge(database, tenant=A, before=datetime(2025, 1, 5, tzinfo=UTC)))[
        A
    ].reports == 0
    gone = await _purge(database, before=middle)
    assert gone[A].reports == 2
    names = await _partitions(database)
    assert not names & {"reports_y2025m01", "reports_y2025m02"}
    assert names >= {"reports_y2025m03", "reports_default"}
    assert [row.run_id for row in await rows_of(database, report_keys)] == ["m3"]
    await database.close()


async def test_a_month_in_use_is_waited_for(postgres: Databases) -> None:
    database = Database(postgres.fresh())
    async with database.writing() as connection:
        await ensure_partitions(connection, datetime(2025, 1, 1, tzinfo=UTC))
    async with database.reading() as connection:
        await connection.execute(sa.select(reports))
        purging = asyncio.create_task(_purge(database, before=datetime(2025, 2, 1, tzinfo=UTC)))
        # Longer than one attempt waits for the lock.
        await asyncio.sleep(2.5)
        assert not purging.done()
        (one,) = await asyncio.wait_for(keep(database, a_report(), caller=IN_A), timeout=10)
        assert one.receipt == "accepted"
    await purging
    assert "reports_y2025m01" not in await _partitions(database)
    await database.close()


async def _partitions(database: Database) -> set[str]:
    async with database.reading() as connection:
        names = await connection.run_sync(lambda one: sa.inspect(one).get_table_names())
        return {name for name in names if name.startswith("reports_")}
