"""Outage: whether the database is taken to be away, so that nobody waits for it in vain."""

from collections.abc import Callable

from vramgate.telemetry import logger

SLOW_SECONDS = 0.25
"""For so long writes may overrun their bounds without one that is committed in time."""

_log = logger("vramgate.decisions")


class Outage:
    """Begins with a failed write, or with writes that all take too long; ends with one that works."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.is_on = False
        self._clock = clock
        self._overrun_since: float | None = None

    def add_commit(self) -> None:
        """Take note of a write that was committed in time."""
        self._overrun_since = None

    def add_overrun(self) -> None:
        """Take note of a write that was not committed in time: one may happen, a row of them not."""
        now = self._clock()
        if self._overrun_since is None:
            self._overrun_since = now
        elif now - self._overrun_since >= SLOW_SECONDS:
            self.begin("Writes take longer than answers may wait.")

    def begin(self, reason: str) -> None:
        """Take the database to be away."""
        if not self.is_on:
            self.is_on = True
            _log.warning("database away, decisions go to the journal", reason=reason)

    def end(self) -> None:
        """Take the database to be back."""
        self._overrun_since = None
        if self.is_on:
            self.is_on = False
            _log.warning("database back, decisions are stored again")
