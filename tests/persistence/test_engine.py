"""Connections, and their end."""

import asyncio
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.chaos.harness import CrashingPostgres, short_folder
from vramgate.persistence.engine import CLOSE_SECONDS, Database


@pytest.fixture
def server() -> Iterator[CrashingPostgres]:
    """Return a PostgreSQL server that a test may harm."""
    with short_folder() as folder:
        started = CrashingPostgres(folder)
        try:
            yield started
        finally:
            started.stop()


async def test_closing_waits_for_no_database_that_hangs(server: CrashingPostgres) -> None:
    database = Database(server.fresh())
    async with database.reading() as one, database.reading() as other:
        await asyncio.gather(*(each.execute(sa.text("SELECT 1")) for each in (one, other)))
    with server.frozen():
        async with asyncio.timeout(CLOSE_SECONDS + 10):
            await database.close()
