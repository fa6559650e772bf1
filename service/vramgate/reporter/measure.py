"""The allocator's peaks and the driver's figure, read at chosen moments and without waiting.

torch is never imported here: a training process has it loaded, and where it has not there is
nothing to read. Nothing initialises a device that the training did not initialise.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

_BACKENDS = ("cuda", "xpu", "npu", "mlu", "musa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Measured bytes by layer, worst device; None where nobody measured it."""

    max_allocated_bytes: int | None = None
    max_reserved_bytes: int | None = None
    device_used_bytes: int | None = None
    context_bytes: int | None = None

    def raised_by(self, other: "Peaks") -> "Peaks":
        """Return the larger figure of each layer.

        >>> Peaks(max_allocated_bytes=5).raised_by(Peaks(max_allocated_bytes=3, context_bytes=1))
        Peaks(max_allocated_bytes=5, max_reserved_bytes=None, device_used_bytes=None, context_bytes=1)
        """
        pairs = {
            field.name: (getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
        }
        return Peaks(**{name: max(pair, key=lambda one: one or 0) for name, pair in pairs.items()})

    def as_report(self) -> dict[str, int]:
        """Return what was measured; an allocator that was never used measured nothing."""
        figures = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: int(value) for name, value in figures.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The device whose peak is reported, as its driver names it."""

    index: int = 0
    name: str | None = None
    total_bytes: int | None = None
    uuid: str | None = None


class MemorySource(Protocol):
    """Whatever can tell an accelerator's peaks: torch's allocator, or a stand-in for another."""

    def reset_peaks(self) -> None:
        """Begin measuring anew."""

    def peaks(self) -> Peaks | None:
        """Return the peaks since the last reset; None where nothing can be measured."""

    def device(self) -> Device | None:
        """Return the device the peaks are of."""


class TorchMemory:
    """The peaks of torch's caching allocator, on whichever accelerator the process uses."""

    def __init__(self) -> None:
        self._device: Device | None = None

    def reset_peaks(self) -> None:
        """Reset the peaks of every device this process uses."""
        backend = _backend()
        if backend is not None:
            for index in _used(backend):
                backend.reset_peak_memory_stats(index)

    def peaks(self) -> Peaks | None:
        """Return the peaks of the device that peaked highest."""
        backend = _backend()
        if backend is None:
            return None
        highest = [(int(backend.max_memory_allocated(index)), index) for index in _used(backend)]
        if not highest:
            return None
        allocated, index = max(highest)
        if self._device is None or self._device.index != index:
            self._device = _described(backend, index)
        return Peaks(
            max_allocated_bytes=allocated,
            max_reserved_bytes=int(backend.max_memory_reserved(index)),
        )

    def device(self) -> Device | None:
        """Return the device of the last reading."""
        return self._device

    def reserved_now(self) -> int | None:
        """Return what the allocator holds at this moment on that device."""
        backend = _backend()
        if backend is None or self._device is None:
            return None
        return int(backend.memory_reserved(self._device.index))

    def used_on_device(self) -> int | None:
        """Return what everybody uses of that device, as its driver tells torch."""
        backend = _backend()
        if backend is None or self._device is None or not hasattr(backend, "mem_get_info"):
            return None
        free, total = backend.mem_get_info(self._device.index)
        return int(total) - int(free)


def _backend() -> Any:
    """Return the module of torch whose allocator is in use; None before the first tensor."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    for name in _BACKENDS:
        backend = getattr(torch, name, None)
        if (
            backend is not None
            and hasattr(backend, "max_memory_allocated")
            and hasattr(backend, "is_initialized")
            and backend.is_initialized()
        ):
            return backend
    return _generic_backend(torch)


def _generic_backend(torch: Any) -> Any:
    """Return ``torch.accelerator`` where it measures memory (torch 2.9) and has a device in use."""
    generic = getattr(torch, "accelerator", None)
    if generic is None or not hasattr(generic, "max_memory_allocated"):
        return None
    if not generic.is_available():
        return None
    # Empty until the allocator runs; Metal has none that keeps peaks.
    return generic if generic.memory_stats(0) else None


def _used(backend: Any) -> Iterator[int]:
    """Return the devices on which this process holds memory."""
    for index in range(int(backend.device_count())):
        if int(backend.memory_reserved(index)) or int(backend.max_memory_reserved(index)):
            yield index


def _described(backend: Any, index: int) -> Device:
    properties = getattr(backend, "get_device_properties", None)
    found = properties(index) if properties is not None else None
    uuid = getattr(found, "uuid", None)
    return Device(
        index=index,
        name=getattr(found, "name", None),
        total_bytes=getattr(found, "total_memory", None),
        uuid=str(uuid) if uuid else None,
    )
