"""A scheduler, its token, and the service that it asks, on both databases."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.authentication.tokens import IssuedToken
from vramgate.persistence.engine import Database
from vramgate.workflows import admissions


@pytest.fixture(autouse=True)
def _commits_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers wait for their commits as long as they may: a busy machine is no failure."""
    monkeypatch.setattr(admissions, "RECORD_SECONDS", 5.0)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return a folder for the journal."""
    return tmp_path / "journal"


@pytest_asyncio.fixture
async def admitter(database: Database) -> IssuedToken:
    """Return the token of a scheduler."""
    return await a_token(database, Scope.ADMIT, Scope.READ, Scope.ADMIN, name="scheduler")


@pytest_asyncio.fixture
async def client(
    database_url: str, journal: Path, admitter: IssuedToken
) -> AsyncIterator[httpx.AsyncClient]:
    """Return the scheduler's client of a service on a fresh database."""
    settings = a_settings(database_url, journal_folder=journal)
    async with served(settings) as client:
        client.headers.update(bearer(admitter))
        yield client
