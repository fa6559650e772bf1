"""Database: connections to SQLite or PostgreSQL, and transactions on them."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from vramgate.errors import DomainError

BUSY_SECONDS = 10.0
"""How long a writer waits for another one, on both databases."""
STATEMENT_SECONDS = 30.0
CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 2.0
"""How long all connections together may take to be closed; PostgreSQL's part in it takes milliseconds."""
POOL_SIZE = 10
WAL_PAUSE_SECONDS = 0.01

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}


class InvalidDatabaseUrlError(DomainError):
    """The address names no database this service can use."""

    code = "invalid_database_url"


class DatabaseUnavailableError(DomainError):
    """The database does not answer; nothing of what was asked has been acknowledged."""

    code = "database_unavailable"


class Database:
    """One database: SQLite in a file or PostgreSQL, reached through a pool."""

    def __init__(self, url: str) -> None:
        """Prepare the pool; nothing is connected before the first query.

        Raises:
            InvalidDatabaseUrlError: the address is no SQLite or PostgreSQL one.
        """
        self.url = database_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(self.url) if self.is_sqlite else _postgres_engine(self.url)
        # The same pool; a connection has its usual way back once it is returned.
        self._at_once = (
            self.engine
            if self.is_sqlite
            else self.engine.execution_options(isolation_level="AUTOCOMMIT")
        )
        self._is_closed = False
        self._drivers: WeakSet[Any] = WeakSet()
        if not self.is_sqlite:
            sa.event.listen(self.engine.sync_engine, "connect", self._remember)

    @property
    def has_file(self) -> bool:
        """Whether the SQLite file exists; always false on PostgreSQL."""
        return self.is_sqlite and Path(str(self.url.database)).is_file()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that only reads.

        Raises:
            DatabaseUnavailableError: the database does not answer.
        """
        self._check_open()
        with _outages():
            async with self.engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction that writes; it is committed, durably, when the block ends.

        Raises:
            DatabaseUnavailableError: the database does not answer. Whether the commit took place is
                then not known.
        """
        self._check_open()
        with _outages():
            async with self.engine.connect() as connection:
                await connection.execution_options(writes=True)
                async with connection.begin():
                    yield connection

    @asynccontextmanager
    async def writing_at_once(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for one statement that says everything: on PostgreSQL it is its own transaction.

        Two round trips less than ``writing``, and half of its work; on SQLite they are the same.

        Raises:
            DatabaseUnavailableError: as ``writing``.
        """
        if self.is_sqlite:
            async with self.writing() as connection:
                yield connection
            return
        self._check_open()
        with _outages():
            async with self._at_once.connect() as connection:
                yield connection

    async def answers(self, *, within_seconds: float) -> bool:
        """Return whether the database answers, whatever is in it."""
        try:
            async with asyncio.timeout(within_seconds), self.reading() as connection:
                await connection.exec_driver_sql("SELECT 1")
        except (TimeoutError, DatabaseUnavailableError):
            return False
        return True

    async def close(self) -> None:
        """Close every connection, and open no others: nobody would close them."""
        self._is_closed = True
        # A server that hangs never says farewell: what is left then is cut off. SQLite ends a wait by
        # itself, and its driver's threads would outlive us.
        with suppress(TimeoutError):
            async with asyncio.timeout(None if self.is_sqlite else CLOSE_SECONDS):
                await self.engine.dispose()
        for driver in [one for one in self._drivers if not one.is_closed()]:
            driver.terminate()

    def _remember(self, connection: Any, _record: object) -> None:  # noqa: ANN401 the driver's own
        self._drivers.add(connection.driver_connection)

    def _check_open(self) -> None:
        if self._is_closed:
            raise DatabaseUnavailableError("The service is starting or stopping.")


@contextmanager
def _outages() -> Iterator[None]:
    """Turn a driver's word for "not reachable" into ours; faults of a statement stay what they are."""
    try:
        yield
    except Exception as error:
        if not is_outage(error):
            raise
        raise DatabaseUnavailableError(
            "The database does not answer; nothing was acknowledged.",
            hint="Send the same again in a moment: what was stored counts once.",
        ) from error


def is_outage(error: BaseException) -> bool:
    """Return whether the error says that the database is away, starting, stopping or busy."""
    if isinstance(error, DBAPIError):
        return (
            error.connection_invalidated
            or isinstance(error, OperationalError | InterfaceError)
            or _sqlstate(error).startswith(_OUTAGE_CLASSES)
        )
    # Of the system: no route, no such host, no socket where the server's should be.
    return isinstance(error, OSError | sa.exc.TimeoutError)


def is_about_values(error: BaseException) -> bool:
    """Return whether what was written is at fault, rather than the state the database is in."""
    if not isinstance(error, DBAPIError):
        return True
    return isinstance(error, IntegrityError | DataError) or _sqlstate(error).startswith(
        _VALUE_CLASSES
    )


# Connection exceptions, insufficient resources, operator intervention, lock not available.
_OUTAGE_CLASSES = ("08", "53", "57", "55P03")
# Data exceptions, violations of constraints.
_VALUE_CLASSES = ("22", "23")


def _sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", "") or "")


def database_url(text: str) -> URL:
    """Return the address with the driver we use.

    Raises:
        InvalidDatabaseUrlError: it is no SQLite or PostgreSQL address.

    >>> database_url("postgresql://db.example/vramgate").drivername
    'postgresql+asyncpg'
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    driver = None if url is None else _DRIVERS.get(url.drivername)
    if url is None or driver is None:
        scheme = re.split(r"[:/]", text, maxsplit=1)[0][:40]
        raise InvalidDatabaseUrlError(
            f"VRAMGATE_DATABASE_URL begins with {scheme!r}, which is no database this service uses.",
            hint="Give sqlite:////folder/vramgate.db or postgresql://user:password@host/name.",
        )
    if driver.startswith("sqlite") and url.database in {None, "", ":memory:"}:
        raise InvalidDatabaseUrlError(
            "VRAMGATE_DATABASE_URL names SQLite without a file, where nothing would be kept.",
            hint="Give sqlite:////folder/vramgate.db (four slashes before an absolute path).",
        )
    return url.set(drivername=driver)


def make_folder(url: URL) -> None:
    """Make the folder of an SQLite file, for its owner alone.

    Raises:
        InvalidDatabaseUrlError: it cannot be made, or nothing can be written there.
    """
    if url.get_backend_name() == "sqlite" and url.database:
        folder = Path(url.database).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidDatabaseUrlError(
                f"VRAMGATE_DATABASE_URL names a file in {folder}, which cannot be made: "
                f"{error.strerror}.",
                hint="Name a folder that the service may write.",
            ) from error
        _check_file(Path(url.database))


def _check_file(file: Path) -> None:
    """Raise where SQLite would only say that it cannot open its file."""
    # The folder first: SQLite writes its journal there, and what is in a closed one cannot be asked.
    is_open = os.access(file.parent, os.R_OK | os.W_OK | os.X_OK)
    if is_open and file.is_dir():
        raise _no_database(file)
    if not is_open or (file.exists() and not os.access(file, os.R_OK | os.W_OK)):
        raise InvalidDatabaseUrlError(
            f"VRAMGATE_DATABASE_URL names {file}, which this user may not read and write.",
            hint="Run this as the service's user, or name another file.",
        )


def _sqlite_engine(url: URL) -> AsyncEngine:
    engine = create_async_engine(
        url, connect_args={"timeout": BUSY_SECONDS}, pool_size=POOL_SIZE, max_overflow=0
    )

    @sa.event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 the driver's own
        # We say BEGIN ourselves, below.
        connection.isolation_level = None
        cursor = connection.cursor()
        try:
            _switch_to_wal(cursor)
            for setting in ("synchronous=FULL", "foreign_keys=ON"):
                cursor.execute(f"PRAGMA {setting}")
            cursor.close()
        except BaseException as error:
            # No pool has it yet that would close it: a file that is no database, or is locked.
            connection.close()
            if getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB":
                raise _no_database(Path(str(url.database))) from error
            raise

    @sa.event.listens_for(engine.sync_engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # A writer that began as a reader can fail at its first write; it waits at BEGIN instead.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _switch_to_wal(cursor: Any) -> None:  # noqa: ANN401 the driver's own
    """Have the file written ahead; of two who make a new file so, one is turned away without a wait."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except Exception as error:
            code = getattr(error, "sqlite_errorname", "")
            if not code.startswith("SQLITE_BUSY") or time.monotonic() > until:
                raise
            time.sleep(WAL_PAUSE_SECONDS)
        else:
            return


def _no_database(file: Path) -> InvalidDatabaseUrlError:
    return InvalidDatabaseUrlError(
        f"VRAMGATE_DATABASE_URL names {file}, which is no SQLite database.",
        hint="Name another file: one that is not there yet is made.",
    )


def _postgres_engine(url: URL) -> AsyncEngine:
    milliseconds = {
        "statement_timeout": STATEMENT_SECONDS,
        "lock_timeout": BUSY_SECONDS,
        # A client that stalls inside a transaction must not hold the others up.
        "idle_in_transaction_session_timeout": BUSY_SECONDS,
    }
    return create_async_engine(
        url,
        pool_size=POOL_SIZE,
        max_overflow=POOL_SIZE,
        pool_timeout=BUSY_SECONDS,
        pool_pre_ping=False,
        connect_args={
            "timeout": CONNECT_SECONDS,
            "server_settings": {
                "application_name": "vramgate",
                "timezone": "UTC",
                # An acknowledged report is on disk, whatever the server's default is.
                "synchronous_commit": "on",
                **{name: str(round(1000 * seconds)) for name, seconds in milliseconds.items()},
            },
        },
    )
