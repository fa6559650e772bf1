"""A witness that looks for a row as soon as somebody was told that it is there."""

import asyncio

import sqlalchemy as sa

from tests.chaos.schedulers import Told
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.persistence.tables import decision_keys, decisions

LOOK_SECONDS = 2.0
"""A database that hangs, or is gone, shows nobody anything."""


class Witness:
    """Reads the database beside the service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.seen = 0
        self.unable = 0
        """Looks at a database that did not answer."""
        self.missed: list[str] = []

    async def look_for(self, told: Told) -> None:
        """Look for the row of a decision that was told to be recorded."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                is_there = await self._is_there(told)
        except (TimeoutError, DatabaseUnavailableError):
            self.unable += 1
            return
        self.seen += is_there
        if not is_there:
            self.missed.append(f"{told.key} was told to be recorded and was no row right after")

    async def _is_there(self, told: Told) -> bool:
        tenant, decision_id = told.key
        is_it = sa.and_(
            decisions.c.tenant == tenant,
            decisions.c.decision_id == decision_id,
            decision_keys.c.tenant == decisions.c.tenant,
            decision_keys.c.decision_id == decisions.c.decision_id,
            decision_keys.c.decided_at == decisions.c.decided_at,
        )
        async with self._database.reading() as connection:
            found = await connection.execute(sa.select(decisions.c.decision).where(is_it))
            return [row.decision for row in found] == [told.answer["decision"]]
