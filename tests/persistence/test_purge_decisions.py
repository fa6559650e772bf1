"""Decisions deleted for good, with what only they were about, and what must stay."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.databases import Databases, rows_of
from tests.kept_decisions import a_decision, keep_decisions
from vramgate.admission.record import KeptDecision
from vramgate.persistence.audit import AuditEntry, entries_of
from vramgate.persistence.decision_documents import (
    ANSWERS,
    SUBJECTS,
    DocumentKind,
    delete_aside,
    put_back,
    set_aside,
    unused_documents,
    used_of_aside,
)
from vramgate.persistence.decisions import find_decision, write_decisions
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.persistence.partitions import ensure_partitions
from vramgate.persistence.purge import Doomed
from vramgate.persistence.tables import (
    admission_answers,
    admission_subjects,
    decision_keys,
    decision_runs,
    decisions,
)
from vramgate.workflows.purge_decisions import DecisionPurge, PurgedDecisions

A, B = "team-a", "team-b"
NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=500)
A_YEAR_AGO = NOW - timedelta(days=365)


async def _purge(database: Database, **doomed: Any) -> dict[str, PurgedDecisions]:  # noqa: ANN401 whatever it has
    return await DecisionPurge(database, Doomed(**doomed), actor="ops").run()


async def _left(database: Database) -> set[str]:
    return {row["decision_id"] for row in await rows_of(database, decisions)}


async def _bind(database: Database, one: KeptDecision, run_id: str) -> None:
    async with database.writing() as connection:
        await connection.execute(
            sa.insert(decision_runs).values(
                tenant=one.tenant,
                decision_id=one.decision_id,
                run_id=run_id,
                bound_at=one.decided_at + timedelta(minutes=1),
            )
        )


async def _trail(database: Database, tenant: str) -> list[AuditEntry]:
    async with database.reading() as connection:
        return await entries_of(connection, tenant=tenant, before=None, limit=50)


async def _documents(database: Database, kind: DocumentKind) -> list[tuple[str, str]]:
    return sorted((row["tenant"], row[kind.column]) for row in await rows_of(database, kind.table))


# ---------------------------------------------------------------- which go


async def test_old_decisions_go_with_all_that_belongs_to_them_alone(database: Database) -> None:
    old = a_decision(decided_at=LONG_AGO, subject={"job": "old"}, tenant=A)
    shared, new = a_decision(decided_at=LONG_AGO, tenant=A), a_decision(tenant=A)
    other = a_decision(decided_at=LONG_AGO, tenant=B)
    await keep_decisions(database, old, shared, new, other)
    for one in (old, new, other):
        await _bind(database, one, f"run-of-{one.decision_id}")
    gone = await _purge(database, before=A_YEAR_AGO)
    assert gone == {
        A: PurgedDecisions(decisions=2, subjects=1),
        B: PurgedDecisions(decisions=1, subjects=1, answers=1),
    }
    assert await _left(database) == {new.decision_id}
    for table in (decision_keys, decision_runs, admission_subjects, admission_answers):
        assert [row["tenant"] for row in await rows_of(database, table)] == [A]
    async with database.reading() as connection:
        found = await find_decision(connection, tenant=A, decision_id=new.decision_id)
    assert found is not None
    assert (found.subject, found.answer) == (new.subject, new.answer)
    assert await _purge(database, before=A_YEAR_AGO) == {}
    assert len(await _trail(database, A)) == 2


async def test_a_choice_takes_what_meets_all_of_it(database: Database) -> None:
    by_token = a_decision(caller="ci")
    by_person = a_decision(submitter="ci")
    by_run, usual = a_decision(), a_decision(decided_at=LONG_AGO)
    theirs = a_decision(tenant=B, caller="ci")
    await keep_decisions(database, by_token, by_person, by_run, usual, theirs)
    for one in (by_run, theirs):
        await _bind(database, one, "run-7")

    async def counted(**doomed: Any) -> dict[str, int]:  # noqa: ANN401 whatever it has
        return await DecisionPurge(database, Doomed(**doomed), actor="ops").count()

    assert await counted(tenant=A) == {A: 4}
    assert await counted(tenant=A, submitter="ci") == {A: 2}
    assert await counted(tenant=A, run_id="run-7") == {A: 1}
    assert await counted(tenant=A, run_id="run-7", submitter="ci") == {}
    assert await counted(tenant=A, before=A_YEAR_AGO) == {A: 1}
    assert await counted(before=NOW + timedelta(hours=1)) == {A: 4, B: 1}
    assert len(await _left(database)) == 5
    await _purge(database, tenant=A, submitter="ci")
    await _purge(database, tenant=A, run_id="run-7")
    assert await _left(database) == {usual.decision_id, theirs.decision_id}
    assert [row["tenant"] for row in await rows_of(database, decision_runs)] == [B]
    with pytest.raises(ValueError, match="what is to go"):
        await counted()


async def test_the_trail_of_the_tenant_says_what_went(database: Database) -> None:
    await keep_decisions(database, a_decision(), a_decision(tenant=B))
    await _purge(database, tenant=A, submitter="ada")
    end, begin = await _trail(database, A)
    assert (begin.action, end.action) == ("purge.begin", "purge.end")
    assert {one.subject for one in (begin, end)} == {"decisions"}
    assert begin.detail == {"submitter": "ada"}
    assert end.detail == {
        "submitter": "ada", "decisions": 1, "subjects": 1, "answers": 1, "complete": True
    }  # fmt: skip
    assert await _trail(database, B) == []


async def test_a_run_whose_decision_never_became_a_row_goes_with_its_time(
    database: Database,
) -> None:
    old, new = a_decision(decided_at=LONG_AGO), a_decision()
    for one in (old, new):
        await _bind(database, one, "run-of-a-lost-decision")
    await _purge(database, tenant=A, submitter="ada")
    assert len(await rows_of(database, decision_runs)) == 2
    await _purge(database, before=A_YEAR_AGO)
    (left,) = await rows_of(database, decision_runs)
    assert left["decision_id"] == new.decision_id


async def test_a_purge_cut_short_says_so_and_goes_on_when_asked_again(database: Database) -> None:
    await keep_decisions(database, *(a_decision() for _ in range(1_500)))

    class Failing(DecisionPurge):
        async def _delete_batch(self, *given: Any) -> None:  # noqa: ANN401 passed on
            await super()._delete_batch(*given)
            raise DatabaseUnavailableError("The database went away.")

    with pytest.raises(DatabaseUnavailableError):
        await Failing(database, Doomed(tenant=A), actor="ops").run()
    end, _ = await _trail(database, A)
    assert (end.detail["decisions"], end.detail["complete"]) == (1_000, False)
    assert await _purge(database, tenant=A) == {
        A: PurgedDecisions(decisions=500, subjects=1, answers=1)
    }
    assert await rows_of(database, decisions) == await rows_of(database, decision_keys) == []


# ---------------------------------------------------------------- while others write


async def test_no_decision_written_meanwhile_loses_its_documents(databases: Databases) -> None:
    url = databases.fresh()
    database, writing = Database(url), Database(url)
    subjects = [{"job": number} for number in range(20)]
    old = [a_decision(decided_at=LONG_AGO, subject=one) for one in subjects]
    await keep_decisions(database, *(a_decision(decided_at=LONG_AGO) for _ in range(2_500)), *old)
    purging = asyncio.create_task(_purge(database, before=A_YEAR_AGO))
    written: list[KeptDecision] = []
    while not purging.done() or len(written) < len(subjects):
        written.append(a_decision(subject=subjects[len(written) % len(subjects)]))
        await keep_decisions(writing, written[-1])
    assert (await purging)[A].decisions == 2_520
    for one in written:
        async with database.reading() as connection:
            found = await find_decision(connection, tenant=A, decision_id=one.decision_id)
        assert found is not None
        assert found.subject == one.subject
    await _purge(database, tenant=A, before=A_YEAR_AGO)
    names = {digest for _, digest in await _documents(database, SUBJECTS)}
    assert names == {one.subject_digest for one in written}
    await writing.close()
    await database.close()


async def test_a_document_that_is_used_again_is_put_back(database: Database) -> None:
    first = a_decision(subject={"job": "again"})
    other = a_decision(subject={"job": "brought"})
    await keep_decisions(database, first, other, a_decision(subject={"job": "never"}))
    await _forget_rows(database)
    async with database.reading() as connection:
        unused = await unused_documents(connection, SUBJECTS, A)
    assert len(unused) == 3
    # Found there, so it brings none of its own.
    again = a_decision(subject={"job": "again"})
    await keep_decisions(database, again)
    async with database.writing() as connection:
        await set_aside(connection, SUBJECTS, A, unused)
    # Not there, so it brings one.
    await keep_decisions(database, a_decision(subject={"job": "brought"}))
    async with database.reading() as connection:
        found = await find_decision(connection, tenant=A, decision_id=again.decision_id)
        used, unused = await used_of_aside(connection, SUBJECTS, A)
    assert found is not None
    assert found.subject == again.subject
    assert set(used) == {first.subject_digest, other.subject_digest}
    async with database.writing() as connection:
        await put_back(connection, SUBJECTS, A, used)
        assert await delete_aside(connection, SUBJECTS, A, unused) == 1
    assert await _documents(database, SUBJECTS) == sorted((A, digest) for digest in used)


async def test_what_a_purge_cut_short_left_aside_is_settled_by_the_next(
    database: Database,
) -> None:
    used = a_decision()
    await keep_decisions(database, used, a_decision(subject={"job": "gone"}, queue="gone"))
    async with database.writing() as connection:
        await connection.execute(sa.delete(decisions).where(decisions.c.queue == "gone"))
        digests = [digest for _, digest in await _documents(database, SUBJECTS)]
        await set_aside(connection, SUBJECTS, A, digests)
    await _purge(database, tenant=A, submitter="nobody")
    assert await _documents(database, SUBJECTS) == [(A, used.subject_digest)]
    assert await _documents(database, ANSWERS) == [(A, used.answer_digest)]


async def test_setting_aside_waits_for_a_decision_that_is_being_written(
    postgres: Databases,
) -> None:
    database = Database(postgres.fresh())
    await keep_decisions(database, a_decision())
    await _forget_rows(database)
    again = a_decision()
    async with database.writing() as connection:
        await write_decisions(connection, [again])
        purging = asyncio.create_task(_purge(database, tenant=A, submitter="nobody"))
        # Longer than one attempt waits for the lock.
        await asyncio.sleep(1)
        assert not purging.done()
        quick = asyncio.create_task(keep_decisions(database, a_decision()))
        assert await asyncio.wait_for(quick, timeout=10) == [True]
    assert (await purging)[A] == PurgedDecisions()
    assert await _documents(database, SUBJECTS) == [(A, again.subject_digest)]
    await database.close()


async def _forget_rows(database: Database) -> None:
    async with database.writing() as connection:
        for table in (decisions, decision_keys):
            await connection.execute(sa.delete(table))


# ---------------------------------------------------------------- whole months on PostgreSQL


async def test_whole_months_are_dropped_where_age_alone_decides(postgres: Databases) -> None:
    database = Database(postgres.fresh())
    async with database.writing() as connection:
        await ensure_partitions(connection, datetime(2025, 1, 1, tzinfo=UTC))
    made = [
        a_decision(decided_at=datetime(2025, month, 10, tzinfo=UTC), queue=f"m{month}")
        for month in (1, 2, 3)
    ]
    await keep_decisions(database, *made)
    await _bind(database, made[0], "run-1")
    early = datetime(2025, 1, 5, tzinfo=UTC)
    assert (await _purge(database, tenant=A, before=early))[A].decisions == 0
    gone = await _purge(database, before=datetime(2025, 3, 5, tzinfo=UTC))
    assert gone[A] == PurgedDecisions(decisions=2)
    async with database.reading() as connection:
        names = set(await connection.run_sync(lambda one: sa.inspect(one).get_table_names()))
    assert not names & {"decisions_y2025m01", "decisions_y2025m02"}
    assert names >= {"decisions_y2025m03", "decisions_default", "reports_y2025m01"}
    assert await _left(database) == {made[2].decision_id}
    assert len(await rows_of(database, decision_keys)) == 1
    assert await rows_of(database, decision_runs) == []
    await database.close()
