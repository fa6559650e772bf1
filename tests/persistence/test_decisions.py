"""Decisions written and found: each once, whoever sends it again, wherever its month lies."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from tests.databases import Databases, rows_of
from tests.kept_decisions import TENANT, a_decision, an_answer, keep_decisions
from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.admission.stored import StoredDecision
from vramgate.persistence.audit import entries_of
from vramgate.persistence.decisions import find_decision, write_decisions
from vramgate.persistence.engine import Database
from vramgate.persistence.partitions import ensure_partitions
from vramgate.persistence.tables import (
    admission_answers,
    admission_subjects,
    audit,
    decision_keys,
    decision_runs,
    decisions,
)


async def _found(database: Database, decision_id: str, tenant: str = TENANT) -> StoredDecision:
    async with database.reading() as connection:
        found = await find_decision(connection, tenant=tenant, decision_id=decision_id)
    assert found is not None
    return found


async def test_a_decision_is_found_as_it_was_given(database: Database) -> None:
    made = datetime(2026, 11, 3, 4, 5, 6, 789_012, tzinfo=UTC)
    given = a_decision(
        decided_at=made,
        channel=Channel.KUEUE,
        mode=Mode.ENFORCE,
        verdict=Verdict.DENY,
        decision=Verdict.DENY,
        external_id="4711",
        oom_probability=0.75,
        required_bytes=2**50,
        subject={"job": {"note": "Größe ≤ 8 ✓"}},
    )
    before = datetime.now(UTC)
    assert await keep_decisions(database, given) == [True]
    found = await _found(database, given.decision_id)
    for name in ("subject", "answer", "decided_at", "channel", "mode", "verdict", "decision"):
        assert getattr(found, name) == getattr(given, name)
    assert (found.external_id, found.oom_probability, found.required_bytes) == ("4711", 0.75, 2**50)
    assert found.tenant == TENANT
    assert found.run_id is None
    assert before <= found.recorded_at <= datetime.now(UTC)


async def test_what_a_decision_leaves_open_stays_open(database: Database) -> None:
    names = (
        "cluster", "queue", "submitter", "external_id", "oom_probability", "required_bytes",
        "usable_bytes", "model", "accelerator",
    )  # fmt: skip
    given = a_decision(verdict=Verdict.UNCHECKED, **dict.fromkeys(names))
    await keep_decisions(database, given)
    found = await _found(database, given.decision_id)
    assert [getattr(found, name) for name in names] == [None] * len(names)
    assert found.verdict is Verdict.UNCHECKED


async def test_a_decision_that_comes_again_leaves_the_first_as_it_is(database: Database) -> None:
    first, other = a_decision(queue="first"), a_decision()
    again = replace(first, queue="again", verdict=Verdict.DENY)
    assert await keep_decisions(database, first, again, other, first) == [True, False, True, False]
    assert await keep_decisions(database, again) == [False]
    assert await keep_decisions(database, again, a_decision()) == [False, True]
    found = await _found(database, first.decision_id)
    assert (found.queue, found.verdict) == ("first", Verdict.ALLOW)
    assert (
        len(await rows_of(database, decisions)) == len(await rows_of(database, decision_keys)) == 3
    )


async def test_one_id_may_be_taken_by_two_tenants(database: Database) -> None:
    mine = a_decision(queue="mine")
    theirs = replace(mine, tenant="team-b", queue="theirs")
    assert await keep_decisions(database, mine, theirs) == [True, True]
    assert (await _found(database, mine.decision_id)).queue == "mine"
    assert (await _found(database, mine.decision_id, "team-b")).queue == "theirs"
    async with database.reading() as connection:
        unknown = await find_decision(connection, tenant="team-c", decision_id=mine.decision_id)
    assert unknown is None


async def test_a_job_and_an_answer_are_kept_once_a_tenant(database: Database) -> None:
    await keep_decisions(
        database, a_decision(), a_decision(), a_decision(answer=an_answer(peak=None))
    )
    await keep_decisions(database, a_decision(), a_decision(tenant="team-b"))
    subjects = await rows_of(database, admission_subjects)
    answers = await rows_of(database, admission_answers)
    assert sorted(row["tenant"] for row in subjects) == [TENANT, "team-b"]
    assert sorted(row["tenant"] for row in answers) == [TENANT, TENANT, "team-b"]
    assert {row["format_version"] for row in (*subjects, *answers)} == {1}


async def test_a_repeated_decision_brings_no_document_with_it(database: Database) -> None:
    first = a_decision()
    await keep_decisions(database, first)
    other = a_decision(subject={"job": None}, answer=an_answer(peak=None))
    await keep_decisions(database, replace(other, decision_id=first.decision_id))
    assert len(await rows_of(database, admission_subjects)) == 1
    assert len(await rows_of(database, admission_answers)) == 1


async def test_a_broken_glass_is_told_in_the_audit_trail_once(database: Database) -> None:
    given = a_decision(break_glass="the deadline is tonight", external_id="4711")
    await keep_decisions(database, given, given, a_decision())
    await keep_decisions(database, given)
    async with database.reading() as connection:
        (entry,) = await entries_of(connection, tenant=TENANT, before=None, limit=10)
    assert (entry.action, entry.subject) == ("admission.break_glass", given.decision_id)
    assert entry.actor == "scheduler"
    assert entry.detail == {
        "reason": "the deadline is tonight", "submitter": "ada", "external_id": "4711"
    }  # fmt: skip
    assert len(await rows_of(database, audit)) == 1


async def test_the_run_that_reports_under_a_decision_is_found_with_it(database: Database) -> None:
    given = a_decision()
    await keep_decisions(database, given)
    async with database.writing() as connection:
        for tenant, run in ((TENANT, "run-1"), ("team-b", "run-2")):
            await connection.execute(
                sa.insert(decision_runs).values(
                    tenant=tenant,
                    decision_id=given.decision_id,
                    run_id=run,
                    bound_at=datetime.now(UTC),
                )
            )
    assert (await _found(database, given.decision_id)).run_id == "run-1"


async def test_nothing_is_written_for_nothing(database: Database) -> None:
    assert await keep_decisions(database) == []


async def test_where_the_database_refuses_one_nothing_of_the_batch_is_written(
    database: Database,
) -> None:
    # SQLite's driver raises what Python does.
    with pytest.raises((DBAPIError, OverflowError)):
        await keep_decisions(database, a_decision(), a_decision(required_bytes=2**64))
    for table in (decision_keys, decisions, admission_subjects, admission_answers):
        assert await rows_of(database, table) == []


async def test_writers_that_bring_the_same_in_opposite_orders_do_not_stop_each_other(
    databases: Databases,
) -> None:
    url = databases.fresh()
    shared = [a_decision(subject={"job": number}) for number in range(40)]

    async def write(given: list[KeptDecision]) -> list[bool]:
        database = Database(url)
        written = []
        for start in range(0, len(given), 10):
            async with database.writing() as connection:
                written += await write_decisions(connection, given[start : start + 10])
        await database.close()
        return written

    orders = [shared, shared[::-1], shared[20:] + shared[:20], shared[::2] + shared[1::2]]
    written = await asyncio.gather(*(write(order) for order in orders))
    assert sum(sum(one) for one in written) == len(shared)
    database = Database(url)
    assert len(await rows_of(database, decisions)) == len(shared)
    await database.close()


async def test_a_decision_told_late_lies_in_the_month_it_was_made_in(postgres: Databases) -> None:
    database = Database(postgres.fresh())
    last_month = datetime(2025, 3, 31, 23, 59, tzinfo=UTC)
    async with database.writing() as connection:
        made = await ensure_partitions(connection, last_month)
        assert {"decisions_y2025m03", "decisions_y2025m06", "reports_y2025m03"} <= set(made)
    never = datetime(2019, 1, 1, tzinfo=UTC)
    given = [a_decision(decided_at=one) for one in (last_month, last_month + timedelta(1), never)]
    await keep_decisions(database, *given)
    async with database.reading() as connection:
        where = await connection.execute(
            sa.text("SELECT tableoid::regclass::text FROM decisions ORDER BY decided_at")
        )
        assert list(where.scalars()) == [
            "decisions_default", "decisions_y2025m03", "decisions_y2025m04",
        ]  # fmt: skip
    assert (await _found(database, given[2].decision_id)).decided_at == never
    await database.close()


async def test_what_was_digested_comes_back_to_the_letter(database: Database) -> None:
    text = json.dumps({"b": 1.0, "a": [1e-7, "é"]}, indent=1)
    given = replace(a_decision(), subject=text, answer=text + " ")
    await keep_decisions(database, given)
    found = await _found(database, given.decision_id)
    assert (found.subject, found.answer) == (text, text + " ")
