"""The service and what it is compared with, as processes on ports of their own."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.databases import PostgresServer, postgres_server

START_SECONDS = 60.0
_PROGRAM = "from vramgate.cli.main import main; main()"


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """Run a PostgreSQL server in a folder of its own (``TMPDIR`` says on which disk)."""
    with (
        tempfile.TemporaryDirectory(prefix="vg") as folder,
        postgres_server(Path(folder)) as server,
    ):
        yield server


@contextmanager
def bare_endpoint(database: str) -> Iterator[str]:
    """Run the bare endpoint and give its address."""
    port = _free_port()
    environment = {"BARE_DATABASE": database, "BARE_PORT": str(port)}
    command = [sys.executable, "-m", "tests.bench.bare_endpoint"]
    with _process(command, environment, port, "/docs") as url:
        yield url


@contextmanager
def service(database: str, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run the service in one process and give its address."""
    port = _free_port()
    environment = {
        "VRAMGATE_DATABASE_URL": database,
        "VRAMGATE_LOG_LEVEL": "warning",
        **(settings or {}),
    }
    command = [sys.executable, "-c", _PROGRAM, "serve", "--port", str(port)]
    with _process(command, environment, port, "/readyz") as url:
        yield url


@contextmanager
def _process(
    command: list[str], environment: dict[str, str], port: int, ready: str
) -> Iterator[str]:
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(command, env={**os.environ, **environment})  # noqa: S603 our own
    try:
        _await_ready(f"{url}{ready}")
        yield url
    finally:
        process.terminate()
        process.wait()


def _await_ready(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if httpx.get(url).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise TimeoutError(f"{url} does not answer within {START_SECONDS:g} s")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
