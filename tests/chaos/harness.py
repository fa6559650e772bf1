"""The service and PostgreSQL as processes that are killed and come back."""

import asyncio
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tests.databases import PostgresServer

PROGRAM = ("-c", "from vramgate.cli.main import main; main()")
ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
"""An import of everything on a busy machine, and the database away meanwhile."""
GONE_SECONDS = 10.0
PORTS = range(20_000, 32_000)
"""Below those that Linux hands out to clients: one that keeps knocking at a port nobody listens on
would in the end be given that port itself, and answer itself."""
STOP_SECONDS = 30.0
"""Above what the service takes for requests under way, and for a database that hangs."""
LOG_TAIL = 2_000


@contextmanager
def short_folder() -> Iterator[Path]:
    """Give a folder with a short path, as it may hold a socket (108 characters at most)."""
    with tempfile.TemporaryDirectory(prefix="vg") as folder:
        yield Path(folder)


class Service:
    """``vramgate serve`` on one port, started again on the same after each kill.

    All that use one journal are replicas on one machine. ``program`` is what Python runs.
    """

    def __init__(
        self,
        *,
        database_url: str,
        folder: Path,
        name: str = "service",
        journal: str = "journal",
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.log = folder / f"{name}.log"
        self.journal = folder / journal
        self.is_up = False
        self._program = program
        self.ended_alone: list[str] = []
        """Ends that nobody caused, each with the last lines of the log."""
        self._port = _free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self._environment = {
            "PATH": "",
            "HOME": str(folder),
            "VRAMGATE_DATABASE_URL": database_url,
            "VRAMGATE_JOURNAL_FOLDER": str(self.journal),
            "VRAMGATE_LOG_FORMAT": "json",
            "VRAMGATE_LOG_LEVEL": "warning",
        }
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; it is not ready yet."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *(*self._program, "serve", "--port", str(self._port)),
                cwd=ROOT,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                env=self._environment,
            )
        self.is_up = True
        self._watch = asyncio.create_task(self._restart_if_it_ends(self._process))

    async def await_ready(self) -> None:
        """Wait until ``/readyz`` says so.

        Raises:
            AssertionError: it does not within a minute.
        """
        await self._await_ok("/readyz")

    async def await_alive(self) -> None:
        """Wait until ``/livez`` answers, whatever the database does.

        Raises:
            AssertionError: it does not within a minute.
        """
        await self._await_ok("/livez")

    async def catch_up(self) -> None:
        """Wait until it has read whatever was sent to it before: a connection opened now comes last."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"GET /livez HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.read()
        writer.close()

    async def _await_ok(self, path: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        async with httpx.AsyncClient() as http:
            while not await self._is_ok(http, path):
                assert time.monotonic() < deadline, f"not ready:\n{self.log_tail()}"
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        """End the process as a crash does; nothing of it runs any more afterwards."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """Stop the process as a supervisor does, with SIGKILL in the end, and return its exit code."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await self._end(signal.SIGTERM)
        except TimeoutError:
            return await self._end(signal.SIGKILL)

    async def _end(self, how: signal.Signals) -> int:
        self.is_up = False
        assert self._process is not None
        assert self._watch is not None
        self._watch.cancel()
        with suppress(ProcessLookupError):
            self._process.send_signal(how)
        return await self._process.wait()

    async def _is_ok(self, http: httpx.AsyncClient, path: str) -> bool:
        with suppress(httpx.TransportError):
            return (await http.get(f"{self.address}{path}")).status_code == httpx.codes.OK
        return False

    async def _restart_if_it_ends(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self.ended_alone.append(f"the service ended by itself with {code}:\n{self.log_tail()}")
        await asyncio.sleep(0.5)
        await self.start()

    def log_tail(self) -> str:
        """Return the last of what it logged, over all its lives."""
        return self.log.read_text(errors="replace")[-LOG_TAIL:]


class CrashingPostgres(PostgresServer):
    """A PostgreSQL server that can be killed and recovers from its WAL."""

    def crash(self) -> None:
        """Kill the postmaster and every process of it, as nearly at one moment as can be."""
        pid_file = self._folder / "postmaster.pid"
        postmaster = int(pid_file.read_text().split()[0])
        # First the one that would start others, or restart them; then whatever it began meanwhile.
        processes = [postmaster, *_processes_in(self._folder)]
        deadline = time.monotonic() + GONE_SECONDS
        while processes:
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, "killed processes are still there"
            processes = _processes_in(self._folder)
        # Nobody holds them any more, but their number may be another process's, or a zombie's.
        pid_file.unlink()
        (self._folder / ".s.PGSQL.5432.lock").unlink(missing_ok=True)

    def restart(self) -> None:
        """Start on the same folder; returns once it has recovered."""
        self._server.ensure_postgres_running()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let every process of it stand still, until the block ends: it neither answers nor refuses."""
        processes = _processes_in(self._folder)
        try:
            for pid in processes:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @property
    def recoveries(self) -> int:
        """How often it found, at a start, that it had not been shut down."""
        text = (self._folder / "log").read_text(errors="replace")
        return text.count("automatic recovery in progress")


def _processes_in(folder: Path) -> list[int]:
    """Return the processes that run in a folder, as all of a PostgreSQL server do in its own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # One that has just ended has none, one of somebody else does not show it.
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if (process / "cwd").readlink() == folder.resolve():
                found.append(int(process.name))
    return found


def _free_port() -> int:
    for port in random.sample(PORTS, k=len(PORTS)):
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")
