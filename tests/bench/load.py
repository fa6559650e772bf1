"""Loads of HTTP requests: as many as are answered, and so many a second whatever is answered."""

import gc
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from tests.bench.connections import (
    ANSWER_SECONDS,
    Answer,
    Connection,
    Target,
    UnansweredError,
    ready,
)

MOST_CONNECTIONS = 400
"""Of a load at a rate: 500 requests a second that take half a second each, and some more."""
_OK = range(200, 300)
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

BodyOf = Callable[[int], bytes]
"""From the number of a request, which is its own, to its body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a stretch of requests came to."""

    requests: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Requests answered per second."""
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An answer of a load at a rate."""

    answer: Answer
    seconds: float
    """Since the moment its request was due, whenever that could be sent."""


def post_for(
    url: str,
    body_of: BodyOf,
    *,
    connections: int,
    seconds: float,
    first: int,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Load:
    """Post bodies, each with a number of its own from ``first`` on, for so many seconds.

    Each connection has one request under way, and sends the next one when that is answered.

    Raises:
        RuntimeError: an answer was no success.
        UnansweredError: there was no answer.
    """
    target = Target(url, headers)
    number = first
    with selectors.DefaultSelector() as selector, _closed_at_end() as opened, _no_collections():
        started = time.perf_counter()
        for _ in range(connections):
            opened.append(Connection(target))
            selector.register(opened[-1].socket, selectors.EVENT_READ, opened[-1])
            opened[-1].send(body_of(number))
            number += 1
        answered = 0
        while answered < number - first:
            for one in _some_ready(selector):
                if not _is_success(one.receive()):
                    continue
                answered += 1
                if time.perf_counter() - started < seconds:
                    one.send(body_of(number))
                    number += 1
        return Load(requests=answered, seconds=time.perf_counter() - started)


def post_at_rate(
    url: str,
    body_of: BodyOf,
    *,
    per_second: float,
    seconds: float,
    first: int,
    headers: Mapping[str, str] = _NO_HEADERS,
) -> Sequence[Timed]:
    """Post bodies at moments fixed beforehand, however long answers take; return every answer.

    A request that is due while all connections wait is sent late, and its time counts from when it
    was due: a service that stalls is not asked less, and does not look faster for it.

    Raises:
        UnansweredError: there was no answer.
    """
    load = _AtRate(Target(url, headers), body_of, per_second, round(per_second * seconds), first)
    return load.run()


class _AtRate:
    """A load under way."""

    def __init__(
        self, target: Target, body_of: BodyOf, per_second: float, total: int, first: int
    ) -> None:
        self._target = target
        self._body_of = body_of
        self._between = 1 / per_second
        self._total = total
        self._first = first
        self._started = 0.0
        self._due = 0
        """Requests whose moment has come."""
        self._sent = 0
        self._answers: list[Timed] = []
        self._waiting: deque[float] = deque()
        """The moments of requests that no connection was free for."""

    def run(self) -> list[Timed]:
        """Post everything."""
        # A select waits to the microsecond, an epoll to the millisecond.
        with selectors.SelectSelector() as selector, _closed_at_end() as idle, _no_collections():
            self._started = time.perf_counter()
            while len(self._answers) < self._total:
                self._note_due()
                self._send(selector, idle)
                self._receive(selector, idle)
        return self._answers

    def _note_due(self) -> None:
        now = time.perf_counter()
        while self._due < self._total and self._moment(self._due) <= now:
            self._waiting.append(self._moment(self._due))
            self._due += 1

    def _send(self, selector: selectors.BaseSelector, idle: list[Connection]) -> None:
        while self._waiting and self._sent - len(self._answers) < MOST_CONNECTIONS:
            one = self._free_one(idle)
            one.due = self._waiting.popleft()
            selector.register(one.socket, selectors.EVENT_READ, one)
            one.send(self._body_of(self._first + self._sent))
            self._sent += 1

    def _receive(self, selector: selectors.BaseSelector, idle: list[Connection]) -> None:
        """Take what arrives until the next request is due."""
        if self._due < self._total:
            arrived = ready(selector, self._moment(self._due) - time.perf_counter())
        else:
            arrived = _some_ready(selector)
        for one in arrived:
            answer = one.receive()
            if answer is not None:
                self._answers.append(Timed(answer=answer, seconds=time.perf_counter() - one.due))
                selector.unregister(one.socket)
                idle.append(one)

    def _moment(self, number: int) -> float:
        return self._started + number * self._between

    def _free_one(self, idle: list[Connection]) -> Connection:
        while idle:
            one = idle.pop()
            if one.is_fresh:
                return one
            one.socket.close()
        return Connection(self._target)


def _is_success(answer: Answer | None) -> bool:
    """Return whether there is an answer yet.

    Raises:
        RuntimeError: it tells of a failure.
    """
    if answer is not None and answer.status not in _OK:
        raise RuntimeError(f"{answer.status}: {answer.body.decode(errors='replace')}")
    return answer is not None


def _some_ready(selector: selectors.BaseSelector) -> Iterator[Connection]:
    found = list(ready(selector, ANSWER_SECONDS))
    if not found:
        raise UnansweredError(f"no answer within {ANSWER_SECONDS:g} s")
    return iter(found)


@contextmanager
def _closed_at_end() -> Iterator[list[Connection]]:
    opened: list[Connection] = []
    try:
        yield opened
    finally:
        for one in opened:
            one.socket.close()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep Python's garbage collector from stopping the load."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
