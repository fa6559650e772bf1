"""Policy versions as rows, on both databases."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from vramgate.persistence import policies as rows
from vramgate.persistence.engine import Database
from vramgate.persistence.policies import (
    ActivePolicy,
    PolicyPlace,
    PolicyStatus,
    StoredPolicy,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
TENANT = "team-a"


def _policy(version: str, minutes: int = 0, **fields: object) -> StoredPolicy:
    moment = NOW + timedelta(minutes=minutes)
    draft = StoredPolicy(
        version=version,
        status=PolicyStatus.DRAFT,
        note="why",
        document=f'{{"note": "{version}"}}',
        digest=f"digest of {version}",
        created_at=moment,
        created_by="ann",
    )
    return replace(draft, **fields)  # type: ignore[arg-type]


async def _add(database: Database, *policies: StoredPolicy, tenant: str = TENANT) -> None:
    async with database.writing() as connection:
        for one in policies:
            await rows.add_policy(connection, tenant, one)


async def _activate(database: Database, version: str) -> None:
    async with database.writing() as connection:
        await rows.activate_policy(connection, TENANT, version, by="bob", at=NOW)


async def test_a_version_comes_back_as_it_was(database: Database) -> None:
    draft = _policy("p-1")
    used = _policy(
        "p-2",
        status=PolicyStatus.RETIRED,
        activated_at=NOW,
        activated_by="bob",
        retired_at=NOW + timedelta(hours=1),
    )
    await _add(database, draft, used)
    async with database.reading() as connection:
        for one in (draft, used):
            pair = await rows.find_policy(connection, TENANT, one.version)
            assert (pair.meant, pair.active) == (one, None)
        assert (await rows.find_policy(connection, "team-b", "p-1")).meant is None
        assert (await rows.find_policy(connection, TENANT, "p-3")).meant is None


async def test_the_database_holds_to_one_active_version_a_tenant(database: Database) -> None:
    await _add(database, _policy("p-1"), _policy("p-2"))
    await _add(database, _policy("p-1", status=PolicyStatus.ACTIVE), tenant="team-b")
    await _activate(database, "p-1")
    with pytest.raises(sa.exc.IntegrityError):
        await _activate(database, "p-2")
    async with database.reading() as connection:
        pair = await rows.find_policy(connection, TENANT, "p-2")
    assert pair.meant is not None
    assert pair.active is not None
    assert (pair.meant.status, pair.active.version) == (PolicyStatus.DRAFT, "p-1")
    assert (pair.active.activated_by, pair.active.activated_at) == ("bob", NOW)


async def test_the_document_is_read_only_where_its_version_is_not_known(
    database: Database,
) -> None:
    await _add(database, _policy("p-1"))
    async with database.reading() as connection:
        assert await rows.read_active(connection, TENANT, known=None) is None
    await _activate(database, "p-1")
    async with database.reading() as connection:
        whole = ActivePolicy(version="p-1", document='{"note": "p-1"}')
        assert await rows.read_active(connection, TENANT, known=None) == whole
        assert await rows.read_active(connection, TENANT, known="p-0") == whole
        known = await rows.read_active(connection, TENANT, known="p-1")
        assert known == ActivePolicy(version="p-1", document=None)
        assert await rows.read_active(connection, "team-b", known=None) is None


async def test_a_retired_version_can_be_active_again(database: Database) -> None:
    await _add(database, _policy("p-1"))
    await _activate(database, "p-1")
    async with database.writing() as connection:
        await rows.retire_policy(connection, TENANT, "p-1", at=NOW)
    async with database.reading() as connection:
        meant = (await rows.find_policy(connection, TENANT, "p-1")).meant
        assert meant is not None
        assert (meant.status, meant.retired_at) == (PolicyStatus.RETIRED, NOW)
        assert await rows.find_in_use(connection, TENANT, "digest of p-1") is None
    await _activate(database, "p-1")
    async with database.reading() as connection:
        meant = (await rows.find_policy(connection, TENANT, "p-1")).meant
        assert meant is not None
        assert (meant.status, meant.retired_at) == (PolicyStatus.ACTIVE, None)
        assert await rows.find_in_use(connection, TENANT, "digest of p-1") == "p-1"
        assert await rows.find_in_use(connection, "team-b", "digest of p-1") is None


async def test_versions_are_listed_newest_first_from_any_place_on(database: Database) -> None:
    # Two of one moment, as two administrators make them.
    await _add(database, *(_policy(f"p-{n}", minutes=n // 2) for n in range(5)))
    await _add(database, _policy("p-9"), tenant="team-b")
    await _activate(database, "p-0")
    seen: list[str] = []
    after = None
    for _ in range(3):
        async with database.reading() as connection:
            page = await rows.list_policies(connection, TENANT, after=after, limit=2)
        assert page.active_version == "p-0"
        seen += [one.version for one in page.items]
        last = page.items[-1]
        after = PolicyPlace(created_at=last.created_at, version=last.version)
    assert seen == ["p-4", "p-3", "p-2", "p-1", "p-0"]
    async with database.reading() as connection:
        page = await rows.list_policies(connection, TENANT, after=after, limit=2)
    assert page.items == []


async def test_what_may_go_is_what_was_never_active_or_long_ago(database: Database) -> None:
    old, new = NOW - timedelta(days=800), NOW
    retired = PolicyStatus.RETIRED
    await _add(
        database,
        _policy("draft"),
        _policy("active", status=PolicyStatus.ACTIVE, activated_at=old),
        _policy("left lately", status=retired, activated_at=old, retired_at=new),
        _policy("left long ago", status=retired, activated_at=old, retired_at=old),
        _policy("never active", status=retired, retired_at=new),
    )
    async with database.writing() as connection:
        spent = await rows.spent_versions(connection, TENANT, before=NOW - timedelta(days=730))
        assert [one.version for one in spent] == ["left long ago", "never active"]
        assert spent[0].characters == len('{"note": "left long ago"}')
        held = await rows.holdings_of(connection, TENANT)
        assert (held.versions, (await rows.holdings_of(connection, "team-b")).versions) == (5, 0)
        await rows.remove_policy(connection, TENANT, "never active")
        after = await rows.holdings_of(connection, TENANT)
        assert (after.versions, after.characters) == (4, held.characters - spent[1].characters)


async def test_names_that_begin_alike_are_found(database: Database) -> None:
    await _add(database, _policy("p-0a"), _policy("p-0a-2"), _policy("p-0b"))
    async with database.reading() as connection:
        assert await rows.versions_like(connection, TENANT, "p-0a") == {"p-0a", "p-0a-2"}
        assert await rows.versions_like(connection, "team-b", "p-0a") == set()


async def test_changes_of_one_tenant_wait_for_each_other(database: Database) -> None:
    """Both read that nothing is there; without the wait both would then write."""

    async def change(name: str) -> bool:
        async with database.writing() as connection:
            await rows.begin_change(connection, TENANT)
            if (await rows.holdings_of(connection, TENANT)).versions:
                return False
            await asyncio.sleep(0.05)
            await rows.add_policy(connection, TENANT, _policy(name))
            return True

    assert sorted(await asyncio.gather(*(change(f"p-{n}") for n in range(4)))) == [
        False,
        False,
        False,
        True,
    ]
