"""The database over the service's life: brought up to date, checked, looked after."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from anyio import to_thread

from vramgate.errors import DomainError
from vramgate.persistence.engine import Database, DatabaseUnavailableError, make_folder
from vramgate.persistence.idempotency import forget_expired
from vramgate.persistence.launch_files import forget_unsent
from vramgate.persistence.migrate import SchemaOutdatedError, is_behind, migrate, revision_of
from vramgate.persistence.partitions import ensure_partitions
from vramgate.telemetry import logger
from vramgate.workflows.launch_files import KEPT_FOR

UPKEEP_SECONDS = 3600.0
CHECK_SECONDS = 2.0
"""How long a readiness check waits for the database."""
END_SECONDS = 2.0
"""How long the service's end waits for upkeep under way, which takes a moment."""

_log = logger("vramgate.storage")


async def bring_up_to_date(database: Database) -> None:
    """Migrate an embedded database; check one that is migrated by the command.

    Raises:
        SchemaOutdatedError: PostgreSQL lacks something this version needs.
        InvalidDatabaseUrlError: the SQLite file cannot be made or written.
        DatabaseUnavailableError: the database does not answer.
    """
    if database.is_sqlite:
        make_folder(database.url)
        found = await revision_of(database) if database.has_file else None
        if is_behind(found):
            address = database.url.render_as_string(hide_password=False)
            await to_thread.run_sync(migrate, address)
        return
    found = await revision_of(database)
    if is_behind(found):
        raise SchemaOutdatedError(
            f"The database is at revision {found or 'none'}, older than this version works with.",
            hint="Run `vramgate migrate` with the same VRAMGATE_DATABASE_URL, then start again.",
        )


async def trouble_of(database: Database) -> str | None:
    """Return why the database cannot be used now, or None."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            found = await revision_of(database)
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except DomainError as error:
        return error.message
    return f"at revision {found or 'none'}; run `vramgate migrate`" if is_behind(found) else None


async def check_storage(url: str) -> None:
    """Bring the database at the address up to date, or say why it cannot be used, before serving.

    Raises:
        SchemaOutdatedError: PostgreSQL lacks something this version needs.
        InvalidDatabaseUrlError: the address names no database.
    """
    database = Database(url)
    try:
        await bring_up_to_date(database)
    except DatabaseUnavailableError:
        # It may come yet; until then `/readyz` says so and nothing is acknowledged.
        _log.warning("the database does not answer yet")
    finally:
        await database.close()


class Upkeep:
    """What a database needs once an hour; an async context manager around the service's life."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start."""
        self._task = asyncio.create_task(self._run(), name="upkeep")
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop once what is under way is done: cut off, a connection would stay open.

        A server that hangs is not waited for; SQLite ends a wait by itself.
        """
        self._stop.set()
        if self._task is None:
            return
        await asyncio.wait({self._task}, timeout=None if self._database.is_sqlite else END_SECONDS)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._stop.is_set():
            try:
                await look_after(self._database)
            except DatabaseUnavailableError as error:
                _log.warning("upkeep waits for the database", reason=error.message)
            except Exception:  # noqa: BLE001 tried again in an hour; requests do not depend on it
                _log.exception("upkeep failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), UPKEEP_SECONDS)


async def look_after(database: Database) -> None:
    """Make the partitions of the coming months, forget keys and files whose time is over."""
    async with database.writing() as connection:
        await ensure_partitions(connection)
    async with database.writing() as connection:
        await forget_expired(connection, datetime.now(UTC))
    async with database.writing() as connection:
        await forget_unsent(connection, datetime.now(UTC) - KEPT_FOR)
