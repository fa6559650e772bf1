"""Turns: work that holds the event loop, one piece at a time, and never more of it than can be waited for."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

FIRST_GUESS_SECONDS = 0.003
MEMORY = 16
"""Of so many pieces the time that one takes is the average, the newer ones counting more."""


class Turns:
    """Lets one in at a time; whoever would wait longer than it can is told so at once."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Let anybody in."""
        self._clock = clock
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._usual_seconds = FIRST_GUESS_SECONDS

    @asynccontextmanager
    async def one(self, *, within_seconds: float) -> AsyncIterator[None]:
        """Hold the turn for a piece of work.

        Raises:
            TimeoutError: those that wait already will take longer than this.
        """
        if self._waiting * self._usual_seconds > within_seconds:
            raise TimeoutError
        self._waiting += 1
        try:
            async with self._lock:
                # Whatever else is ready goes first: commits, and answers that take no work. Pieces that
                # come at once would hold all of it up together, and commits would seem to take too long.
                await asyncio.sleep(0)
                began = self._clock()
                yield
                self._usual_seconds += (self._clock() - began - self._usual_seconds) / MEMORY
        finally:
            self._waiting -= 1
