"""Devices on offer now: shared cards, MIG slices, and which of them can take a job."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vramgate.calibration.capacity import CapacityCheck
from vramgate.jobs.description import HardwareDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDevice:
    """A card, or a slice of one, as the scheduler sees it."""

    id: str
    accelerator: str | None = None
    """Any name the catalog resolves; None leaves the job's own."""
    total_bytes: int | None = None
    """Of the whole device, as its driver says; None leaves the catalog's."""
    used_bytes: int = 0
    """What others hold of it now."""

    def hardware(self, said: HardwareDescription) -> HardwareDescription:
        """Return the job's hardware on this device."""
        own = self.accelerator is not None or self.total_bytes is not None
        return replace(
            said,
            accelerator=self.accelerator or said.accelerator,
            device_memory_bytes=self.total_bytes if own else said.device_memory_bytes,
            occupied_bytes=self.used_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceVerdict:
    """What one offered device can do for the job now."""

    id: str
    accelerator: str | None
    """The catalog's name; None where it has none."""
    check: CapacityCheck | None
    """None where its capacity is not known."""
    problem: str = ""
    """Why nothing can be said of it."""

    @property
    def oom_probability(self) -> float | None:
        """Of a rank of the job on it."""
        return None if self.check is None else self.check.oom_probability

    def can_take(self, risk: float) -> bool:
        """Return whether a rank of the job would live on it, at the risk."""
        probability = self.oom_probability
        return probability is not None and probability <= risk


def devices_needed(*, devices: int, devices_per_node: int, offered: int) -> int:
    """Return how many of the offered devices the job wants: those of a node, or all its devices.

    >>> devices_needed(devices=16, devices_per_node=8, offered=8)
    8
    >>> devices_needed(devices=16, devices_per_node=8, offered=12)
    16
    """
    a_node = min(devices, devices_per_node)
    return a_node if offered <= a_node else devices


def deciding_device(verdicts: Sequence[DeviceVerdict], needed: int) -> DeviceVerdict | None:
    """Return the device that decides: the last of the ``needed`` best ones; None where they are too few.

    Ranks hold the same share, so a job lives on a set of devices as it lives on the worst of them.
    """
    known = [one for one in verdicts if one.oom_probability is not None]
    best = sorted(known, key=lambda one: (one.oom_probability or 0.0, one.id))
    return best[needed - 1] if len(best) >= needed else None
