"""Whether a job fits its card, with which margin, and how sure that is."""

from dataclasses import dataclass

from vramgate.calibration.interval import folk_margin
from vramgate.costmodel.job import Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCheck:
    """What a job requires against what its card can give."""

    upper_bytes: int
    risk: float
    usable_bytes: int | None
    """What the card can give, less what others hold of it; None if no card is known."""
    fits: bool | None
    """Whether the expected requirement is at most the usable bytes."""
    headroom_bytes: int | None
    """Usable less required bytes; negative where they do not fit."""
    oom_probability: float | None


def check_capacity(required_bytes: int, hardware: Hardware, risk: float) -> CapacityCheck:
    """Return whether ``required_bytes`` fit the card of a job, at a risk in (0, 1)."""
    usable = None
    if hardware.device is not None:
        usable = max(0, hardware.device.usable_bytes - hardware.occupied_bytes)
    margin = folk_margin(required_bytes, usable, risk)
    return CapacityCheck(
        upper_bytes=margin.upper_bytes,
        risk=risk,
        usable_bytes=usable,
        fits=None if usable is None else required_bytes <= usable,
        headroom_bytes=None if usable is None else usable - required_bytes,
        oom_probability=margin.oom_probability,
    )
