"""Readings of a card, with stand-ins for the hardware's own libraries: there is no card here."""

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.reporter.standin import StandIn
from vramgate.reporter import driver, report_peaks
from vramgate.reporter.measure import Device, Peaks, TorchMemory

GIB = 2**30
UUID = "4f3c2b1a-0000-1111-2222-333344445555"


class Card:
    """``torch.cuda`` of a process that holds memory on the second of two cards."""

    def __init__(self) -> None:
        self.initialized = True
        self.resets: list[int] = []
        self.reserved = [0, 5 * GIB]
        self.peak = [0, 4 * GIB]

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        return 2

    def max_memory_allocated(self, index: int) -> int:
        return self.peak[index]

    def max_memory_reserved(self, index: int) -> int:
        return self.reserved[index]

    def memory_reserved(self, index: int) -> int:
        return self.reserved[index]

    def reset_peak_memory_stats(self, index: int) -> None:
        self.resets.append(index)

    def mem_get_info(self, _: int) -> tuple[int, int]:
        return 73 * GIB, 80 * GIB

    def get_device_properties(self, _: int) -> Any:
        return SimpleNamespace(name="NVIDIA H100", total_memory=80 * GIB, uuid=UUID)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    """Return a card that this process's torch uses; no driver library beside it."""
    made = Card()
    torch = SimpleNamespace(cuda=made, version=SimpleNamespace(cuda="12.4", hip=None))
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("pynvml", "amdsmi"):
        monkeypatch.setitem(sys.modules, name, None)
    _forget()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return made


def _forget() -> None:
    for cached in (driver._nvml, driver._module, driver.driver_version):
        cached.cache_clear()


class NVMLError(Exception):
    """Named as pynvml names its own."""


def _nvml(monkeypatch: pytest.MonkeyPatch, processes: list[tuple[int, int | None]]) -> list[str]:
    """Put a driver library beside the process; return the UUIDs it is asked for."""
    asked: list[str] = []
    library: Any = ModuleType("pynvml")
    library.NVMLError = NVMLError
    library.nvmlInit = lambda: None
    library.nvmlSystemGetDriverVersion = lambda: b"550.54.15"
    library.nvmlDeviceGetHandleByUUID = asked.append
    library.nvmlDeviceGetHandleByIndex = lambda index: asked.append(str(index))
    library.nvmlDeviceGetMemoryInfo = lambda _: SimpleNamespace(used=9 * GIB)
    library.nvmlDeviceGetComputeRunningProcesses = lambda _: [
        SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in processes
    ]
    monkeypatch.setitem(sys.modules, "pynvml", library)
    _forget()
    return asked


def test_the_device_that_peaked_highest_is_read_and_unused_ones_are_let_be(card: Card) -> None:
    memory = TorchMemory()
    memory.reset_peaks()
    assert card.resets == [1]
    assert memory.peaks() == Peaks(max_allocated_bytes=4 * GIB, max_reserved_bytes=5 * GIB)
    assert memory.device() == Device(index=1, name="NVIDIA H100", total_bytes=80 * GIB, uuid=UUID)


def test_a_device_that_training_did_not_initialise_is_not_touched(card: Card) -> None:
    card.initialized = False
    assert TorchMemory().peaks() is None
    TorchMemory().reset_peaks()
    assert card.resets == []


def test_the_generic_accelerator_is_read_where_no_backend_is_known(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    card.is_available = lambda: True  # type: ignore[attr-defined]
    card.memory_stats = lambda index: {"allocated_bytes.all.peak": index}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(accelerator=card))
    peaks = TorchMemory().peaks()
    assert peaks is not None
    assert peaks.max_allocated_bytes == 4 * GIB


@pytest.mark.usefixtures("card")
def test_the_driver_tells_this_process_share_and_so_the_context(
    service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _nvml(monkeypatch, [(os.getpid(), 5 * GIB), (1, GIB), (os.getpid(), GIB // 2)])
    with report_peaks("r1", job={}, url=service.url):
        pass
    (report,) = service.wait_for(1)
    assert asked == [f"GPU-{UUID}"]
    assert report["measured"] == {
        "max_allocated_bytes": 4 * GIB,
        "max_reserved_bytes": 5 * GIB,
        "device_used_bytes": 5 * GIB + GIB // 2,
        "context_bytes": GIB // 2,
    }
    assert report["labels"] == {"vramgate.device_used": "process"}
    assert report["accelerator"] == "NVIDIA H100"
    assert report["software"]["driver"] == "550.54.15"
    assert report["software"]["cuda"] == "12.4"


@pytest.mark.usefixtures("card")
def test_in_a_container_only_the_cards_total_is_known(
    service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    _nvml(monkeypatch, [(os.getpid() + 1, 5 * GIB)])
    with report_peaks("r1", job={}, url=service.url):
        pass
    (report,) = service.wait_for(1)
    assert report["measured"]["device_used_bytes"] == 9 * GIB
    assert "context_bytes" not in report["measured"]
    assert report["labels"] == {"vramgate.device_used": "device"}


@pytest.mark.usefixtures("card")
def test_without_a_driver_library_torch_is_asked(service: StandIn) -> None:
    with report_peaks("r1", job={}, url=service.url):
        pass
    (report,) = service.wait_for(1)
    assert report["measured"]["device_used_bytes"] == 7 * GIB
    assert "driver" not in report["software"]


@pytest.mark.usefixtures("card")
def test_a_driver_that_fails_is_no_failure_of_the_report(
    service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    _nvml(monkeypatch, [])

    def fails(*_: object) -> None:
        raise NVMLError

    library: Any = sys.modules["pynvml"]
    library.nvmlDeviceGetComputeRunningProcesses = fails
    library.nvmlSystemGetDriverVersion = fails
    with report_peaks("r1", job={}, url=service.url):
        pass
    (report,) = service.wait_for(1)
    assert report["measured"]["device_used_bytes"] == 7 * GIB
