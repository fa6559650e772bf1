"""A database behind a broken network: connections are taken, and nothing is ever answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Hanging:
    """Where the database seems to be, and how often somebody tried it."""

    url: str
    connections: int = 0


@asynccontextmanager
async def hanging_database() -> AsyncIterator[Hanging]:
    """Serve on 127.0.0.1 until the block ends."""
    gone = asyncio.Event()
    state = Hanging(url="")

    async def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.connections += 1
        await gone.wait()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        state.url = f"postgresql://nobody@127.0.0.1:{server.sockets[0].getsockname()[1]}/nothing"
        yield state
        gone.set()
