"""HTTP connections of a load generator, as cheap for the machine as can be: system calls, no parser.

An event loop's client would take as much of the machine as the service that it asks.
"""

import selectors
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

_LENGTH = b"content-length:"
_END = b"\r\n\r\n"
_STATUS = slice(9, 12)
"""Of ``HTTP/1.1 200 OK``."""
_MOST_READ = 2**18
ANSWER_SECONDS = 30.0
"""Longer than any service may take."""
IDLE_SECONDS = 4.0
"""uvicorn closes a connection that was idle for five."""


class UnansweredError(Exception):
    """The service closed a connection, or said nothing for a long time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A status and a body."""

    status: int
    body: bytes


class Target:
    """An address, and the lines before a body that is posted to it."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self.address = (parts.hostname or "", parts.port or 80)
        own = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{own}"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()


class Connection:
    """One connection, with at most one request under way."""

    def __init__(self, target: Target) -> None:
        self._head = target.head
        self.socket = socket.create_connection(target.address, timeout=ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._used_at = 0.0
        self.due = 0.0
        """When the request under way should have been sent, for loads that have a schedule."""

    @property
    def is_fresh(self) -> bool:
        """Whether the service still keeps it open."""
        return time.perf_counter() - self._used_at < IDLE_SECONDS

    def send(self, body: bytes) -> None:
        """Send a request."""
        self.socket.sendall(b"%s%d\r\n\r\n%s" % (self._head, len(body), body))

    def receive(self) -> Answer | None:
        """Return the answer, or nothing as long as more of it is to come; called where there is some.

        Raises:
            UnansweredError: the service closed the connection.
        """
        chunk = self.socket.recv(_MOST_READ)
        if not chunk:
            raise UnansweredError("the service closed a connection with a request under way")
        self._received += chunk
        end = self._received.find(_END)
        if end < 0:
            return None
        head, body = self._received[:end].lower(), self._received[end + len(_END) :]
        where = head.index(_LENGTH) + len(_LENGTH)
        if len(body) < int(head[where:].split(b"\r\n", 1)[0]):
            return None
        self._received = b""
        self._used_at = time.perf_counter()
        return Answer(status=int(head[_STATUS]), body=body)


def ready(selector: selectors.BaseSelector, seconds: float) -> Iterator[Connection]:
    """Yield the connections that something arrived on, waiting for so long that it does."""
    for key, _ in selector.select(max(0.0, seconds)):
        yield key.data
