import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.reporter.standin import Mode, StandIn, free_port, standing_in
from vramgate.reporter import PeakReporter, report_peaks
from vramgate.reporter.measure import Device, Peaks

JOB = {"model": {"name": "gpt2"}}


class Meter:
    """A stand-in for an allocator: what it read last, and how often it was reset."""

    def __init__(self, allocated_bytes: int) -> None:
        self.allocated_bytes = allocated_bytes
        self.resets = 0

    def reset_peaks(self) -> None:
        self.resets += 1

    def peaks(self) -> Peaks | None:
        return Peaks(
            max_allocated_bytes=self.allocated_bytes, max_reserved_bytes=self.allocated_bytes + 1
        )

    def device(self) -> Device | None:
        return Device(name="NVIDIA A100-SXM4-80GB", total_bytes=85_899_345_920)


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


def _peaks(service_url: str, **options: Any) -> PeakReporter:
    return report_peaks("r1", job=JOB, url=service_url, **{"memory": Meter(1000), **options})


def test_a_run_that_ends_well_is_reported_completed(service: StandIn, spool_folder: Path) -> None:
    with _peaks(service.url, labels={"team": "a"}) as peaks:
        peaks.step()
    (report,) = service.wait_for(1)
    assert report["run_id"] == "r1"
    assert report["rank"] == 0
    assert report["job"] == JOB
    assert report["outcome"] == "completed"
    assert report["measured"] == {"max_allocated_bytes": 1000, "max_reserved_bytes": 1001}
    assert report["accelerator"] == "NVIDIA A100-SXM4-80GB"
    assert report["accelerator_total_bytes"] == 85_899_345_920
    assert report["warmup_excluded"] is True
    assert report["labels"] == {"team": "a"}
    assert report["software"]["python"].startswith("3.")
    assert list(spool_folder.glob("*.json")) == []


def test_the_peaks_are_measured_anew_after_warmup_and_a_floor_is_left(service: StandIn) -> None:
    meter = Meter(5000)
    with _peaks(service.url, memory=meter, warmup_steps=2) as peaks:
        peaks.step(tokens=10)
        assert meter.resets == 0
        peaks.step(tokens=10)
        assert meter.resets == 1
        meter.allocated_bytes = 700
        time.sleep(0.01)
        peaks.step(tokens=10)
        (floor,) = service.wait_for(1)
        assert floor["outcome"] == "running"
        assert floor["measured"]["max_allocated_bytes"] == 700
        assert 0.01 <= floor["step_seconds"] < 1
        assert 10 < floor["tokens_per_second"] <= 1000
        peaks.step()
        meter.allocated_bytes = 900
    ended = service.wait_for(2)[1]
    assert (ended["outcome"], ended["measured"]["max_allocated_bytes"]) == ("completed", 900)


def test_figures_of_the_caller_count_where_they_are_larger(service: StandIn) -> None:
    with _peaks(service.url) as peaks:
        peaks.measured(max_allocated_bytes=10, device_used_bytes=4000)
    (report,) = service.wait_for(1)
    assert report["measured"]["max_allocated_bytes"] == 1000
    assert report["measured"]["device_used_bytes"] == 4000


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), "oom"),
        (RuntimeError("CUDA error: out of memory"), "oom"),
        (RuntimeError("HIP out of memory. Tried to allocate"), "oom"),
        (RuntimeError("NPU out of memory. Tried to allocate"), "oom"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "oom"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "killed"),
        (RuntimeError("shapes do not match"), "killed"),
        (ValueError("CUDA out of memory"), "killed"),
        (MemoryError(), "killed"),
        (KeyboardInterrupt(), "killed"),
        (SystemExit(3), "killed"),
    ],
)
def test_an_exception_goes_on_untouched_and_says_how_it_ended(
    service: StandIn, error: BaseException, outcome: str
) -> None:
    with pytest.raises(type(error)) as caught, _peaks(service.url):
        raise error
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    assert not getattr(error, "__notes__", [])
    (report,) = service.wait_for(1)
    assert report["outcome"] == outcome
    assert report.get("oom_message") == (str(error) if outcome == "oom" else None)


def test_an_out_of_memory_error_inside_another_is_found(service: StandIn) -> None:
    cause = OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    with pytest.raises(ValueError, match="step failed"), _peaks(service.url):
        raise ValueError("step failed") from cause
    assert service.wait_for(1)[0]["outcome"] == "oom"


def test_without_a_service_nothing_happens_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture, spool_folder: Path
) -> None:
    for _ in range(3):
        with report_peaks("r1", job=JOB, memory=Meter(1)) as peaks:
            peaks.step()
            assert not peaks.is_on
    assert [record.name for record in caplog.records] == ["vramgate.reporter"]
    assert "VRAMGATE_URL" in caplog.text
    assert not spool_folder.exists()


@pytest.mark.parametrize("url", ["vramgate:8000", "ftp://vramgate", "http://", "https://[::1"])
def test_a_bad_address_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture, url: str) -> None:
    with _peaks(url) as peaks:
        peaks.step()
    assert len(caplog.records) == 1


