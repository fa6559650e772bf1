"""Bring a database to the schema this version works with, and say which one it has."""

import asyncio
import fcntl
import importlib.metadata
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError

from vramgate.errors import DomainError
from vramgate.persistence.engine import (
    Database,
    DatabaseUnavailableError,
    database_url,
    is_outage,
    make_folder,
)
from vramgate.persistence.partitions import PARTITION_NAMES, ensure_partitions

OTHERS_SECONDS = 30.0
"""How long another migration of the same file is waited for; one takes tenths of a second."""
LOCK_PAUSE_SECONDS = 0.02
_MARKER = "vramgate/migrations/env.py"
# lock_not_available, query_canceled
_OVER_ITS_LIMIT = {"55P03", "57014"}


class SchemaOutdatedError(DomainError):
    """The database has an older schema than this version works with."""

    code = "schema_outdated"


class UnknownRevisionError(DomainError):
    """The chain has no such revision, or not the one the database is at."""

    code = "unknown_revision"


class MigrationFailedError(DomainError):
    """The database refused a step; that step, and what would follow, is not done."""

    code = "migration_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A database brought from one revision to another; None is an empty database."""

    before: str | None
    after: str | None

    @property
    def is_ahead(self) -> bool:
        """Whether a newer version has migrated it, which by our rules this one works with too."""
        return self.after is not None and self.after not in _known_revisions()


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

    What a newer version has migrated stays as it is, unless a revision is named. Not to be called
    where an event loop runs: it starts its own.

    Raises:
        UnknownRevisionError: this version has no such revision, or not the database's own.
        MigrationFailedError: a step waited for a lock, or ran, longer than it may.
        DatabaseUnavailableError: the database does not answer.
    """
    make_folder(database_url(url))
    with _alone(database_url(url)):
        before = asyncio.run(_revision_at(url))
        with _faults_in_words():
            _move(url, before, to)
            asyncio.run(_add_partitions(url))
        return Migration(before=before, after=asyncio.run(_revision_at(url)))


@contextmanager
def _alone(url: sa.URL) -> Iterator[None]:
    """Hold off other migrations of an SQLite file; PostgreSQL has a lock for that, in ``env.py``."""
    if url.get_backend_name() != "sqlite" or not url.database:
        yield
        return
    # Of its folder: SQLite's own locks on the file would go with a descriptor that we close.
    descriptor = os.open(Path(url.database).parent, os.O_RDONLY)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    until = time.monotonic() + OTHERS_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise MigrationFailedError(
                    f"Another migration has gone on for {OTHERS_SECONDS:g} s; nothing was changed.",
                    hint="Try again when it has ended.",
                ) from None
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return


def _move(url: str, before: str | None, to: str) -> None:
    config = alembic_config(url)
    if to == "head" and not is_behind(before):
        return
    if before is not None and to not in {"head", before} and _is_older(to, before):
        command.downgrade(config, to)
    else:
        command.upgrade(config, to)


@contextmanager
def _faults_in_words() -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise UnknownRevisionError(
            f"This version cannot migrate that way: {error}.",
            hint="`--to` takes a revision of this version's chain, `head` or `base`.",
        ) from error
    except (DBAPIError, OSError) as error:
        if _sqlstate(error) in _OVER_ITS_LIMIT:
            raise MigrationFailedError(
                "The migration waited for a lock, or ran, longer than it may; the step was undone.",
                hint="Try again when long transactions and other migrations have ended.",
            ) from error
        if is_outage(error):
            raise DatabaseUnavailableError(
                "The database does not answer; the step under way was undone.",
                hint="Check VRAMGATE_DATABASE_URL, and run the same again.",
            ) from error
        raise


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
    return found in _known_revisions() and found != newest_revision()


def _known_revisions() -> set[str]:
    script = ScriptDirectory(str(migrations_folder()))
    return {one.revision for one in script.walk_revisions()}


def _is_older(revision: str, than: str) -> bool:
    script = ScriptDirectory(str(migrations_folder()))
    if revision == "base":
        return True
    return revision in {one.revision for one in script.iterate_revisions(than, "base")}


def _sqlstate(error: BaseException) -> str:
    return str(getattr(getattr(error, "orig", None), "sqlstate", "") or "")


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
