"""Nothing is lost and nothing is told twice: the spool under crashes, crowds and refusals."""

import collections
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.reporter.standin import StandIn, standing_in
from vramgate.reporter import spool as spool_module
from vramgate.reporter.drain import Drained, drain
from vramgate.reporter.send import Sender
from vramgate.reporter.settings import Destination
from vramgate.reporter.spool import Spool

_WATCHED = """
import sys, time
from vramgate.reporter import report_peaks
peaks = report_peaks(sys.argv[1], job={}, url=sys.argv[2], exit_seconds=float(sys.argv[3]))
with peaks:
    peaks.measured(max_allocated_bytes=1000)
    for _ in range(3):
        peaks.step()
    if sys.argv[4] == "hang":
        print("running", flush=True)
        time.sleep(60)
"""
_DRAINER = """
import sys
from pathlib import Path
from vramgate.reporter.drain import drain
from vramgate.reporter.send import Sender
from vramgate.reporter.settings import Destination
from vramgate.reporter.spool import Spool
sys.stdin.readline()
print(drain(Spool(Path(sys.argv[1])), Sender(Destination(url=sys.argv[2])), sys.argv[2]).sent)
"""


def a_report(run_id: str = "r1", outcome: str = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "rank": 0,
        "job": {},
        "outcome": outcome,
        "measured": {"max_allocated_bytes": 1},
        "labels": {},
        **fields,
    }


def drained(folder: Path, url: str) -> Drained:
    with closing(Sender(Destination(url=url))) as sender:
        return drain(Spool(folder), sender, url)


def run_ids(service: StandIn) -> list[str]:
    return [report["run_id"] for report in service.acknowledged]


@pytest.mark.parametrize("mode", ["slow", "error", "reset", "busy", "unauthorized", "garbage"])
def test_what_waits_is_sent_once_when_the_service_is_back(
    spool_folder: Path, mode: Any, service: StandIn
) -> None:
    service.mode = mode
    spool = Spool(spool_folder)
    for index in range(5):
        spool.put(a_report(f"r{index}"), service.url)
    failed = drained(spool_folder, service.url)
    assert (failed.sent, failed.waiting) == (0, 5)
    assert len(spool.entries()) == 5
    if mode == "slow":
        # What the slow service took after we had gone is not what we know it has.
        time.sleep(2.5)
    service.mode = "ok"
    service.acknowledged.clear()
    assert drained(spool_folder, service.url).sent == 5
    assert drained(spool_folder, service.url).sent == 0
    assert run_ids(service) == [f"r{index}" for index in range(5)]
    assert spool.entries() == []


def test_a_killed_run_leaves_its_floor_and_the_next_process_sends_it(
    spool_folder: Path, service: StandIn
) -> None:
    service.mode = "error"
    run = subprocess.Popen(
        [sys.executable, "-c", _WATCHED, "killed-run", service.url, "1", "hang"],
        stdout=subprocess.PIPE,
    )
    assert run.stdout is not None
    run.stdout.readline()
    until = time.monotonic() + 10
    while not service.requests and time.monotonic() < until:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert len(Spool(spool_folder).entries()) == 1
    service.mode = "ok"
    arguments = [sys.executable, "-c", _WATCHED, "next-run", service.url, "5", "end"]
    subprocess.run(arguments, check=True, timeout=60)
    until = time.monotonic() + 5
    left = Spool(spool_folder)
    while left.entries() and time.monotonic() < until:
        drained(spool_folder, service.url)
    ended = {report["run_id"]: report["outcome"] for report in service.acknowledged}
    assert ended == {"killed-run": "running", "next-run": "completed"}
    # A process that ends while it sends may send again: the same content, told apart by its key.
    floors = [report for report in service.acknowledged if report["run_id"] == "killed-run"]
    assert all(floor == floors[0] for floor in floors)


def test_processes_that_drain_at_once_send_each_report_once(
    spool_folder: Path, service: StandIn
) -> None:
    spool = Spool(spool_folder)
    for index in range(250):
        spool.put(a_report(f"r{index}"), service.url)
    command = [sys.executable, "-c", _DRAINER, str(spool_folder), service.url]
    drainers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)
    ]
    for drainer in drainers:
        assert drainer.stdin is not None
        drainer.stdin.write(b"\n")
        drainer.stdin.flush()
    sent = [int(drainer.communicate(timeout=60)[0]) for drainer in drainers]
    assert sum(sent) == 250
    assert collections.Counter(run_ids(service)) == {f"r{index}": 1 for index in range(250)}
    assert spool.entries() == []


def test_a_drainer_that_is_killed_while_sending_loses_nothing(
    spool_folder: Path, service: StandIn
) -> None:
    service.mode = "slow"
    Spool(spool_folder).put(a_report(), service.url)
    command = [sys.executable, "-c", _DRAINER, str(spool_folder), service.url]
    drainer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert drainer.stdin is not None
    drainer.stdin.write(b"\n")
    drainer.stdin.flush()
    until = time.monotonic() + 10
    while not service.requests and time.monotonic() < until:
        time.sleep(0.01)
    drainer.kill()
    drainer.communicate()
    service.mode = "ok"
    assert drained(spool_folder, service.url).sent == 1


def test_a_newer_report_replaces_the_floor_that_waits(spool_folder: Path) -> None:
    spool = Spool(spool_folder)
    spool.put(a_report(outcome="running"), "http://a")
    spool.put(a_report("other", outcome="running"), "http://a")
    spool.put(a_report(outcome="running", rank=1), "http://a")
    newest = spool.put(a_report(outcome="oom"), "http://a")
    assert len(spool.entries()) == 3
    assert newest in {entry.path for entry in spool.entries()}


