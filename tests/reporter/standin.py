"""A small real HTTP server that stands in for the service, well or badly behaved."""

import gzip
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Mode = Literal[
    "ok", "slow", "error", "unauthorized", "busy", "garbage", "reset", "invalid", "mixed"
]
SLOW_SECONDS = 5.0


@dataclass
class StandIn:
    """What was received, and how to answer from now on."""

    mode: Mode = "ok"
    received: list[bytes] = field(default_factory=list)
    """Every byte of every request: line, headers, body as sent and body unpacked."""
    acknowledged: list[dict[str, Any]] = field(default_factory=list)
    """Reports that were answered with an item without a problem, in order."""
    requests: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def everything(self) -> bytes:
        return b"\n".join(self.received)

    def wait_for(self, count: int, seconds: float = 10.0) -> list[dict[str, Any]]:
        """Return the acknowledged reports once there are so many."""
        until = time.monotonic() + seconds
        while len(self.acknowledged) < count and time.monotonic() < until:
            time.sleep(0.01)
        assert len(self.acknowledged) >= count, f"{len(self.acknowledged)} of {count} reports came"
        return list(self.acknowledged)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay quiet about connections that were cut on purpose."""


@contextmanager
def standing_in(mode: Mode = "ok", port: int = 0) -> Iterator[StandIn]:
    """Serve on 127.0.0.1 in threads of this process."""
    state = StandIn(mode=mode)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            _answer(self, state)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = _Server(("127.0.0.1", port), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def standing_in_apart(mode: Mode, port: int) -> Iterator[None]:
    """Serve on 127.0.0.1 in a process of its own: it takes nothing from this one."""
    command = [sys.executable, "-m", "tests.reporter.standin", mode, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the stand-in did not start")
            yield
        finally:
            process.kill()


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answer(handler: BaseHTTPRequestHandler, state: StandIn) -> None:
    raw = handler.rfile.read(int(handler.headers["content-length"] or 0))
    packed = handler.headers["content-encoding"] == "gzip"
    body = gzip.decompress(raw) if packed else raw
    with state.lock:
        state.requests += 1
        head = f"{handler.requestline}\n{handler.headers}".encode()
        state.received.append(b"\n".join([head, raw, body]))
    reports = json.loads(body)["reports"]
    if state.mode == "slow":
        time.sleep(SLOW_SECONDS)
    if state.mode == "reset":
        # Zero linger: the kernel answers with RST.
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.connection.close()
        return
    _say(handler, *_words(state, reports))


def _words(state: StandIn, reports: list[dict[str, Any]]) -> tuple[int, bytes]:
    refusals: dict[str, tuple[int, bytes]] = {
        "error": (500, b"Internal Server Error"),
        "unauthorized": (401, b'{"type":"/problems/unauthorized","status":401}'),
        "busy": (429, b"{}"),
        "garbage": (202, b"<html>welcome to the hotel</html>"),
        "invalid": (422, b'{"type":"/problems/invalid","detail":"no such field"}'),
    }
    if state.mode in refusals:
        return refusals[state.mode]
    items: list[dict[str, Any]] = []
    for report in reports:
        if state.mode == "mixed" and report["labels"].get("kind") == "bad":
            items.append({"problem": {"type": "/problems/invalid", "detail": "above the card"}})
        else:
            with state.lock:
                state.acknowledged.append(report)
            items.append({"report_id": report["run_id"], "status": "accepted", "reasons": []})
    return 202, json.dumps({"items": items}).encode()


def _say(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def _main(mode: Mode, port: int) -> None:
    with standing_in(mode, port):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    asked: Any = sys.argv[1]
    _main(asked, int(sys.argv[2]))
