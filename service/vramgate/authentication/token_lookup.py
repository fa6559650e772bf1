"""Rows of tokens, as they were at most a few seconds ago, whatever callers send.

A token in use costs the database one read every few seconds; a wrong one costs nothing while its
id is remembered, and all wrong ones together cost a bounded number of reads a second. While the
database is away, what it said last holds on for a while: nobody can revoke anything meanwhile.
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
from vramgate.persistence.engine import Database, DatabaseUnavailableError

FRESH_SECONDS = 3.0
"""A revocation is promised to work within 5 seconds in every replica."""
GRACE_SECONDS = 3600.0
"""How long a token that was found is taken while the database does not answer."""
KNOWN_WAIT_SECONDS = 0.3
"""How long a request with a token that was found waits for a read; one takes some 0.3 ms."""
READ_SECONDS = 2.0
"""A read that takes longer is given up, with its connection: the next one may find a better one."""
PAUSE_SECONDS = 1.0
"""After a failure tokens that were found are taken as they were, and nothing is read for them."""
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


@dataclass(frozen=True, slots=True)
class _Underway:
    task: asyncio.Task[StoredToken | None]
    began: float


class TokenLookup:
    """Finds tokens by their ids in one database."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Remember nothing yet."""
        self._database = database
        self._clock = clock
        self._found: OrderedDict[str, _Entry] = OrderedDict()
        self._missing: OrderedDict[str, _Entry] = OrderedDict()
        self._underway: dict[str, _Underway] = {}
        self._next_try = clock()
        self._reads_left = UNKNOWN_READS_AT_ONCE
        self._counted_at = clock()

    async def token_of_id(self, token_id: str) -> StoredToken | None:
        """Return the row of the id, valid or not; None where there is none.

        A token that was found lately is returned as it was then where the database does not answer,
        or does not at once.

        Raises:
            TooManyAttemptsError: it is unknown, and so were too many before it.
            DatabaseUnavailableError: it must be read, and the database does not answer.
        """
        entry = self._found.get(token_id) or self._missing.get(token_id)
        age = float("inf") if entry is None else self._clock() - entry.read_at
        if entry is not None and age < FRESH_SECONDS:
            return entry.token
        if entry is not None and entry.token is not None and age < GRACE_SECONDS:
            return await self._of_known(entry.token)
        # Others may wait for the same read, so it goes on when one of them gives up.
        return await asyncio.shield(self._begin(token_id).task)

    async def _of_known(self, known: StoredToken) -> StoredToken | None:
        """Return the row as it is now, or as it is known where that cannot be told at once."""
        if self._clock() < self._next_try and known.token_id not in self._underway:
            return known
        read = self._begin(known.token_id)
        # Of a read that hangs, only those who came at its beginning wait for the end of the time.
        left = KNOWN_WAIT_SECONDS - (self._clock() - read.began)
        await asyncio.wait({read.task}, timeout=max(left, 0.0))
        if not read.task.done():
            return known
        try:
            return read.task.result()
        except DatabaseUnavailableError:
            return known

    def _begin(self, token_id: str) -> _Underway:
        """Return the read of the id that is under way, or begin one."""
        read = self._underway.get(token_id)
        if read is None:
            if token_id not in self._found:
                self._count_unknown()
            task = asyncio.create_task(self._read(token_id), name="token read")
            read = self._underway[token_id] = _Underway(task, self._clock())
            task.add_done_callback(partial(self._end, token_id))
        return read

    def forget(self, token_id: str) -> None:
        """Read the row again before it is used the next time."""
        entry = self._found.get(token_id)
        if entry is not None:
            self._found[token_id] = _Entry(entry.token, entry.read_at - FRESH_SECONDS)

    def _end(self, token_id: str, task: asyncio.Task[StoredToken | None]) -> None:
        self._underway.pop(token_id, None)
        if not task.cancelled():
            # Asked for here too, for a read that everybody gave up waiting for.
            failure = task.exception()
            if isinstance(failure, DatabaseUnavailableError):
                self._next_try = self._clock() + PAUSE_SECONDS

    async def _read(self, token_id: str) -> StoredToken | None:
        began = self._clock()
        try:
            async with asyncio.timeout(READ_SECONDS), self._database.reading() as connection:
                token = await callers.token_of_id(connection, token_id)
        except TimeoutError as error:
            raise DatabaseUnavailableError(
                f"The database did not answer within {READ_SECONDS:g} s.",
                hint="Send the same again in a moment.",
            ) from error
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
