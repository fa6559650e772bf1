"""Conformal: from the residuals of jobs that a fit had not seen to a distribution with a promise.

Of n exchangeable residuals and a new one, the new one is the k-th largest with equal chances: it exceeds the
k-th largest of the n with a probability of at most k / (n + 1), whatever the distribution is (Vovk, Gammerman
and Shafer 2005; one-sided, split: Lei et al. 2018). Allocated is measured; what lies between it and required
is known from outcomes only, and widens each residual by a normal spread.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import t as student

from vramgate.calibration.arrays import Numbers
from vramgate.calibration.distribution import FOLK_SPREAD, Tabled

LEVELS = 65
"""Points of a table, evenly spaced in log odds between the ends."""
TOP = 0.999
"""The exceedance of a table's first point."""
GROSS_SPAN = 2 * np.log(4.0)
"""Over which gross errors lie evenly, on the log scale: from a quarter to four times; farther is quarantined."""
GROSS_PRIOR, GROSS_PRIOR_COUNT = 0.02, 50.0
"""How many reports are thought gross errors before any is seen, and what that counts for."""
FREEDOMS = (2.0, 3.0, 5.0, 10.0, 30.0)
"""From the tails that a fit allows for to almost normal ones."""
LEAST_SPREAD = 1e-3
HALF = 0.5
"""Below, a residual is more likely a gross error than not."""
_ROUNDS = 60


def sound(values: Numbers) -> Numbers:
    """Return of each residual the probability that it is no gross error of its report.

    Residuals are a mixture of errors about the estimate, whose tails are as heavy as they show to be, and
    of gross ones, which lie evenly between a quarter and four times it. Where the tail is what reports
    show, it stays; what lies apart from everything else goes.
    """
    return max((_mixture(values, freedom) for freedom in FREEDOMS), key=lambda one: one[0])[1]


def _mixture(values: Numbers, freedom: float) -> tuple[float, Numbers]:
    """Return how likely residuals are under tails of a heaviness, and the weights there."""
    spread, share = max(float(np.median(np.abs(values))) * 1.5, LEAST_SPREAD), GROSS_PRIOR
    errors = np.ones_like(values)
    weights = np.ones_like(values)
    for _ in range(_ROUNDS):
        errors = (1 - share) * student.pdf(values / spread, freedom) / spread
        weights = errors / (errors + share / GROSS_SPAN)
        share = (float(np.sum(1 - weights)) + GROSS_PRIOR * GROSS_PRIOR_COUNT) / (
            len(values) + GROSS_PRIOR_COUNT
        )
        z = values / spread
        heavy = weights * (freedom + 1) / (freedom + z * z)
        square = float(np.sum(heavy * values**2)) / max(float(np.sum(weights)), 1.0)
        spread = max(float(np.sqrt(square)), LEAST_SPREAD)
    return float(np.sum(np.log(errors + share / GROSS_SPAN))), weights


def exceedance(at: float, values: Numbers, weights: Numbers, spread: float) -> float:
    """Return the probability that a new job's residual, widened by a spread, is above ``at``, at most.

    The one that is not among them counts as above all of them; beyond the largest it fades.
    """
    largest = float(values[weights > HALF].max() if (weights > HALF).any() else values.max())
    unseen = math.exp(-max(0.0, at - largest) / FOLK_SPREAD)
    above = ndtr((values - at) / spread)
    return float((weights @ above + unseen) / (np.sum(weights) + 1))


def tabled(values: Numbers, weights: Numbers, spread: float) -> Tabled:
    """Return the distribution of residuals as a table."""
    least = 1 / (float(np.sum(weights)) + 1)
    odds = np.linspace(_log_odds(TOP), _log_odds(least), LEVELS)
    levels = 1 / (1 + np.exp(-odds))
    low, high = float(values.min()) - 10 * spread - 1, float(values.max()) + 10 * spread + 1
    points = [
        brentq(
            lambda at, level=level: exceedance(at, values, weights, spread) - level,
            low,
            high,
            xtol=1e-9,
        )
        for level in levels
    ]
    return Tabled(
        points=tuple(round(one, 6) for one in points),
        exceedances=tuple(round(float(one), 6) for one in levels),
    )


def _log_odds(probability: float) -> float:
    return float(np.log(probability / (1 - probability)))