def test_an_ending_is_never_replaced(spool_folder: Path) -> None:
    spool = Spool(spool_folder)
    spool.put(a_report(outcome="oom"), "http://a")
    spool.put(a_report(outcome="running"), "http://a")
    assert len(spool.entries()) == 2


def test_reports_go_to_the_service_they_were_meant_for(
    spool_folder: Path, service: StandIn
) -> None:
    spool = Spool(spool_folder)
    spool.put(a_report("elsewhere"), "http://other.example")
    spool.put(a_report("anywhere"), None)
    spool.put(a_report("here"), service.url)
    assert drained(spool_folder, service.url).sent == 2
    assert run_ids(service) == ["anywhere", "here"]
    assert len(spool.entries()) == 1


def test_a_refused_report_is_set_aside_with_the_reason_and_others_are_sent(
    spool_folder: Path, service: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    service.mode = "mixed"
    spool = Spool(spool_folder)
    for kind in ("good", "bad", "good", "bad"):
        spool.put(a_report(f"{kind}-{time.time_ns()}", labels={"kind": kind}), service.url)
    done = drained(spool_folder, service.url)
    assert (done.sent, done.rejected) == (2, 2)
    assert spool.entries() == []
    aside = [json.loads(path.read_bytes()) for path in spool_folder.glob("*.rejected")]
    assert [one["problem"]["detail"] for one in aside] == ["above the card"] * 2
    assert all(one["report"]["labels"] == {"kind": "bad"} for one in aside)
    assert caplog.text.count("refused a report") == 1


def test_a_request_refused_as_a_whole_is_taken_apart(spool_folder: Path, service: StandIn) -> None:
    service.mode = "invalid"
    for index in range(3):
        Spool(spool_folder).put(a_report(f"r{index}"), service.url)
    assert drained(spool_folder, service.url).rejected == 3
    assert service.requests == 4
    assert len(list(spool_folder.glob("*.rejected"))) == 3


def test_the_spool_is_bounded_and_floors_go_first(
    spool_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spool_module, "MOST_FILES", 4)
    spool = Spool(spool_folder)
    outcomes = ["completed", "running", "oom", "running", "killed", "completed", "completed"]
    for index, outcome in enumerate(outcomes):
        spool.put(a_report(f"r{index}", outcome), "http://a")
    kept = [json.loads(entry.path.read_bytes())["report"] for entry in spool.entries()]
    assert [report["run_id"] for report in kept] == ["r2", "r4", "r5", "r6"]
    assert "is full" in caplog.text


def test_bytes_are_bounded_too(spool_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "MOST_BYTES", 5_000)
    spool = Spool(spool_folder)
    for index in range(10):
        spool.put(a_report(f"r{index}", oom_message="x" * 1000), "http://a")
    assert len(spool.entries()) == 4
    assert sum(entry.path.stat().st_size for entry in spool.entries()) <= 5_000


def test_rejected_files_are_bounded(
    spool_folder: Path, service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "MOST_REJECTED", 3)
    service.mode = "invalid"
    for index in range(8):
        Spool(spool_folder).put(a_report(f"r{index}"), service.url)
    drained(spool_folder, service.url)
    assert len(list(spool_folder.glob("*.rejected"))) == 3


def test_what_is_no_report_is_set_aside(spool_folder: Path, service: StandIn) -> None:
    spool = Spool(spool_folder)
    path = spool.put(a_report(), service.url)
    path.write_bytes(b'{"url": null, "rep')
    assert drained(spool_folder, service.url).sent == 0
    assert spool.entries() == []
    assert len(list(spool_folder.glob("*.rejected"))) == 1


def test_a_report_too_large_to_send_is_refused_at_once(spool_folder: Path) -> None:
    with pytest.raises(ValueError, match="too large"):
        Spool(spool_folder).put(a_report(oom_message="x" * 3 * 2**20), None)


def test_a_report_under_the_lock_of_a_living_process_is_left_to_it(
    spool_folder: Path, service: StandIn
) -> None:
    spool = Spool(spool_folder)
    spool.put(a_report(), service.url)
    held = spool.hold(spool.entries()[0])
    assert held is not None
    with held:
        # A child forked meanwhile keeps the descriptor open; the lock is gone all the same.
        child = os.fork()
        if child == 0:
            time.sleep(2)
            os._exit(0)
        assert drained(spool_folder, service.url).sent == 0
    assert drained(spool_folder, service.url).sent == 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_large_bodies_travel_compressed(spool_folder: Path, service: StandIn) -> None:
    for index in range(100):
        Spool(spool_folder).put(a_report(f"r{index}"), service.url)
    drained(spool_folder, service.url)
    assert b"content-encoding: gzip" in service.everything.lower()
    assert len(service.acknowledged) == 100


def test_the_files_are_the_owners_alone_and_hold_no_token(spool_folder: Path) -> None:
    with (
        standing_in("error") as service,
        closing(
            Sender(Destination(url=service.url, token="planted"))  # noqa: S106 planted to be looked for
        ) as sender,
    ):
        path = Spool(spool_folder).put(a_report(), service.url)
        drain(Spool(spool_folder), sender, service.url)
        assert b"planted" in service.everything
    assert path.stat().st_mode & 0o777 == 0o600
    assert spool_folder.stat().st_mode & 0o777 == 0o700
    assert b"planted" not in path.read_bytes()
