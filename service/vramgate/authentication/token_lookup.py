"""Rows of tokens, as they were at most a few seconds ago, whatever callers send.

A token in use costs the database one read every few seconds; a wrong one costs nothing while its
id is remembered, and all wrong ones together cost a bounded number of reads a second.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from vramgate.errors import DomainError
from vramgate.persistence import callers
from vramgate.persistence.callers import StoredToken
from vramgate.persistence.engine import Database

FRESH_SECONDS = 3.0
"""A revocation is promised to work within 5 seconds in every replica."""
MAX_FOUND = 10_000
MAX_MISSING = 2_000
UNKNOWN_READS_A_SECOND = 200.0
"""A read by the primary key takes some 0.3 ms, so this is a few per cent of one connection."""
UNKNOWN_READS_AT_ONCE = 400.0


class TooManyAttemptsError(DomainError):
    """So many unknown tokens were shown lately that another one is not looked up."""

    code = "too_many_attempts"


@dataclass(frozen=True, slots=True)
class _Entry:
    token: StoredToken | None
    read_at: float
    """When the read began: what was committed before is in it."""


class TokenLookup:
    """Finds tokens by their ids in one database."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember nothing yet."""
        self._database = database
        self._clock = clock
        self._found: OrderedDict[str, _Entry] = OrderedDict()
        self._missing: OrderedDict[str, _Entry] = OrderedDict()
        self._underway: dict[str, asyncio.Task[StoredToken | None]] = {}
        self._reads_left = UNKNOWN_READS_AT_ONCE
        self._counted_at = clock()

    async def token_of_id(self, token_id: str) -> StoredToken | None:
        """Return the row of the id, valid or not; None where there is none.

        Raises:
            TooManyAttemptsError: it is unknown, and so were too many before it.
            DatabaseUnavailableError: it must be read, and the database does not answer.
        """
        entry = self._found.get(token_id) or self._missing.get(token_id)
        if entry is not None and self._clock() - entry.read_at < FRESH_SECONDS:
            return entry.token
        task = self._underway.get(token_id)
        if task is None:
            if token_id not in self._found:
                self._count_unknown()
            task = asyncio.create_task(self._read(token_id))
            self._underway[token_id] = task
            task.add_done_callback(partial(self._end, token_id))
        # Others may wait for the same read, so it goes on when one of them gives up.
        return await asyncio.shield(task)

    def forget(self, token_id: str) -> None:
        """Read the row again before it is used the next time."""
        entry = self._found.get(token_id)
        if entry is not None:
            self._found[token_id] = _Entry(entry.token, entry.read_at - FRESH_SECONDS)

    def _end(self, token_id: str, task: asyncio.Task[StoredToken | None]) -> None:
        self._underway.pop(token_id, None)
        if not task.cancelled():
            # Asked for here too, for a read that everybody gave up waiting for.
            task.exception()

    async def _read(self, token_id: str) -> StoredToken | None:
        began = self._clock()
        async with self._database.reading() as connection:
            token = await callers.token_of_id(connection, token_id)
        kept, most = (self._missing, MAX_MISSING) if token is None else (self._found, MAX_FOUND)
        self._found.pop(token_id, None)
        self._missing.pop(token_id, None)
        kept[token_id] = _Entry(token, began)
        while len(kept) > most:
            kept.popitem(last=False)
        return token

    def _count_unknown(self) -> None:
        now = self._clock()
        earned = (now - self._counted_at) * UNKNOWN_READS_A_SECOND
        self._reads_left = min(self._reads_left + earned, UNKNOWN_READS_AT_ONCE)
        self._counted_at = now
        if self._reads_left < 1:
            raise TooManyAttemptsError(
                "Too many unknown tokens were shown in the last seconds; this one was not looked up.",
                hint="Try again in a second.",
            )
        self._reads_left -= 1