def test_a_run_without_an_accelerator_has_nothing_to_report(
    service: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with report_peaks("r1", job=JOB, url=service.url) as peaks:
            peaks.step()
            peaks.step()
    assert service.requests == 0
    assert caplog.text.count("no peak to report") == 1


def test_a_failed_run_without_figures_is_still_told(service: StandIn) -> None:
    with pytest.raises(KeyboardInterrupt), report_peaks("r1", job=JOB, url=service.url):
        raise KeyboardInterrupt
    (report,) = service.wait_for(1)
    assert report["outcome"] == "killed"
    assert "measured" not in report


def test_only_the_asked_ranks_report(service: StandIn) -> None:
    for rank in range(4):
        with _peaks(service.url, rank=rank, ranks={0, 3}) as peaks:
            assert peaks.is_on == (rank in {0, 3})
    assert [report["rank"] for report in service.wait_for(2)] == [0, 3]


def test_run_rank_decision_and_service_come_from_the_environment(
    service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "VRAMGATE_URL": f"{service.url}/",
        "VRAMGATE_TOKEN": "secret-report-token",
        "VRAMGATE_DECISION_ID": "d-17",
        "SLURM_JOB_ID": "812",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "3",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with report_peaks(memory=Meter(1)):
        pass
    (report,) = service.wait_for(1)
    assert (report["run_id"], report["rank"]) == ("slurm-812.0", 3)
    assert report["decision_id"] == "d-17"
    assert "job" not in report
    assert b"Bearer secret-report-token" in service.everything


class Broken:
    """A memory source in which everything fails."""

    def reset_peaks(self) -> None:
        raise RuntimeError("no")

    def peaks(self) -> Peaks | None:
        raise RuntimeError("no")

    def device(self) -> Device | None:
        raise RuntimeError("no")


def test_a_failure_of_ours_never_reaches_the_training(service: StandIn) -> None:
    done = 0
    with report_peaks("r1", job=JOB, url=service.url, memory=Broken(), model=object()) as peaks:
        for _ in range(5):
            peaks.step()
            done += 1
    assert done == 5


@pytest.mark.parametrize(
    "mode", ["slow", "error", "unauthorized", "busy", "garbage", "reset", "down"]
)
def test_a_service_in_trouble_costs_a_bounded_wait_and_the_report_stays(
    spool_folder: Path, mode: Mode | Literal["down"]
) -> None:
    with standing_in("ok" if mode == "down" else mode) as service:
        url = f"http://127.0.0.1:{free_port()}" if mode == "down" else service.url
        peaks = _peaks(url, exit_seconds=0.5)
        began = time.monotonic()
        with peaks:
            for _ in range(100):
                peaks.step()
            stepped = time.monotonic() - began
        # A step that waited for the slow service once would take three seconds.
        assert stepped < 1.0
        assert time.monotonic() - began < 2.5
        # The floor that was on its way when the run ended is dropped once that try failed.
        until = time.monotonic() + 5
        while len(list(spool_folder.glob("*.json"))) > 1 and time.monotonic() < until:
            time.sleep(0.02)
    (kept,) = spool_folder.glob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_bytes())["report"]["outcome"] == "completed"


def test_a_spool_that_cannot_be_written_does_not_keep_a_report_from_being_sent(
    service: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with _peaks(service.url, spool=blocked / "spool"):
        pass
    assert service.wait_for(1)[0]["outcome"] == "completed"
    assert "cannot be written" in caplog.text


def test_a_forked_child_reports_nothing(service: StandIn) -> None:
    with _peaks(service.url) as peaks:
        child = os.fork()
        if child == 0:
            peaks.step()
            peaks.finish(RuntimeError("CUDA out of memory"))
            os._exit(0)
        os.waitpid(child, 0)
        assert service.requests == 0
    assert [report["outcome"] for report in service.wait_for(1)] == ["completed"]


def test_ending_from_many_threads_reports_once(service: StandIn) -> None:
    peaks = _peaks(service.url)
    peaks.begin()
    threads = [threading.Thread(target=peaks.finish) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    service.wait_for(1)
    time.sleep(0.1)
    assert service.requests == 1


def test_the_import_is_fast_and_loads_neither_the_server_nor_httpx() -> None:
    code = (
        "import sys, time; began = time.process_time(); import vramgate.reporter;"
        "print(time.process_time() - began); print(*sorted(sys.modules))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    heavy = {"httpx", "pydantic", "fastapi", "numpy", "scipy", "sqlalchemy", "torch", "yaml"}
    loaded = set(shown[1].split())
    assert not heavy & loaded
    ours = {name for name in loaded if name.startswith("vramgate.")}
    assert all(name.startswith("vramgate.reporter") for name in ours)
    # CPU seconds; some 0.06, most of it the standard library.
    assert float(shown[0]) < 0.5


def test_steps_are_cheap(service: StandIn) -> None:
    with _peaks(service.url) as peaks:
        began = time.perf_counter()
        for _ in range(10_000):
            peaks.step(tokens=4096)
        each = (time.perf_counter() - began) / 10_000
    # Some 1 microsecond; a real step takes 10 000 times as long.
    assert each < 200e-6


@pytest.mark.usefixtures("service")
def test_log_lines_carry_no_secret(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("VRAMGATE_TOKEN", "planted-token")
    with _peaks(f"http://user:planted-password@127.0.0.1:{free_port()}"):
        pass
    assert "planted" not in caplog.text


def test_an_interpreter_that_ends_does_not_hang(tmp_path: Path) -> None:
    code = (
        "from vramgate.reporter import report_peaks\n"
        f"peaks = report_peaks('r', job={{}}, url='http://127.0.0.1:{free_port()}')\n"
        "peaks.begin(); peaks.measured(max_allocated_bytes=5)\n"
        "[peaks.step() for _ in range(3)]\n"
    )
    began = time.monotonic()
    _python(code, tmp_path)
    assert time.monotonic() - began < 5


def _python(code: str, tmp_path: Path) -> None:
    environment = {**os.environ, "VRAMGATE_SPOOL": str(tmp_path / "other")}
    run: Callable[..., object] = subprocess.run
    run([sys.executable, "-c", code], check=True, timeout=60, env=environment)
