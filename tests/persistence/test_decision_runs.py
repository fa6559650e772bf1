"""Which run reports under a decision: bound with its first report, and never again."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from tests.databases import Databases, rows_of
from tests.kept_reports import TENANT, a_caller, keep, reader
from tests.reports import a_report, measured
from vramgate.access import LOCAL_CALLER, Caller
from vramgate.calibration.report import Receipt, Report
from vramgate.persistence.decision_runs import bind_runs, bound_runs
from vramgate.persistence.engine import Database
from vramgate.persistence.idempotency import StoredAnswer
from vramgate.persistence.reports import (
    Recorded,
    Submission,
    write_submission_row_by_row,
    write_submissions,
)
from vramgate.persistence.tables import decision_runs, reports

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def _row(decision_id: str, run_id: str, tenant: str = TENANT) -> dict[str, Any]:
    return {"tenant": tenant, "decision_id": decision_id, "run_id": run_id, "bound_at": NOW}


def _under(
    decision_id: str | None, item: Mapping[str, Any], caller: Caller = LOCAL_CALLER
) -> Report:
    return replace(reader().read(dict(item), caller), decision_id=decision_id)


def _submission(recorded: list[Recorded], *given: Report) -> Submission:
    def answer(outcomes: Any) -> StoredAnswer:  # noqa: ANN401 as the writer hands them over
        recorded.extend(outcomes)
        return StoredAnswer(status=202, body="{}")

    return Submission(reports=given, answer=answer)


async def _write(database: Database, *given: Report) -> list[Recorded]:
    recorded: list[Recorded] = []
    async with database.writing() as connection:
        await write_submissions(connection, [_submission(recorded, *given)])
    return recorded


async def _bound(database: Database) -> dict[str, str]:
    return {row["decision_id"]: row["run_id"] for row in await rows_of(database, decision_runs)}


async def test_bound_runs_are_found_each_in_its_tenant(database: Database) -> None:
    async with database.writing() as connection:
        await bind_runs(connection, [_row("d1", "r1"), _row("d2", "r2"), _row("d1", "x", "other")])
        await bind_runs(connection, [])
    wanted = [(TENANT, "d1"), (TENANT, "d3"), ("other", "d1"), ("other", "d2"), (TENANT, "d1")]
    async with database.reading() as connection:
        assert await bound_runs(connection, wanted) == {(TENANT, "d1"): "r1", ("other", "d1"): "x"}
        assert await bound_runs(connection, []) == {}


async def test_the_first_report_binds_and_another_run_is_refused(database: Database) -> None:
    (first,) = await _write(database, _under("d", a_report(run_id="one")))
    (second,) = await _write(database, _under("d", a_report(run_id="two")))
    assert first.receipt is Receipt.ACCEPTED
    assert (second.receipt, second.report_id) == (None, None)
    assert second.refusal is not None
    assert second.refusal.code == "other_run"
    assert "'one'" in second.refusal.message
    assert "'two'" in second.refusal.message
    assert await _bound(database) == {"d": "one"}
    assert [row["run_id"] for row in await rows_of(database, reports)] == ["one"]


async def test_ranks_of_the_run_report_under_its_decision(database: Database) -> None:
    ranks = [_under("d", a_report(run_id="one", rank=rank)) for rank in range(3)]
    assert {one.receipt for one in await _write(database, *ranks[:2])} == {Receipt.ACCEPTED}
    (last,) = await _write(database, ranks[2])
    assert last.receipt is Receipt.ACCEPTED
    assert len(await rows_of(database, decision_runs)) == 1


async def test_in_one_batch_the_first_run_is_the_one(database: Database) -> None:
    given = [_under("d", a_report(run_id=name)) for name in ("one", "two", "one-b")]
    one, two, three = await _write(database, *given)
    assert one.refusal is None
    assert two.refusal is not None
    assert three.refusal is not None
    assert await _bound(database) == {"d": "one"}


async def test_a_duplicate_binds_once_and_a_conflict_not_at_all(database: Database) -> None:
    item = a_report(run_id="one")
    await _write(database, _under(None, item))
    for _ in range(2):
        # The content is the same: that it is of a decision was told later.
        (again,) = await _write(database, _under("d", item))
        assert again.receipt is Receipt.DUPLICATE
    assert await _bound(database) == {"d": "one"}
    (other,) = await _write(database, _under("e", {**item, "measured": measured(21 * 10**9)}))
    assert other.receipt is Receipt.CONFLICT
    assert await _bound(database) == {"d": "one"}


async def test_tenants_do_not_share_decisions(database: Database) -> None:
    await _write(database, _under("d", a_report(run_id="one")))
    stranger = a_caller("other")
    (theirs,) = await _write(database, _under("d", a_report(run_id="two"), stranger))
    assert theirs.receipt is Receipt.ACCEPTED
    assert len(await rows_of(database, decision_runs)) == 2


async def test_reports_that_come_at_once_bind_one_run(database: Database) -> None:
    runs = [f"run{n}" for n in range(8)]
    outcomes = await asyncio.gather(
        *(_write(database, _under("d", a_report(run_id=one))) for one in runs)
    )
    taken = [run for run, (one,) in zip(runs, outcomes, strict=True) if one.refusal is None]
    assert list((await _bound(database)).values()) == taken
    assert [row["run_id"] for row in await rows_of(database, reports)] == taken


async def test_a_report_that_is_not_committed_binds_nothing(database: Database) -> None:
    recorded: list[Recorded] = []
    async with database.engine.connect() as connection:
        await connection.execution_options(writes=True)
        given = _submission(recorded, _under("d", a_report(run_id="lost")))
        await write_submissions(connection, [given])
        await connection.rollback()
    (kept,) = await _write(database, _under("d", a_report(run_id="kept")))
    assert kept.receipt is Receipt.ACCEPTED
    assert await _bound(database) == {"d": "kept"}


async def test_row_by_row_the_same_holds(database: Database) -> None:
    recorded: list[Recorded] = []
    given = [_under("d", a_report(run_id=name)) for name in ("one", "two")]
    async with database.writing() as connection:
        await write_submission_row_by_row(connection, [_submission(recorded, *given)])
    assert [one.refusal is None for one in recorded] == [True, False]
    assert await _bound(database) == {"d": "one"}


async def test_reports_without_a_decision_ask_nothing_about_runs(database: Database) -> None:
    statements: list[str] = []

    def listen(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    sa.event.listen(database.engine.sync_engine, "before_cursor_execute", listen)
    await keep(database, a_report())
    assert statements
    assert not [one for one in statements if "decision_runs" in one]


async def test_postgresql_reads_the_wanted_decisions_alone_however_the_table_has_grown(
    postgres: Databases,
) -> None:
    database = Database(postgres.fresh())
    async with database.writing() as connection:
        await connection.execute(
            sa.text(
                "INSERT INTO decision_runs SELECT 't', 'd' || i, 'r' || i, now() "
                "FROM generate_series(1, 50000) AS i"
            )
        )
    statements: list[tuple[str, Any]] = []

    def listen(_c: object, _cursor: object, statement: str, given: Any, *_rest: object) -> None:  # noqa: ANN401
        statements.append((statement, given))

    async with database.reading() as connection:
        sa.event.listen(database.engine.sync_engine, "before_cursor_execute", listen)
        await bound_runs(connection, [("t", "d7"), ("t", "d8")])
        sa.event.remove(database.engine.sync_engine, "before_cursor_execute", listen)
        statement, given = statements[0]
        plan = await connection.exec_driver_sql(f"EXPLAIN {statement}", given)
        text = "\n".join(row[0] for row in plan)
    await database.close()
    assert "pk_decision_runs" in text
    assert "Seq Scan on decision_runs" not in text
