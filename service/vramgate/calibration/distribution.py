"""Distribution: how likely a job requires more than so many times what is expected of it.

All ratios are natural logarithms: 0 is the expectation itself, 0.1 about a tenth more.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np

FOLK_FACTOR = 1.2
"""Everybody's margin on a rule-of-thumb estimate."""
FOLK_RISK = 0.01
"""The risk at which the folk factor is read."""

_STANDARD = NormalDist()
FOLK_SPREAD = math.log(FOLK_FACTOR) / -_STANDARD.inv_cdf(FOLK_RISK)


class Distribution(Protocol):
    """What margins are made from; ``exceedance`` and ``quantile`` undo each other."""

    def exceedance(self, log_ratio: float) -> float:
        """Return the probability that a job requires more than this."""

    def quantile(self, risk: float) -> float:
        """Return the logarithm of the ratio that is exceeded with the probability ``risk``."""


class Folk:
    """The folk rule as a distribution, so that any risk can be asked for.

    What a run requires is lognormal, its median is the estimate, and 1.2 times the estimate is exceeded
    once in a hundred runs.
    """

    def exceedance(self, log_ratio: float) -> float:
        """Return the probability that a job requires more than this.

        >>> round(Folk().exceedance(math.log(1.2)), 6)
        0.01
        """
        return _STANDARD.cdf(-log_ratio / FOLK_SPREAD)

    def quantile(self, risk: float) -> float:
        """Return the logarithm of the ratio that is exceeded with the probability ``risk``.

        >>> round(math.exp(Folk().quantile(0.01)), 6)
        1.2
        """
        return -_STANDARD.inv_cdf(risk) * FOLK_SPREAD


FOLK = Folk()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabled:
    """A distribution as reports showed it, read between points; beyond them it falls off as measured ones do."""

    points: tuple[float, ...]
    """Increasing."""
    exceedances: tuple[float, ...]
    """Decreasing, each between 0 and 1."""

    def exceedance(self, log_ratio: float) -> float:
        """Return the probability that a job requires more than this."""
        first, last = self.points[0], self.points[-1]
        if log_ratio > last:
            return self.exceedances[-1] * math.exp((last - log_ratio) / FOLK_SPREAD)
        if log_ratio < first:
            return 1 - (1 - self.exceedances[0]) * math.exp((log_ratio - first) / FOLK_SPREAD)
        return float(np.interp(log_ratio, self.points, self.exceedances))

    def quantile(self, risk: float) -> float:
        """Return the logarithm of the ratio that is exceeded with the probability ``risk``."""
        high, low = self.exceedances[0], self.exceedances[-1]
        if risk < low:
            return self.points[-1] + FOLK_SPREAD * math.log(low / risk)
        if risk > high:
            return self.points[0] + FOLK_SPREAD * math.log((1 - risk) / (1 - high))
        return float(np.interp(-risk, [-one for one in self.exceedances], self.points))


@dataclass(frozen=True, slots=True)
class Wider:
    """The more careful of two distributions, whatever is asked."""

    one: Distribution
    other: Distribution

    def exceedance(self, log_ratio: float) -> float:
        """Return the probability that a job requires more than this."""
        return max(self.one.exceedance(log_ratio), self.other.exceedance(log_ratio))

    def quantile(self, risk: float) -> float:
        """Return the logarithm of the ratio that is exceeded with the probability ``risk``."""
        return max(self.one.quantile(risk), self.other.quantile(risk))
