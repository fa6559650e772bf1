"""The chain of revisions on both databases."""

import asyncio

import sqlalchemy as sa
from alembic import command

from tests.databases import Databases
from vramgate.persistence.engine import Database
from vramgate.persistence.migrate import (
    alembic_config,
    is_behind,
    migrate,
    migration_sql,
    newest_revision,
)
from vramgate.persistence.tables import metadata


def test_the_chain_makes_exactly_the_tables_of_the_code(databases: Databases) -> None:
    url = databases.fresh()
    command.check(alembic_config(url))


def test_up_down_and_up_again_leaves_nothing_and_everything(databases: Databases) -> None:
    url = databases.empty()
    first = migrate(url)
    assert (first.before, first.after) == (None, newest_revision())
    down = migrate(url, to="base")
    assert (down.before, down.after) == (newest_revision(), None)
    assert _tables(url) <= {"alembic_version"}
    migrate(url)
    assert set(metadata.tables) <= _tables(url)


def test_migrating_a_migrated_database_changes_nothing(databases: Databases) -> None:
    url = databases.fresh()
    again = migrate(url)
    assert again.before == again.after == newest_revision()


def test_only_a_known_older_schema_is_behind() -> None:
    assert is_behind(None)
    assert not is_behind(newest_revision())
    # Made by a newer version, whose revisions work with this code.
    assert not is_behind("9999")


def test_the_sql_for_postgresql_can_be_read_before_it_runs() -> None:
    text = migration_sql("postgresql://db.example/vramgate")
    assert "PARTITION BY RANGE (received_at)" in text
    assert "max_allocated_bytes BIGINT" in text


def _tables(url: str) -> set[str]:
    async def names() -> set[str]:
        database = Database(url)
        try:
            async with database.reading() as connection:
                return set(await connection.run_sync(lambda one: sa.inspect(one).get_table_names()))
        finally:
            await database.close()

    return asyncio.run(names())
