"""Decisions counted by week, verdict and what became of the jobs, on both databases."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from tests.databases import Databases
from tests.kept_decisions import TENANT, a_decision, keep_decisions
from tests.kept_reports import a_caller, keep
from tests.reports import a_report, measured
from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.admission.shadow import Counted, Fate
from vramgate.persistence.engine import Database
from vramgate.persistence.partitions import ensure_partitions
from vramgate.persistence.shadow_report import ShadowSelection, count_by_week, counting
from vramgate.persistence.tables import decision_runs
from vramgate.workflows.shadow_report import make_shadow_report

MONDAY = date(2026, 11, 23)
WEEK = timedelta(weeks=1)
START = datetime(2026, 11, 23, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
FAR_TOO_MUCH = measured(82_000_000_000)


async def _counted(
    database: Database,
    *mondays: date,
    tenant: str = TENANT,
    **chosen: Any,  # noqa: ANN401 whatever a selection holds
) -> list[Counted]:
    async with database.reading() as connection:
        return await count_by_week(
            connection, ShadowSelection(tenant=tenant, **chosen), mondays or (MONDAY,)
        )


async def _bind(database: Database, decision: KeptDecision, run_id: str) -> None:
    async with database.writing() as connection:
        await connection.execute(
            sa.insert(decision_runs).values(
                tenant=decision.tenant,
                decision_id=decision.decision_id,
                run_id=run_id,
                bound_at=decision.decided_at + timedelta(hours=1),
            )
        )


async def _ran(
    database: Database,
    decision: KeptDecision,
    *reports: dict[str, Any],
) -> None:
    """Keep the decision and the reports of its run, one a rank."""
    await keep_decisions(database, decision)
    run_id = f"run-of-{decision.decision_id}"
    items = [a_report(run_id=run_id, rank=rank, **one) for rank, one in enumerate(reports)]
    await keep(database, *items, caller=a_caller(decision.tenant))
    await _bind(database, decision, run_id)


def _fates(counted: list[Counted]) -> dict[Fate, int]:
    return {one.fate: one.count for one in counted}


async def test_a_run_ends_as_the_worst_of_its_accepted_ranks_did(database: Database) -> None:
    at = START + timedelta(days=3)
    killed, running = {"outcome": "killed"}, {"outcome": "running"}
    done, oom = {"outcome": "completed"}, {"outcome": "oom"}
    quarantined = {"outcome": "completed", "measured": FAR_TOO_MUCH}
    for verdict, reports, expected in (
        (Verdict.ALLOW, (done, oom, done), Fate.RAN_OUT_OF_MEMORY),
        (Verdict.WARN, (killed, done, running), Fate.RAN),
        (Verdict.DENY, (running, killed), Fate.UNKNOWN),
        (Verdict.UNCHECKED, (quarantined,), Fate.QUARANTINED),
    ):
        await _ran(database, a_decision(decided_at=at, verdict=verdict), *reports)
        counted = {one.verdict: one.fate for one in await _counted(database)}
        assert counted[verdict] is expected


async def test_a_decision_without_a_run_is_counted_and_its_end_is_unknown(
    database: Database,
) -> None:
    at = START + timedelta(days=3)
    denied: dict[str, Any] = {"verdict": Verdict.DENY, "decided_at": at}
    await keep_decisions(
        database,
        a_decision(**denied, mode=Mode.ENFORCE, decision=Verdict.DENY),
        a_decision(**denied, mode=Mode.ENFORCE, decision=Verdict.ALLOW),
        a_decision(**denied),
        a_decision(**denied),
    )
    bound = a_decision(**denied)
    await keep_decisions(database, bound)
    await _bind(database, bound, "reported-nothing-yet")
    counted = await _counted(database)
    assert {(one.mode, one.is_refused): one.count for one in counted} == {
        (Mode.ENFORCE, True): 1, (Mode.ENFORCE, False): 1, (Mode.SHADOW, False): 3,
    }  # fmt: skip
    assert {one.fate for one in counted} == {Fate.UNKNOWN}


async def test_a_week_begins_and_ends_to_the_microsecond(database: Database) -> None:
    moments = [START - MOMENT, START, START + WEEK - MOMENT, START + WEEK]
    await keep_decisions(database, *(a_decision(decided_at=one) for one in moments))
    (week,) = await _counted(database)
    assert (week.monday, week.count) == (MONDAY, 2)
    mondays = [MONDAY - WEEK, MONDAY, MONDAY + WEEK]
    counted = await _counted(database, *mondays)
    assert {one.monday: one.count for one in counted} == {
        MONDAY - WEEK: 1, MONDAY: 2, MONDAY + WEEK: 1,
    }  # fmt: skip


async def test_weeks_run_on_over_the_turn_of_the_year(database: Database) -> None:
    # 31 December 2026 and 1 January 2027 lie in one week: Monday was 28 December.
    for day in (datetime(2026, 12, 31, 23, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)):
        await keep_decisions(database, a_decision(decided_at=day))
    (week,) = await _counted(database, date(2026, 12, 28))
    assert (week.monday, week.count) == (date(2026, 12, 28), 2)


async def test_each_choice_leaves_out_what_it_does_not_mean(database: Database) -> None:
    at = START + timedelta(days=1)
    await keep_decisions(
        database,
        a_decision(decided_at=at, queue="prod"),
        a_decision(decided_at=at, channel=Channel.KUEUE),
        a_decision(decided_at=at, cluster="hpc-2"),
        a_decision(decided_at=at, cluster=None, queue=None),
    )

    async def number(**chosen: Any) -> int:  # noqa: ANN401 whatever a selection holds
        return sum(one.count for one in await _counted(database, **chosen))

    assert await number() == 4
    assert await number(queue="prod") == 1
    assert await number(queue="gpu") == 2
    assert await number(channel=Channel.KUEUE) == 1
    assert await number(cluster="hpc-2") == 1
    assert await number(cluster="hpc-1", queue="gpu", channel=Channel.KUEUE) == 1


async def test_another_tenants_run_says_nothing_of_ours(database: Database) -> None:
    ours = a_decision(decided_at=START)
    theirs = a_decision(decided_at=START, tenant="team-b", decision_id=ours.decision_id)
    await _ran(database, theirs, {"outcome": "oom"})
    await keep_decisions(database, ours)
    await _bind(database, ours, f"run-of-{theirs.decision_id}")
    assert _fates(await _counted(database)) == {Fate.UNKNOWN: 1}
    assert _fates(await _counted(database, tenant="team-b")) == {Fate.RAN_OUT_OF_MEMORY: 1}
    assert await _counted(database, tenant="team-c") == []


async def test_a_report_is_made_of_the_present_week_and_the_three_before(
    database: Database,
) -> None:
    now = START + timedelta(days=2)
    await _ran(database, a_decision(decided_at=now, verdict=Verdict.DENY), {"outcome": "oom"})
    await keep_decisions(database, a_decision(decided_at=START - 3 * WEEK))
    await keep_decisions(database, a_decision(decided_at=START - 3 * WEEK - MOMENT))
    report = await make_shadow_report(
        database, ShadowSelection(tenant=TENANT), since=None, until=None, now=now
    )
    assert [week.week for week in report.weeks] == ["2026-W45", "2026-W46", "2026-W47", "2026-W48"]
    assert [week.decisions for week in report.weeks] == [1, 0, 0, 1]
    assert report.total.would_deny.ran_out_of_memory == 1
    assert (report.total.since, report.total.until) == (START - 3 * WEEK, START + WEEK)


async def test_only_the_months_of_the_weeks_are_read(postgres: Databases) -> None:
    database = Database(postgres.fresh())
    async with database.writing() as connection:
        await ensure_partitions(connection, datetime(2025, 1, 1, tzinfo=UTC))
        await ensure_partitions(connection, datetime(2025, 5, 1, tzinfo=UTC))
    async with database.reading() as connection:
        query = counting(
            ShadowSelection(tenant=TENANT), [date(2025, 3, 3)], connection.dialect
        ).compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        plan = "\n".join((await connection.execute(sa.text(f"EXPLAIN {query}"))).scalars())
    await database.close()
    assert "decisions_y2025m03" in plan
    assert "decisions_y2025m02" not in plan
    assert "decisions_y2025m04" not in plan
