"""The service as a process, over a socket."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.factories import a_request

PROGRAM = "from vramgate.cli.main import main; main()"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Return a running service and its address; it is stopped as a supervisor would."""
    port = _free_port()
    process = subprocess.Popen(  # noqa: S603 our own program
        [sys.executable, "-c", PROGRAM, "serve", "--port", str(port)],
        stderr=subprocess.PIPE,
        text=True,
        env={"VRAMGATE_LOG_FORMAT": "json", "VRAMGATE_PROT": "1", "PATH": ""},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _await_ready(process, address)
        yield process, address
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _await_ready(process: subprocess.Popen[str], address: str) -> None:
    for _ in range(300):
        assert process.poll() is None, "it did not start"
        try:
            if httpx.get(f"{address}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail("not ready after 30 seconds")


def test_the_service_answers_refuses_and_stops(
    service: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = service
    answer = httpx.post(f"{address}/v1/estimates", json=a_request())
    assert answer.status_code == 200
    assert "server" not in answer.headers

    too_long = httpx.post(
        f"{address}/v1/estimates",
        content=iter([b"x" * 2**20] * 4 + [b"x"]),
        headers={"content-type": "application/json"},
    )
    assert (too_long.status_code, too_long.json()["code"]) == (413, "body_too_large")

    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=15)
    events = [json.loads(line) for line in errors.splitlines()]
    assert {"variable": "VRAMGATE_PROT", "did_you_mean": "VRAMGATE_PORT"}.items() <= (
        next(one for one in events if one["event"] == "unknown setting ignored").items()
    )
    answered = [one for one in events if one["event"] == "answered"]
    assert {"/v1/estimates"} <= {one["path"] for one in answered}
    assert all(one["request_id"] for one in answered)
