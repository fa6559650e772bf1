"""Objective: how badly factors explain what was seen, and its gradient.

Readings are heavy-tailed about their prediction (Student's t; Lange, Little and Taylor 1989), so that a wild one
moves nothing. Bounds are censored observations: what is known is on which side of a number the requirement
lay (Tobin 1958). Effects have normal priors at 1 (log 0). A tenant whose readings differ from everybody else's by
one factor has that factor to itself, with a prior of heavy tails about none.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import stdtr

from vramgate.calibration.arrays import REQUIRED, Numbers, Prediction, Regime
from vramgate.calibration.evidence import Layer
from vramgate.calibration.problem import TERMS, Bounds, Problem, Readings

FREEDOM = 2.0
"""Degrees of freedom of the errors: of the public readings, one in ten lies ten times as far as the median."""
OFFSET_SPREAD = 0.01
"""What honest tenants' meters differ by; farther is paid for with the logarithm only."""
_PEAK = math.exp(math.lgamma((FREEDOM + 1) / 2) - math.lgamma(FREEDOM / 2)) / math.sqrt(
    FREEDOM * math.pi
)
"""Student's density at 0."""
_LEAST = 1e-300
_NONE = np.zeros(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """What the objective takes as known: spreads of effects and errors, on the log scale."""

    effects: Numbers
    errors: Mapping[Layer, float]

    @property
    def required(self) -> float:
        """The spread of required about its expectation: that of allocated, on which it stands."""
        return self.errors.get(Layer.ALLOCATED, max(self.errors.values(), default=0.05))


def split(problem: Problem, at: Numbers) -> tuple[Numbers, Numbers]:
    """Return the effects and the offsets of a point; where no tenant has an offset, one of 0 for all."""
    effects = len(problem.keys)
    return at[:effects], at[effects:] if problem.tenants else _NONE


def residuals(readings: Readings, predicted: Prediction, offsets: Numbers) -> Numbers:
    """Return measured over predicted, on the log scale, the tenant's own factor taken out."""
    expected = np.log(predicted.size)[readings.rows]
    return readings.logs - expected - offsets[readings.tenants]


def objective(
    problem: Problem, scales: Scales, at: Numbers, regime: Regime | None = None
) -> tuple[float, Numbers]:
    """Return the negative log posterior and its gradient; ``at`` holds effects, then offsets.

    It has kinks where another phase becomes the highest; in a given regime it is smooth.
    """
    effects, offsets = split(problem, at)
    layers = problem.arrays.layers(problem.factors(effects), regime)
    own = (offsets / OFFSET_SPREAD) ** 2
    value = 0.5 * float(np.sum((effects / scales.effects) ** 2)) + float(np.sum(np.log1p(own)))
    by_offset = 2 * offsets / OFFSET_SPREAD**2 / (1 + own)
    by_factor = np.zeros((len(TERMS), problem.arrays.count))
    for layer, readings in problem.readings.items():
        z = residuals(readings, layers[layer], offsets) / scales.errors[layer]
        value += float(readings.weights @ np.log1p(z * z / FREEDOM)) * (FREEDOM + 1) / 2
        by_log = -readings.weights * (FREEDOM + 1) * z / (FREEDOM + z * z) / scales.errors[layer]
        _add(by_factor, layers[layer], readings.rows, by_log)
        by_offset += np.bincount(readings.tenants, by_log, len(offsets))
    if problem.bounds.rows.size:
        more, by_log = _censored(problem.bounds, layers[REQUIRED], scales.required)
        value += more
        _add(by_factor, layers[REQUIRED], problem.bounds.rows, by_log)
    slope = effects / scales.effects**2 + problem.transposed @ by_factor.ravel()
    return value, np.concatenate([slope, by_offset]) if problem.tenants else slope


def curvature(problem: Problem, scales: Scales, at: Numbers) -> Numbers:
    """Return the Gauss-Newton Hessian, of effects and then offsets: what readings and priors say of their spreads."""
    effects, offsets = split(problem, at)
    layers = problem.arrays.layers(problem.factors(effects))
    own = (offsets / OFFSET_SPREAD) ** 2
    priors = [1 / scales.effects**2, 2 / OFFSET_SPREAD**2 / (1 + own[: len(problem.tenants)])]
    hessian: Numbers = np.diag(np.concatenate(priors))
    for layer, readings in problem.readings.items():
        sigma = scales.errors[layer]
        z = residuals(readings, layers[layer], offsets) / sigma
        weights = readings.weights * (FREEDOM + 1) / (FREEDOM + z * z) / sigma**2
        jacobian = _jacobian(problem, layers[layer], readings)
        hessian += (jacobian.T @ (sparse.diags_array(weights) @ jacobian)).toarray()
    return hessian


def _jacobian(problem: Problem, predicted: Prediction, readings: Readings) -> sparse.csr_array:
    """Return the derivatives of what readings should be, on the log scale, by effects and offsets."""
    nothing = np.zeros(problem.arrays.count)
    shares = [sparse.diags_array(predicted.shares.get(term, nothing)) for term in TERMS]
    by_configuration = sparse.hstack(shares, format="csr") @ problem.design
    by_effect: sparse.csr_array = by_configuration[readings.rows]
    if not problem.tenants:
        return by_effect
    count = len(readings.tenants)
    shape = (count, len(problem.tenants))
    by_offset = sparse.csr_array(
        (np.ones(count), (np.arange(count), readings.tenants)), shape=shape
    )
    both: sparse.csr_array = sparse.hstack([by_effect, by_offset], format="csr")
    return both


def _censored(bounds: Bounds, required: Prediction, sigma: float) -> tuple[float, Numbers]:
    """Return the cost of bounds, and its derivative by the logarithm of required."""
    z = bounds.sides * (np.log(required.size)[bounds.rows] - bounds.logs) / sigma
    likely = np.maximum(stdtr(FREEDOM, z), _LEAST)
    density = _PEAK * (1 + z * z / FREEDOM) ** (-(FREEDOM + 1) / 2)
    by_log = -bounds.weights * density / likely * bounds.sides / sigma
    return -float(bounds.weights @ np.log(likely)), by_log


def _add(
    by_factor: Numbers, predicted: Prediction, rows: NDArray[np.intp], by_log: Numbers
) -> None:
    """Add a derivative by the logarithm of a layer's bytes, as one by those of the factors."""
    by_row = np.bincount(rows, by_log, by_factor.shape[1])
    for place, term in enumerate(TERMS):
        share = predicted.shares.get(term)
        if share is not None:
            by_factor[place] += by_row * share
