"""Whether a job fits its card, with which margin, and how sure that is."""

import math
from dataclasses import dataclass

from vramgate.calibration.distribution import FOLK, Distribution
from vramgate.costmodel.job import Hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCheck:
    """What a job requires against what its card can give."""

    upper_bytes: int
    """Required bytes, exceeded with at most the risk."""
    risk: float
    usable_bytes: int | None
    """What the card can give, less what others hold of it; None if no card is known."""
    fits: bool | None
    """Whether the expected requirement is at most the usable bytes."""
    headroom_bytes: int | None
    """Usable less required bytes; negative where they do not fit."""
    oom_probability: float | None


def check_capacity(
    required_bytes: int, hardware: Hardware, risk: float, distribution: Distribution = FOLK
) -> CapacityCheck:
    """Return whether ``required_bytes`` fit the card of a job, at a risk in (0, 1)."""
    usable = None
    if hardware.device is not None:
        usable = max(0, hardware.device.usable_bytes - hardware.occupied_bytes)
    return CapacityCheck(
        upper_bytes=math.ceil(required_bytes * math.exp(distribution.quantile(risk))),
        risk=risk,
        usable_bytes=usable,
        fits=None if usable is None else required_bytes <= usable,
        headroom_bytes=None if usable is None else usable - required_bytes,
        oom_probability=exceedance(required_bytes, usable, distribution),
    )


def exceedance(
    required_bytes: int, usable_bytes: int | None, distribution: Distribution
) -> float | None:
    """Return the probability that more than ``usable_bytes`` is required; None where they are unknown.

    >>> exceedance(1_000_000, 1_200_000, FOLK)
    0.01
    """
    if usable_bytes is None:
        return None
    if required_bytes <= 0:
        return 0.0
    if usable_bytes <= 0:
        return 1.0
    # Beyond nine digits it says nothing of the world, and something of the processor.
    return round(distribution.exceedance(math.log(usable_bytes / required_bytes)), 9)
