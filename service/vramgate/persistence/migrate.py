"""Bring a database to the schema this version works with, and say which one it has."""

import asyncio
import importlib.metadata
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from vramgate.errors import DomainError
from vramgate.persistence.engine import Database, database_url, make_folder
from vramgate.persistence.partitions import PARTITION_NAMES, ensure_partitions

_MARKER = "vramgate/migrations/env.py"


class SchemaOutdatedError(DomainError):
    """The database has an older schema than this version works with."""

    code = "schema_outdated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A database brought from one revision to another; None is an empty database."""

    before: str | None
    after: str | None


def is_ours(
    _object: object, name: str | None, kind: str, _reflected: object, _compared_to: object
) -> bool:
    """Return whether Alembic looks after this object: everything but the monthly partitions."""
    return not (kind == "table" and name is not None and PARTITION_NAMES.fullmatch(name))


def migrations_folder() -> Path:
    """Return the folder of the revisions: in the source tree, or where the wheel put it."""
    beside = Path(__file__).parents[3] / "migrations"
    if (beside / "env.py").is_file():
        return beside
    files = importlib.metadata.files("vramgate") or []
    installed = next(one for one in files if str(one).endswith(_MARKER))
    return Path(str(installed.locate())).parent


def alembic_config(url: str, *, output: StringIO | None = None) -> Config:
    """Return Alembic's configuration for the database at the address."""
    config = Config(output_buffer=output) if output is not None else Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config


def newest_revision() -> str:
    """Return the revision that this version of the code works with."""
    head = ScriptDirectory(str(migrations_folder())).get_current_head()
    assert head is not None, "there are revisions"  # noqa: S101 a broken installation
    return head


def migrate(url: str, *, to: str = "head") -> Migration:
    """Bring the database at the address to a revision, and its partitions up to date.

    Not to be called where an event loop runs: it starts its own.
    """
    make_folder(database_url(url))
    before = asyncio.run(_revision_at(url))
    config = alembic_config(url)
    if before is not None and to not in {"head", before} and _is_older(to, before):
        command.downgrade(config, to)
    else:
        command.upgrade(config, to)
    asyncio.run(_add_partitions(url))
    return Migration(before=before, after=asyncio.run(_revision_at(url)))


def migration_sql(url: str) -> str:
    """Return the SQL of the whole chain for the database's dialect, without running it."""
    output = StringIO()
    command.upgrade(alembic_config(str(database_url(url)), output=output), "head", sql=True)
    return output.getvalue()


async def revision_of(database: Database) -> str | None:
    """Return the revision the database has; None where it is empty."""
    async with database.reading() as connection:
        return await connection.run_sync(_current)


def is_behind(found: str | None) -> bool:
    """Return whether a database at the revision lacks something this version needs.

    A revision that this version does not know was made by a newer one, which by our rules works
    with this code too.
    """
    if found is None:
        return True
    script = ScriptDirectory(str(migrations_folder()))
    known = {one.revision for one in script.walk_revisions()}
    return found in known and found != script.get_current_head()


def _is_older(revision: str, than: str) -> bool:
    script = ScriptDirectory(str(migrations_folder()))
    if revision == "base":
        return True
    return revision in {one.revision for one in script.iterate_revisions(than, "base")}


def _current(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


async def _revision_at(url: str) -> str | None:
    database = Database(url)
    try:
        return await revision_of(database)
    finally:
        await database.close()


async def _add_partitions(url: str) -> None:
    database = Database(url)
    try:
        async with database.writing() as connection:
            await ensure_partitions(connection)
    finally:
        await database.close()
