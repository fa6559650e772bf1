import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.reporter.standin import StandIn
from tests.reporter.test_spool import a_report
from vramgate.reporter.send import TOTAL_SECONDS, Sender
from vramgate.reporter.settings import (
    Destination,
    destination,
    rank_of,
    run_id_of,
    spool_folder,
)


@pytest.mark.parametrize(
    ("environment", "run_id"),
    [
        ({"VRAMGATE_RUN_ID": "mine", "SLURM_JOB_ID": "8"}, "mine"),
        ({"SLURM_JOB_ID": "8"}, "slurm-8"),
        ({"SLURM_JOB_ID": "8", "SLURM_STEPID": "2"}, "slurm-8.2"),
        (
            {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "8", "SLURM_ARRAY_TASK_ID": "3"},
            "slurm-8_3",
        ),
        ({"SLURM_JOB_ID": "8", "SLURM_RESTART_COUNT": "2"}, "slurm-8-restart2"),
        ({"TORCHELASTIC_RUN_ID": "e", "TORCHELASTIC_RESTART_COUNT": "1"}, "elastic-e-restart1"),
    ],
)
def test_a_run_is_named_by_its_launcher(environment: dict[str, str], run_id: str) -> None:
    assert run_id_of(environment) == run_id


def test_ranks_under_one_launcher_share_a_name_and_lone_processes_do_not() -> None:
    elastic = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    assert run_id_of(elastic) == run_id_of(elastic)
    assert run_id_of(elastic).startswith("launch-")
    assert run_id_of({}) != run_id_of({})


def test_two_processes_of_one_launcher_agree(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text("from vramgate.reporter.settings import run_id_of; print(run_id_of())")
    environment = {
        **os.environ,
        "TORCHELASTIC_RUN_ID": "none",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
    }
    command = [sys.executable, str(script)]
    shown = [
        subprocess.run(command, env=environment, check=True, capture_output=True).stdout
        for _ in range(2)
    ]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({}, 0),
        ({"RANK": "5", "SLURM_PROCID": "1"}, 5),
        ({"LOCAL_RANK": "2"}, 2),
        ({"RANK": "x", "SLURM_PROCID": "4"}, 4),
        ({"RANK": "-1"}, 0),
        ({"RANK": "99999999999"}, 0),
    ],
)
def test_the_rank_is_the_launchers(environment: dict[str, str], rank: int) -> None:
    assert rank_of(environment) == rank


def test_an_address_keeps_no_login_and_shows_no_token() -> None:
    to = destination("https://me:pw@vramgate.example:8443/base/", "secret", {})
    assert to is not None
    assert to.url == "https://vramgate.example:8443/base"
    assert to.token == "secret"  # noqa: S105 planted
    assert "secret" not in repr(to)
    assert destination(None, None, {}) is None


def test_a_proxy_is_asked_for_and_never_for_this_machine() -> None:
    on = {"VRAMGATE_USE_PROXY": "1"}
    near, far = (destination(url, None, on) for url in ("http://[::1]:1", "http://far.example"))
    assert near is not None
    assert far is not None
    assert (near.uses_proxy, far.uses_proxy) == (False, True)
    off = destination("http://far.example", None, {})
    assert off is not None
    assert not off.uses_proxy


def test_a_proxy_of_the_environment_is_not_taken(
    service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with closing(Sender(Destination(url=service.url))) as sender:
        assert sender.post([a_report()]).items is not None


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"VRAMGATE_SPOOL": "/a/b"}, "/a/b"),
        ({"XDG_STATE_HOME": "/state"}, "/state/vramgate/spool"),
        (
            {"XDG_STATE_HOME": "relative", "HOME": "/home/me"},
            "/home/me/.local/state/vramgate/spool",
        ),
    ],
)
def test_the_spool_has_a_place(
    environment: dict[str, str], folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VRAMGATE_SPOOL", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert spool_folder() == Path(folder)


@contextmanager
def _raw(head: bytes, piece: bytes, pause_seconds: float) -> Iterator[str]:
    """Serve one connection with a head and then pieces for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(head)
                    while True:
                        connection.sendall(piece)
                        time.sleep(pause_seconds)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread.join(5)


@pytest.mark.parametrize(("piece", "pause_seconds"), [(b"x", 0.1), (b"x" * 65_536, 0.0)])
def test_an_answer_without_end_is_given_up(piece: bytes, pause_seconds: float) -> None:
    head = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\n\r\n"
    began = time.monotonic()
    with _raw(head, piece, pause_seconds) as url, closing(Sender(Destination(url=url))) as sender:
        answer = sender.post([a_report()])
    assert answer.items is None
    assert answer.trouble.startswith("no answer")
    assert time.monotonic() - began < TOTAL_SECONDS + 1.5


def test_how_long_to_wait_is_taken_from_the_service() -> None:
    body = json.dumps({"type": "/problems/unavailable"}).encode()
    head = b"HTTP/1.1 503 Away\r\nretry-after: 120\r\ncontent-length: %d\r\n\r\n" % len(body)
    with _raw(head, body, 1.0) as url, closing(Sender(Destination(url=url))) as sender:
        answer = sender.post([a_report()])
    assert (answer.trouble, answer.retry_after_seconds) == ("status 503", 120.0)
