"""A process that appends to a journal until it is killed, and replays it now and then.

Whatever it was told is kept goes to standard output, a name a line; the "database" is a file of
lines, to which appending a line is one step.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from vramgate.persistence.journal import Journal

CALLERS = 5
MOST_BYTES = 64 * 2**20


async def main(folder: Path, rows: Path) -> None:
    """Append from several callers at once, and replay beside them, for ever."""
    journal = Journal(folder, most_bytes=MOST_BYTES)
    table = os.open(rows, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def write(records: Sequence[bytes]) -> Sequence[bytes]:
        os.write(table, b"".join(record + b"\n" for record in records))
        return ()

    async def append_on(caller: int) -> None:
        number = 0
        while True:
            number += 1
            names = [f"{os.getpid()}-{caller}-{number}-{part}" for part in range(2)]
            await journal.append([name.encode() for name in names])
            os.write(sys.stdout.fileno(), "".join(f"{name}\n" for name in names).encode())

    async def replay_on() -> None:
        while True:
            await asyncio.sleep(0.05)
            await journal.replay(write)

    async with asyncio.TaskGroup() as group:
        for caller in range(CALLERS):
            group.create_task(append_on(caller))
        group.create_task(replay_on())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
