"""How often tenants' policies are read, what is used meanwhile, and how long anybody waits."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
import sqlalchemy as sa

from tests.clocks import Clock
from vramgate.admission.decision import Mode
from vramgate.admission.policy import DEFAULT_POLICY, AdmissionPolicy
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import policies
from vramgate.workflows.change_policy import activate_policy, create_policy
from vramgate.workflows.tenant_policies import (
    FIRST_WAIT_SECONDS,
    FRESH_SECONDS,
    STALE_SECONDS,
    WAIT_SECONDS,
    TenantPolicies,
)

TENANT = "team-a"
AWAY = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the policies under test."""
    return Clock()


@pytest_asyncio.fixture
async def known(database: Database, clock: Clock) -> AsyncIterator[TenantPolicies]:
    """Return policies that are read from a database."""
    one = TenantPolicies(clock=clock)
    async with one.reading(database):
        yield one


@pytest.fixture
def reads(database: Database) -> Iterator[list[str]]:
    """Return the statements that ask for policies, as they reach the database."""
    seen: list[str] = []

    def listen(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT policies"):
            seen.append(statement)

    sa.event.listen(database.engine.sync_engine, "before_cursor_execute", listen)
    yield seen
    sa.event.remove(database.engine.sync_engine, "before_cursor_execute", listen)


async def _use(database: Database, risk: float, tenant: str = TENANT) -> str:
    """Activate a policy with this risk, and return its version."""
    policy = AdmissionPolicy(risk=risk)
    drafted = await create_policy(database, policy, tenant=tenant, actor="ann", note="")
    version = drafted.state.version
    await activate_policy(
        database, tenant=tenant, actor="ann", version=version, match=frozenset({"*"})
    )
    return version


async def _use_default(database: Database) -> None:
    await activate_policy(
        database, tenant=TENANT, actor="ann", version="default", match=frozenset({"*"})
    )


async def _read_to_the_end(known: TenantPolicies) -> None:
    await asyncio.wait({one.task for one in known._underway.values()})


async def test_without_an_active_version_the_built_in_policy_holds(
    database: Database, known: TenantPolicies
) -> None:
    await _use(database, 0.02, tenant="team-b")
    assert known.known(TENANT) is None
    assert await known.of(TENANT) is DEFAULT_POLICY
    assert known.known(TENANT) is DEFAULT_POLICY


async def test_the_active_version_holds_under_its_name(
    database: Database, known: TenantPolicies
) -> None:
    version = await _use(database, 0.02)
    policy = await known.of(TENANT)
    assert (policy.version, policy.risk) == (version, 0.02)
    assert known.known(TENANT) is policy


async def test_nothing_is_read_again_while_it_is_fresh(
    database: Database, known: TenantPolicies, clock: Clock, reads: list[str]
) -> None:
    await _use(database, 0.02)
    reads.clear()
    for _ in range(100):
        await known.of(TENANT)
    assert len(reads) == 1
    clock.now += STALE_SECONDS
    before = known.known(TENANT)
    found = await asyncio.gather(*(known.of(TENANT) for _ in range(100)))
    assert len(reads) == 2
    # The document of a version that is known is not read anew.
    assert all(one is before for one in found)


async def test_a_change_is_seen_in_time_by_who_asks_often_and_by_who_asks_seldom(
    database: Database, known: TenantPolicies, clock: Clock
) -> None:
    # Promised: within 5 seconds.
    assert STALE_SECONDS + WAIT_SECONDS < 5
    await known.of(TENANT)
    await _use(database, 0.02)
    clock.now += FRESH_SECONDS
    # Answered with what is known, while it is read for the next one.
    assert await known.of(TENANT) is DEFAULT_POLICY
    await _read_to_the_end(known)
    assert (await known.of(TENANT)).risk == 0.02
    await _use(database, 0.03)
    clock.now += STALE_SECONDS
    assert (await known.of(TENANT)).risk == 0.03
    await _use_default(database)
    clock.now += STALE_SECONDS
    assert await known.of(TENANT) is DEFAULT_POLICY


async def test_who_made_a_change_uses_it_at_once(database: Database, known: TenantPolicies) -> None:
    await known.of(TENANT)
    await _use(database, 0.02)
    assert (await known.refreshed(TENANT)).risk == 0.02
    assert (await known.of(TENANT)).risk == 0.02


async def test_what_was_known_last_is_used_while_the_database_is_away(
    database: Database, known: TenantPolicies, clock: Clock
) -> None:
    await _use(database, 0.02)
    await known.of(TENANT)
    async with known.reading(Database(AWAY)):
        for _ in range(3):
            clock.now += 60
            assert (await known.of(TENANT)).risk == 0.02
            assert await known.of("somebody-new") is DEFAULT_POLICY
            assert (await known.refreshed(TENANT)).risk == 0.02
    assert known.known("somebody-new") is None
    await _use(database, 0.03)
    async with known.reading(database):
        clock.now += 60
        assert (await known.of(TENANT)).risk == 0.03


async def test_before_and_after_the_service_runs_what_is_known_is_used(
    database: Database, clock: Clock
) -> None:
    one = TenantPolicies(clock=clock)
    assert await one.of(TENANT) is DEFAULT_POLICY
    await _use(database, 0.02)
    async with one.reading(database):
        assert (await one.of(TENANT)).risk == 0.02
    clock.now += 60
    assert (await one.of(TENANT)).risk == 0.02
    assert (await one.refreshed(TENANT)).risk == 0.02


@asynccontextmanager
async def _hanging() -> AsyncIterator[Database]:
    """Run a database that takes connections and never says anything."""
    done = asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    database = Database(f"postgresql://a@127.0.0.1:{server.sockets[0].getsockname()[1]}/a")
    try:
        yield database
    finally:
        done.set()
        server.close()
        await server.wait_closed()
        await database.close()


async def test_nobody_waits_long_for_a_database_that_hangs(
    database: Database, known: TenantPolicies, clock: Clock
) -> None:
    await _use(database, 0.02)
    await known.of(TENANT)
    clock.now += 60
    async with _hanging() as hanging, known.reading(hanging):
        started = time.monotonic()
        assert (await known.of(TENANT)).risk == 0.02
        with_known = time.monotonic() - started
        assert WAIT_SECONDS * 0.9 < with_known < WAIT_SECONDS + 0.5
        first = asyncio.gather(*(known.of(f"new-{number}") for number in range(20)))
        assert set(map(id, await first)) == {id(DEFAULT_POLICY)}
        assert time.monotonic() - started < with_known + FIRST_WAIT_SECONDS + 0.5
        # Who comes later waits for no read that was waited for already.
        clock.now += FIRST_WAIT_SECONDS
        started = time.monotonic()
        for _ in range(20):
            assert (await known.of(TENANT)).risk == 0.02
            assert await known.of("new-1") is DEFAULT_POLICY
        assert time.monotonic() - started < 0.2


async def test_a_read_under_way_at_the_end_leaves_nothing_open(
    database: Database, clock: Clock
) -> None:
    one = TenantPolicies(clock=clock)
    async with one.reading(database):
        await one.of(TENANT)
        clock.now += FRESH_SECONDS
        await one.of(TENANT)
        assert one._underway
    assert not one._underway


async def test_parts_of_a_later_version_do_not_count(
    database: Database, known: TenantPolicies
) -> None:
    version = await _use(database, 0.02)
    later = '{"mode": "enforce", "quota": 5, "exemptions": [{"name": "e", "project": "p"}]}'
    await _overwrite(database, later)
    policy = await known.of(TENANT)
    assert (policy.version, policy.mode, policy.exemptions) == (version, Mode.ENFORCE, ())


@pytest.mark.parametrize("document", ["", "[]", "{", "null"])
async def test_a_document_that_is_none_is_the_default_under_its_name(
    database: Database, known: TenantPolicies, document: str
) -> None:
    version = await _use(database, 0.02)
    await _overwrite(database, document)
    assert await known.of(TENANT) == AdmissionPolicy(version=version)
    # Nobody else is held up by it.
    await _use(database, 0.03, tenant="team-b")
    assert (await known.of("team-b")).risk == 0.03


async def _overwrite(database: Database, document: str) -> None:
    async with database.writing() as connection:
        await connection.execute(sa.update(policies).values(document=document))


async def test_only_so_many_tenants_are_remembered(
    database: Database, known: TenantPolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vramgate.workflows.tenant_policies.MOST_KNOWN", 2)
    await _use(database, 0.02)
    for tenant in (TENANT, "b", "c", TENANT):
        await known.of(tenant)
    assert [known.known(tenant) is not None for tenant in (TENANT, "b", "c")] == [True, False, True]
