"""Kept decisions read page by page while others are written."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.databases import Databases
from tests.kept_decisions import TENANT, a_decision, keep_decisions
from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.persistence import decision_lists
from vramgate.persistence.decision_lists import (
    DecisionPlace,
    DecisionPortion,
    DecisionSelection,
    DecisionStretch,
    decision_place,
    select_decisions,
    selecting,
)
from vramgate.persistence.engine import Database
from vramgate.persistence.partitions import ensure_partitions
from vramgate.persistence.report_lists import Order
from vramgate.persistence.tables import decisions

MINE = DecisionSelection(tenant=TENANT)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


async def _ids(database: Database, **chosen: Any) -> list[str]:  # noqa: ANN401 whatever a selection holds
    async with database.reading() as connection:
        found = await select_decisions(
            connection, DecisionSelection(tenant=TENANT, **chosen), DecisionStretch(limit=100)
        )
    return [one.decision_id for one in found.decisions]


async def test_every_filter_selects_by_its_field(database: Database) -> None:
    others: dict[str, Any] = {
        "verdict": Verdict.DENY,
        "decision": Verdict.WARN,
        "mode": Mode.ENFORCE,
        "reason_code": "peak_exceeds_capacity",
        "cluster": "hpc-2",
        "queue": "prod",
        "channel": Channel.KUEUE,
        "submitter": "grace",
        "external_id": "4711",
        "model": "gpt2",
        "accelerator": "h100-sxm5-80gb",
        "policy_version": "7",
    }
    usual = a_decision(decided_at=NOON)
    made = {
        name: a_decision(decided_at=NOON + number * SECOND, **{name: value})
        for number, (name, value) in enumerate(others.items(), start=1)
    }
    await keep_decisions(database, usual, *made.values())
    await keep_decisions(database, a_decision(tenant="team-b", decided_at=NOON, **others))
    for name, value in others.items():
        assert await _ids(database, **{name: value}) == [made[name].decision_id]
    assert await _ids(database, queue="prod", submitter="ada") == [made["queue"].decision_id]
    assert await _ids(database, queue="prod", submitter="grace") == []
    newest = list(made.values())[-1]
    assert await _ids(database, since=newest.decided_at) == [newest.decision_id]
    assert await _ids(database, until=NOON) == []
    assert await _ids(database, until=NOON + SECOND) == [usual.decision_id]


@pytest.mark.parametrize("order", Order)
async def test_a_search_looks_through_so_many_rows_and_says_where_it_stopped(
    database: Database, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_lists, "SEARCHED_ROWS", 10)
    made = [
        a_decision(
            decided_at=NOON + number * SECOND,
            verdict=Verdict.DENY if number in {3, 4, 25, 33} else Verdict.ALLOW,
            external_id=str(number),
        )
        for number in range(35)
    ]
    await keep_decisions(database, *made)
    chosen = DecisionSelection(tenant=TENANT, verdict=Verdict.DENY)
    portions: list[DecisionPortion] = []
    after = None
    async with database.reading() as connection:
        while not portions or after is not None:
            stretch = DecisionStretch(order=order, after=after, limit=5)
            portions.append(await select_decisions(connection, chosen, stretch))
            after = portions[-1].searched_to
        everything = await select_decisions(connection, MINE, DecisionStretch(limit=35))
    found = [[int(one.external_id or "") for one in portion.decisions] for portion in portions]
    forth = [[3, 4], [], [25], [33]]
    back = [[33, 25], [], [], [4, 3]]
    assert found == (forth if order is Order.OLDEST else back)
    # Without such a filter, and by the scheduler's id, an index leads to what is wanted.
    assert (len(everything.decisions), everything.searched_to) == (35, None)
    assert await _ids(database, external_id="0", verdict=Verdict.ALLOW) == [made[0].decision_id]


# ---------------------------------------------------------------- pages together

_MOMENTS = st.integers(0, 5).map(lambda number: NOON + number * SECOND)


@pytest.fixture(scope="module")
def both(sqlite_files: Databases, postgres: Databases) -> tuple[Databases, Databases]:
    """Return both kinds of databases."""
    return sqlite_files, postgres


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moments=st.lists(_MOMENTS, min_size=1, max_size=25),
    arriving=st.lists(_MOMENTS, max_size=12),
    limit=st.integers(1, 30),
    order=st.sampled_from(Order),
)
def test_pages_hold_every_decision_once_in_order_while_others_are_inserted(
    both: tuple[Databases, Databases],
    moments: list[datetime],
    arriving: list[datetime],
    limit: int,
    order: Order,
) -> None:
    for databases in both:
        asyncio.run(_read_while_others_write(databases.fresh(), moments, arriving, limit, order))


async def _read_while_others_write(
    url: str, moments: list[datetime], arriving: list[datetime], limit: int, order: Order
) -> None:
    database = Database(url)
    there = [a_decision(decided_at=one) for one in moments]
    await keep_decisions(database, *there, a_decision(tenant="team-b", decided_at=NOON))
    coming = iter([a_decision(decided_at=one) for one in arriving])
    seen: list[DecisionPlace] = []
    after = None
    while page := await _page(database, after, limit, order):
        seen += page
        after = page[-1]
        for one in _next_two(coming):
            await keep_decisions(database, one)
    await database.close()
    places = [(one.decided_at, one.decision_id) for one in seen]
    assert places == sorted(places, reverse=order is Order.NEWEST)
    assert len(set(places)) == len(places)
    assert {one.decision_id for one in there} <= {decision_id for _, decision_id in places}


async def _page(
    database: Database, after: DecisionPlace | None, limit: int, order: Order
) -> list[DecisionPlace]:
    async with database.reading() as connection:
        stretch = DecisionStretch(order=order, after=after, limit=limit)
        found = await select_decisions(connection, MINE, stretch)
    return [decision_place(one) for one in found.decisions]


def _next_two(coming: Iterator[KeptDecision]) -> Iterator[KeptDecision]:
    for _, one in zip(range(2), coming, strict=False):
        yield one


# ---------------------------------------------------------------- how PostgreSQL reads them


async def _plan(database: Database, query: sa.Select[Any]) -> str:
    async with database.reading() as connection:
        text = query.compile(
            dialect=connection.dialect, compile_kwargs={"literal_binds": True}
        ).string
        return "\n".join((await connection.execute(sa.text(f"EXPLAIN {text}"))).scalars())


async def test_a_page_reads_the_index_and_only_the_months_behind_its_cursor(
    postgres: Databases,
) -> None:
    database = Database(postgres.fresh())
    async with database.writing() as connection:
        await ensure_partitions(connection, datetime(2025, 1, 1, tzinfo=UTC))
    await _fill(database, "2025-02-10", 20_000)
    after = DecisionPlace(decided_at=datetime(2025, 2, 10, 1, tzinfo=UTC), decision_id="x")
    page = await _plan(database, selecting(MINE, DecisionStretch(after=after, limit=50)))
    by_id = await _plan(
        database,
        selecting(DecisionSelection(tenant=TENANT, external_id="e-77"), DecisionStretch(limit=50)),
    )
    await database.close()
    assert "decisions_y2025m02_tenant_decided_at_decision_id_idx" in page
    assert "Seq Scan on decisions_y2025m02" not in page
    assert "decisions_y2025m03" not in page
    assert "decisions_y2025m02_tenant_external_id_idx" in by_id


async def _fill(database: Database, day: str, rows: int) -> None:
    """Add that many copies of one decision, a second apart, and let PostgreSQL learn of them."""
    first = datetime.fromisoformat(f"{day}T00:00Z")
    await keep_decisions(database, a_decision(external_id="e", decided_at=first))
    copied = {
        "decided_at": "decided_at + i * interval '1 second'",
        "decision_id": "decision_id || i",
        "external_id": "'e-' || i",
    }
    names = [one.name for one in decisions.c]
    values = [copied.get(name, name) for name in names]
    async with database.writing() as connection:
        await connection.execute(
            sa.text(
                f"INSERT INTO decisions ({', '.join(names)}) SELECT {', '.join(values)} "  # noqa: S608 our own names
                f"FROM decisions, generate_series(1, {rows}) AS i"
            )
        )
    async with database.engine.connect() as connection:
        autocommit = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await autocommit.execute(sa.text("ANALYZE"))
