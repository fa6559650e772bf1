"""What the driver says a process takes of a card: NVML, AMD SMI, or torch's own question.

Only read in the reporter's thread: a driver may take milliseconds to answer.
"""

import importlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from vramgate.reporter.measure import Device, TorchMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFigure:
    """Bytes in use on a card."""

    used_bytes: int
    is_own: bool
    """Whether it is this process's share; else everybody's on the card."""


def driver_figure(device: Device, memory: TorchMemory | None) -> DriverFigure | None:
    """Return the driver's figure for a device, the process's own share where it is told.

    Inside a container the driver often names processes by the host's numbers; then only the
    card's total is known.
    """
    figure = _nvml_figure(device) or _amd_figure(device)
    if figure is None and memory is not None:
        used = memory.used_on_device()
        figure = DriverFigure(used_bytes=used, is_own=False) if used else None
    return figure


@cache
def driver_version() -> str | None:
    """Return the NVIDIA driver's version, where NVML answers."""
    nvml = _nvml()
    if nvml is None:
        return None
    try:
        version = nvml.nvmlSystemGetDriverVersion()
    except nvml.NVMLError:
        return None
    return version.decode() if isinstance(version, bytes) else str(version)


@cache
def _nvml() -> Any:
    nvml = _module("pynvml")
    if nvml is None:
        return None
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError):
        return None
    return nvml


@cache
def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001 amdsmi raises its own kinds where its library is missing
        return None


def _nvml_figure(device: Device) -> DriverFigure | None:
    nvml = _nvml()
    if nvml is None:
        return None
    try:
        handle = _nvml_handle(nvml, device)
        processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        own = own_bytes((one.pid, one.usedGpuMemory) for one in processes)
        if own:
            return DriverFigure(used_bytes=own, is_own=True)
        return DriverFigure(used_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).used), is_own=False)
    except (nvml.NVMLError, ValueError):
        return None


def _nvml_handle(nvml: Any, device: Device) -> Any:
    """Return NVML's handle of a device; torch counts visible devices, NVML all of them."""
    if device.uuid:
        uuid = device.uuid if device.uuid.startswith(("GPU-", "MIG-")) else f"GPU-{device.uuid}"
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    named = physical_name(device.index, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if named.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(named))
    return nvml.nvmlDeviceGetHandleByUUID(named)


def physical_name(index: int, visible: str | None) -> str:
    """Return the driver's name of the process's device: a number, or a UUID.

    >>> physical_name(1, "4,6"), physical_name(0, "GPU-8f2c"), physical_name(2, None)
    ('6', 'GPU-8f2c', '2')
    """
    names = [name.strip() for name in (visible or "").split(",") if name.strip()]
    return names[index] if index < len(names) else str(index)


def own_bytes(processes: Iterable[tuple[int, int | None]]) -> int:
    """Return what this process uses, summed over its entries.

    >>> own_bytes([(os.getpid(), 5), (1, 7), (os.getpid(), None)])
    5
    """
    return sum(used or 0 for pid, used in processes if pid == os.getpid())


def _amd_figure(device: Device) -> DriverFigure | None:
    amd = _module("amdsmi")
    if amd is None or os.environ.get("HIP_VISIBLE_DEVICES"):
        # A device that cannot be told from its neighbours is not read; torch's question stays.
        return None
    try:
        amd.amdsmi_init()
        handle = amd.amdsmi_get_processor_handles()[device.index]
        used = amd.amdsmi_get_gpu_memory_usage(handle, amd.AmdSmiMemoryType.VRAM)
    except Exception:  # noqa: BLE001 its exceptions changed names between releases
        return None
    return DriverFigure(used_bytes=int(used), is_own=False) if used else None
