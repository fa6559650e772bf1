"""How often tenants' entries are read, and what is used meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
import sqlalchemy as sa

from tests.clocks import Clock
from tests.kept_reports import a_caller
from vramgate.catalog.site_entries import EntryKind
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import catalog_entries
from vramgate.workflows.change_catalog import Conditions, delete_entry, put_entry
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.tenant_catalogs import FRESH_SECONDS, STALE_SECONDS, TenantCatalogs

TENANT = "team-a"
SITE = load_catalogs()
AWAY = "postgresql://nobody@127.0.0.1:1/none"
UNSAID = Conditions(match=None, none_match=None)
WHATEVER = Conditions(match=frozenset("*"), none_match=None)


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the catalogs under test."""
    return Clock()


@pytest_asyncio.fixture
async def catalogs(database: Database, clock: Clock) -> AsyncIterator[TenantCatalogs]:
    """Return catalogs that read from a database."""
    one = TenantCatalogs(SITE, clock=clock)
    async with one.reading(database):
        yield one


@pytest.fixture
def reads(database: Database) -> Iterator[list[str]]:
    """Return the statements that ask for versions or entries, as they reach the database."""
    seen: list[str] = []

    def listen(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT catalog_"):
            seen.append(statement)

    sa.event.listen(database.engine.sync_engine, "before_cursor_execute", listen)
    yield seen
    sa.event.remove(database.engine.sync_engine, "before_cursor_execute", listen)


async def _put(database: Database, name: str = "acme/own", tenant: str = TENANT) -> None:
    await put_entry(
        database,
        SITE,
        a_caller(tenant),
        kind=EntryKind.MODEL,
        name=name,
        document={"name": name, "parameters": 5},
        conditions=UNSAID,
    )


async def _knows(catalogs: TenantCatalogs, name: str = "acme/own", tenant: str = TENANT) -> bool:
    found = (await catalogs.of(tenant)).catalogs
    return any(entry.name == name for entry in found.models.entries)


async def test_nothing_is_read_again_while_it_is_fresh(
    catalogs: TenantCatalogs, clock: Clock, reads: list[str]
) -> None:
    for _ in range(100):
        await catalogs.of(TENANT)
    assert len(reads) == 1
    clock.now += STALE_SECONDS
    await asyncio.gather(*(catalogs.of(TENANT) for _ in range(100)))
    assert len(reads) == 2


async def test_tenants_without_entries_share_the_site_s_catalogs(
    database: Database, catalogs: TenantCatalogs
) -> None:
    await _put(database)
    assert (await catalogs.of("team-b")).catalogs is SITE
    assert await catalogs.of("team-b") is await catalogs.of("team-c")
    own = (await catalogs.of(TENANT)).catalogs
    # It has no cards of its own.
    assert own.accelerators is SITE.accelerators
    assert await catalogs.of(TENANT) is await catalogs.of(TENANT)


async def test_a_change_is_seen_in_time_by_who_asks_often_and_by_who_asks_seldom(
    database: Database, catalogs: TenantCatalogs, clock: Clock
) -> None:
    # Promised: within 5 seconds.
    assert STALE_SECONDS < 5
    assert not await _knows(catalogs)
    await _put(database)
    clock.now += FRESH_SECONDS
    # Answered with what is known, while it is read for the next one.
    assert not await _knows(catalogs)
    await asyncio.wait({one.task for one in catalogs._underway.values()})
    assert await _knows(catalogs)
    await _put(database, "acme/two")
    clock.now += STALE_SECONDS
    assert await _knows(catalogs, "acme/two")


async def test_who_made_a_change_uses_it_at_once(
    database: Database, catalogs: TenantCatalogs
) -> None:
    await catalogs.of(TENANT)
    await _put(database)
    state = await catalogs.refreshed(TENANT)
    assert any(entry.name == "acme/own" for entry in state.catalogs.models.entries)
    assert await catalogs.of(TENANT) is state
    await delete_entry(
        database, a_caller(TENANT), kind=EntryKind.MODEL, name="acme/own", conditions=WHATEVER
    )
    assert (await catalogs.refreshed(TENANT)).catalogs is SITE


async def test_an_unchanged_entry_is_not_read_again(
    database: Database, catalogs: TenantCatalogs
) -> None:
    await _put(database)
    before = (await catalogs.of(TENANT)).catalogs.models.resolve("acme/own").entry
    await _put(database, "acme/two")
    after = (await catalogs.refreshed(TENANT)).catalogs.models
    assert after.resolve("acme/own").entry is before
    assert after.resolve("acme/two").entry.parameters == 5


async def test_what_was_known_last_is_used_while_the_database_is_away(
    database: Database, catalogs: TenantCatalogs, clock: Clock
) -> None:
    await _put(database)
    assert await _knows(catalogs)
    async with catalogs.reading(Database(AWAY)):
        for _ in range(3):
            clock.now += 60
            assert await _knows(catalogs)
            assert (await catalogs.of("somebody-new")).catalogs is SITE
    await _put(database, "acme/two")
    async with catalogs.reading(database):
        clock.now += 60
        assert await _knows(catalogs, "acme/two")


async def test_a_read_under_way_at_the_end_leaves_nothing_open(
    database: Database, clock: Clock
) -> None:
    one = TenantCatalogs(SITE, clock=clock)
    async with one.reading(database):
        await one.of(TENANT)
        clock.now += FRESH_SECONDS
        await one.of(TENANT)
        assert one._underway
    assert not one._underway


async def test_an_entry_this_version_has_no_use_for_is_left_out(
    database: Database, catalogs: TenantCatalogs
) -> None:
    await _put(database)
    await _put(database, "acme/two")
    async with database.writing() as connection:
        await connection.execute(
            sa.update(catalog_entries)
            .where(catalog_entries.c.key == "acme/two")
            .values(document='{"name": "acme/two", "shape": "of a later version"}')
        )
    assert await _knows(catalogs)
    assert not await _knows(catalogs, "acme/two")


async def test_only_so_many_tenants_are_remembered(
    database: Database, catalogs: TenantCatalogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vramgate.workflows.tenant_catalogs.MOST_MERGED", 2)
    monkeypatch.setattr("vramgate.workflows.tenant_catalogs.MOST_KNOWN", 2)
    for number in range(4):
        await _put(database, tenant=f"own-{number}")
        assert await _knows(catalogs, tenant=f"own-{number}")
        assert not await _knows(catalogs, tenant=f"plain-{number}")
    assert (list(catalogs._merged), list(catalogs._plain)) == (
        ["own-2", "own-3"],
        ["plain-2", "plain-3"],
    )
