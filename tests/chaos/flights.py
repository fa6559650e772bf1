"""Requests under way, and the moments at which something befell the processes that answer them."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

UNREACHED = "could not connect"
CUT_OFF = "cut off"


@dataclass(slots=True, eq=False)
class Strike:
    """A moment at which processes were killed, and the requests it met."""

    killed: tuple[str, ...]
    in_flight: int = 0
    unanswered: int = 0
    """Of those in flight: cut off, or told to come again."""
    cut_off: int = 0


@dataclass(slots=True, eq=False)
class Attempt:
    """A request under way."""

    at: str
    """The address of the process it was sent to."""
    met: list[Strike] = field(default_factory=list)


class Flights:
    """Every request that clients sent, from its start to its answer."""

    def __init__(self) -> None:
        self.requests = 0
        self.retries: Counter[str] = Counter()
        self.strikes: list[Strike] = []
        self.faults: list[str] = []
        self.is_over = False
        self._in_flight: set[Attempt] = set()
        self._answered = 0
        self._changed = asyncio.Condition()

    async def reached(self, is_enough: Callable[[], bool], *, in_flight: int) -> None:
        """Wait until something holds and so many requests are under way, or everything is posted."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: self.is_over or (is_enough() and len(self._in_flight) >= in_flight)
            )

    async def next_answer(self) -> None:
        """Wait until a request is answered; others of the same commit are about to be."""
        before = self._answered
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_over or self._answered > before)

    async def close(self) -> None:
        """Note that everything is posted."""
        self.is_over = True
        await self._tell()

    def under_way(self, *, at: str) -> int:
        """Return how many requests to one address are not answered yet."""
        return sum(one.at == at for one in self._in_flight)

    def strike(self, *killed: str, at: str | None = None) -> Strike:
        """Note that processes are killed now; it meets what was sent to one address, or everything."""
        met = [one for one in self._in_flight if at in {None, one.at}]
        strike = Strike(killed, in_flight=len(met))
        for attempt in met:
            attempt.met.append(strike)
        self.strikes.append(strike)
        return strike

    def begin(self, *, at: str) -> Attempt:
        """Note that a request is sent."""
        self.requests += 1
        attempt = Attempt(at)
        self._in_flight.add(attempt)
        return attempt

    async def end(self, attempt: Attempt, *, trouble: str | None) -> None:
        """Note that a request was answered, or what came instead."""
        self._in_flight.discard(attempt)
        if trouble is None:
            self._answered += 1
        else:
            self.retries[trouble] += 1
        if trouble not in {None, UNREACHED}:
            for strike in attempt.met:
                strike.unanswered += 1
                strike.cut_off += trouble == CUT_OFF
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
