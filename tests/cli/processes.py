"""``vramgate serve`` as a process, over a socket."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

PROGRAM = "from vramgate.cli.main import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running service."""

    process: subprocess.Popen[str]
    address: str


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def command(*arguments: str, state: Path, **variables: str) -> subprocess.Popen[str]:
    """Start the command line in an environment with nothing but these variables."""
    return subprocess.Popen(  # noqa: S603 our own program
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "", "XDG_STATE_HOME": str(state), **variables},
    )


@contextmanager
def serving(state: Path, *arguments: str, **variables: str) -> Iterator[Served]:
    """Run the service on a free port; its own data lies in the folder ``state``."""
    port = free_port()
    process = command("serve", "--port", str(port), *arguments, state=state, **variables)
    served = Served(process=process, address=f"http://127.0.0.1:{port}")
    try:
        _await_ready(served)
        yield served
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _await_ready(served: Served) -> None:
    for _ in range(300):
        assert served.process.poll() is None, "it did not start"
        try:
            if httpx.get(f"{served.address}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail("not ready after 30 seconds")
