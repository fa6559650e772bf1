"""The upper bound of what a run needs, at a risk of being exceeded; so far the folk rule's 20 %.

Nobody has reported a peak yet, so the margin is the one everybody adds. It is
read as a distribution, so that any risk can be asked for: what a run requires is lognormal, its
median is the estimate, and 1.2 times the estimate is exceeded once in a hundred runs.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

FOLK_FACTOR = 1.2
"""Everybody's margin on a rule-of-thumb estimate."""
FOLK_RISK = 0.01
"""The risk at which the folk factor is read."""

_STANDARD = NormalDist()
_QUANTILE = -_STANDARD.inv_cdf(FOLK_RISK)
_SIGMA = math.log(FOLK_FACTOR) / _QUANTILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """What the run needs at most, and how likely it is to run out of memory."""

    upper_bytes: int
    """Exceeded with at most the asked risk."""
    oom_probability: float | None
    """None where no capacity is known."""


def folk_margin(required_bytes: int, usable_bytes: int | None, risk: float) -> Margin:
    """Return the margin of a run that is expected to require ``required_bytes``.

    ``usable_bytes`` is what the card can give it, None if unknown; ``risk`` is in (0, 1).

    >>> folk_margin(1_000_000, 1_200_000, 0.01)
    Margin(upper_bytes=1200000, oom_probability=0.01)
    >>> folk_margin(1_000_000, 1_000_000, 0.5)
    Margin(upper_bytes=1000000, oom_probability=0.5)
    """
    factor: float = FOLK_FACTOR ** (-_STANDARD.inv_cdf(risk) / _QUANTILE)
    return Margin(
        upper_bytes=math.ceil(required_bytes * factor),
        oom_probability=_exceedance(required_bytes, usable_bytes),
    )


def _exceedance(required_bytes: int, usable_bytes: int | None) -> float | None:
    """Return the probability that more than ``usable_bytes`` is required."""
    if usable_bytes is None:
        return None
    if required_bytes <= 0:
        return 0.0
    if usable_bytes <= 0:
        return 1.0
    room = math.log(usable_bytes / required_bytes) / _SIGMA
    return _rounded(_STANDARD.cdf(-room))


def _rounded(probability: float) -> float:
    # Beyond nine digits a margin that is a convention says nothing.
    return round(probability, 9)
