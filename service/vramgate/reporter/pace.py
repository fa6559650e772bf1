"""Step times and the moments at which a running report is worth a look."""

import statistics
from collections import deque

FIRST_CHECK_SECONDS = 60.0
LONGEST_CHECK_SECONDS = 3600.0
_GROWTH = 2.0
_WINDOW = 128
"""Steps whose times are kept: enough for a steady median, and evaluations do not move it."""


class Pace:
    """Seconds and tokens of the steps after warm-up, by the caller's monotonic clock."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._steps: deque[tuple[float, int]] = deque(maxlen=_WINDOW)

    def restart(self, now: float) -> None:
        """Begin a step now; what was before it does not count."""
        self._last = now
        self._steps.clear()

    def step_done(self, now: float, tokens: int) -> None:
        """Note that a step ended."""
        if self._last is not None:
            self._steps.append((now - self._last, tokens))
        self._last = now

    @property
    def step_seconds(self) -> float | None:
        """The median step."""
        if not self._steps:
            return None
        return statistics.median(seconds for seconds, _ in self._steps) or None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of the median step over its seconds."""
        rates = [tokens / seconds for seconds, tokens in self._steps if tokens and seconds > 0]
        return statistics.median(rates) if rates else None


class Checks:
    """When to look whether the peak rose: after the first step that counts, then ever rarer."""

    def __init__(self) -> None:
        self._next = 0.0
        self._interval = FIRST_CHECK_SECONDS

    def is_due(self, now: float) -> bool:
        """Return whether to look now, and if so put the next look further off.

        >>> checks = Checks()
        >>> [checks.is_due(now) for now in (100.0, 101.0, 160.0, 161.0, 279.0, 280.0)]
        [True, False, True, False, False, True]
        """
        if now < self._next:
            return False
        self._next = now + self._interval
        self._interval = min(self._interval * _GROWTH, LONGEST_CHECK_SECONDS)
        return True
