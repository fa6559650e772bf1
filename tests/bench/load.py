"""A load of HTTP requests over connections that stay open, as cheap for the machine as can be."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

_LENGTH = b"content-length:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a stretch of requests came to."""

    requests: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Requests answered per second."""
        return self.requests / self.seconds


def post_for(
    url: str, body_of: Callable[[int], bytes], *, connections: int, seconds: float, first: int
) -> Load:
    """Post bodies, each with a number of its own from ``first`` on, for so many seconds.

    Raises:
        RuntimeError: an answer was no success.
    """
    return asyncio.run(_post_for(url, body_of, connections, seconds, first))


async def _post_for(
    url: str, body_of: Callable[[int], bytes], connections: int, seconds: float, first: int
) -> Load:
    address = urlsplit(url)
    head = (
        f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
    ).encode()
    number = first
    started = time.perf_counter()

    async def client() -> None:
        nonlocal number
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        while time.perf_counter() - started < seconds:
            body = body_of(number)
            number += 1
            writer.write(head + str(len(body)).encode() + b"\r\n\r\n" + body)
            await _read_answer(reader)
        writer.close()

    await asyncio.gather(*[client() for _ in range(connections)])
    return Load(requests=number - first, seconds=time.perf_counter() - started)


async def _read_answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(head.decode(errors="replace"))
    where = head.lower().index(_LENGTH) + len(_LENGTH)
    await reader.readexactly(int(head[where : head.index(b"\r\n", where)]))
