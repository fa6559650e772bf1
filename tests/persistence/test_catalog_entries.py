"""A tenant's own models and accelerators as rows, on both databases."""

import asyncio
from typing import Any

import pytest

from tests.databases import Databases
from vramgate.catalog.site_entries import EntryKind
from vramgate.persistence import catalog_entries as entries
from vramgate.persistence.catalog_entries import EntryRow, Holdings
from vramgate.persistence.engine import Database

OWN, OTHER = "team-a", "team-b"


def a_row(number: int = 1, **overrides: Any) -> EntryRow:  # noqa: ANN401 whatever a row holds
    given: dict[str, Any] = {
        "id": (EntryKind.MODEL, f"acme/m{number}"),
        "name": f"Acme/M{number}",
        "names": (f"acme/m{number}", f"größe-{number}"),
        "digest": f"digest-{number}",
        "document": f'{{"number":{number}}}',
    }
    return EntryRow(**{**given, **overrides})


async def _add(database: Database, tenant: str, *rows: EntryRow) -> str:
    async with database.writing() as connection:
        await entries.begin_change(connection, tenant)
        for row in rows:
            await entries.add_entry(connection, tenant, row)
        version = await entries.version_of(connection, tenant)
    assert version is not None
    return version


async def test_every_change_gives_the_tenant_another_version(database: Database) -> None:
    async with database.reading() as connection:
        assert await entries.version_of(connection, OWN) is None
    versions = [await _add(database, OWN, a_row(number)) for number in range(3)]
    assert len(set(versions)) == 3
    async with database.reading() as connection:
        assert await entries.version_of(connection, OWN) == versions[-1]
        assert await entries.version_of(connection, OTHER) is None


async def test_entries_are_read_by_what_is_new_of_them(database: Database) -> None:
    rows = [a_row(number) for number in range(entries.NAMED_AT_MOST + 3)]
    await _add(database, OWN, *rows)
    await _add(database, OTHER, a_row(1, digest="theirs", document="{}"))
    async with database.reading() as connection:
        digests = await entries.digests_of(connection, OWN)
        few = await entries.documents_of(connection, OWN, ["digest-2", "theirs", "nobody's"])
        every = await entries.documents_of(connection, OWN, [*digests.values(), "theirs"])
    assert digests == {row.id: row.digest for row in rows}
    assert few == {"digest-2": rows[2].document}
    assert every == {row.digest: row.document for row in rows}


async def test_an_entry_is_replaced_and_removed_in_its_own_tenant_alone(
    database: Database,
) -> None:
    for tenant in (OWN, OTHER):
        await _add(database, tenant, a_row(), a_row(id=(EntryKind.ACCELERATOR, "acme/m1")))
    async with database.writing() as connection:
        await entries.replace_entry(connection, OWN, a_row(digest="new"))
    async with database.reading() as connection:
        found = [await entries.digest_of(connection, one, a_row().id) for one in (OWN, OTHER)]
    assert found == ["new", "digest-1"]
    async with database.writing() as connection:
        await entries.remove_entry(connection, OWN, a_row().id)
    async with database.reading() as connection:
        assert len(await entries.digests_of(connection, OWN)) == 1
        assert len(await entries.digests_of(connection, OTHER)) == 2


async def test_what_a_tenant_has_beside_an_entry_is_counted(database: Database) -> None:
    await _add(database, OWN, a_row(1, document="größe"), a_row(2, document="12345678"))
    await _add(database, OTHER, a_row(3))
    async with database.reading() as connection:
        beside = await entries.holdings_of(connection, OWN, a_row(2).id)
        nothing = await entries.holdings_of(connection, "team-c", a_row(2).id)
        owners = await entries.owners_of_names(connection, OWN, a_row(2).id)
    assert beside == Holdings(entries=1, characters=5)
    assert nothing == Holdings(entries=0, characters=0)
    assert owners == {"acme/m1": "Acme/M1", "größe-1": "Acme/M1"}


async def test_changes_of_one_tenant_wait_for_each_other_and_not_for_another_s(
    postgres: Databases,
) -> None:
    database = Database(postgres.fresh())
    held = database.writing()
    connection = await held.__aenter__()
    await entries.begin_change(connection, OWN)
    await asyncio.wait_for(_add(database, OTHER, a_row()), 5)
    waiting = asyncio.create_task(_add(database, OWN, a_row()))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.3)
    await held.__aexit__(None, None, None)
    await asyncio.wait_for(waiting, 5)
    await database.close()
