"""Settings of the whole test run, and the databases tests run on."""

import logging
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import structlog
from hypothesis import settings

from tests.databases import Databases, SqliteFiles, postgres_server
from vramgate.persistence.engine import Database

# Same examples every time, so that a red run means a change; `--hypothesis-profile=dev` explores.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci")


@pytest.fixture(scope="session", autouse=True)
def _environment_without_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep a developer's own settings, and his database, out of the tests."""
    for name in [name for name in os.environ if name.startswith("VRAMGATE_")]:
        del os.environ[name]
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def _quiet_log() -> None:
    """Show what went wrong only, beside a test that failed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


@pytest.fixture(scope="session")
def sqlite_files(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """Return the maker of fresh SQLite databases."""
    return SqliteFiles(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    """Return the maker of fresh PostgreSQL databases, on a server of this run alone."""
    with tempfile.TemporaryDirectory(prefix="vg") as folder, postgres_server(Path(folder)) as one:
        yield one


@pytest.fixture(params=["sqlite_files", "postgres"], ids=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest) -> Databases:
    """Return the maker of databases; what uses it runs on both kinds."""
    made: Databases = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def database_url(databases: Databases) -> str:
    """Return the address of a fresh, migrated database."""
    return databases.fresh()


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """Return a fresh, migrated database, opened."""
    database = Database(database_url)
    yield database
    await database.close()
