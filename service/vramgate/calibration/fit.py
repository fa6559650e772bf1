"""fit_effects: from evidence to factors, each with its spread and what moved it.

A maximum a posteriori estimate; how far effects of one level spread and how far readings scatter is
estimated with it, in turn (empirical Bayes).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from vramgate.calibration.arrays import Numbers
from vramgate.calibration.calibration import Effect
from vramgate.calibration.effects import SPREAD, EffectKey, Level
from vramgate.calibration.evidence import Layer, Observation
from vramgate.calibration.objective import (
    FREEDOM,
    Scales,
    curvature,
    objective,
    residuals,
    split,
)
from vramgate.calibration.problem import Problem, problem_of, runs_by_effect
from vramgate.costmodel.terms import Term

ROUNDS = 8
"""Of estimating effects and spreads in turn; on the public readings the last moves no effect by more than a
twentieth of its spread."""
MOST_STEPS = 400
LEAST_SLOPE = 1e-6
"""Where the search ends: in units of an effect's own spread, a ten-thousandth from the least."""
FIRST_ERROR = 0.05
"""What readings are thought to scatter by before the first round."""
PRIOR_GROUPS = 10.0
"""What the spread a level starts with counts for, in effects: from ten on, what is seen of a level outweighs it.
With two, levels of one or two effects take what they see for their spread, and whole sources that a fit has not
seen come out half as far off again (3.8 instead of 2.6 % at the median of the public readings)."""
PRIOR_ERROR, PRIOR_READINGS = 0.02, 4.0
LEAST_ERROR = 0.003
_SPREAD_STEPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Effects, and how far readings scatter about what they predict."""

    effects: tuple[Effect, ...]
    errors: Mapping[Layer, float]
    offsets: Mapping[str, float]
    """Of each tenant, where there are several: how far all its readings lie above everybody else's, in logs."""


def fit_effects(observations: Sequence[Observation], *, rounds: int = ROUNDS) -> Fit:
    """Return the effects that explain observations best."""
    problem = problem_of(observations)
    scales = Scales(
        effects=np.array([SPREAD[key.term] for key in problem.keys]),
        errors=dict.fromkeys(problem.readings, FIRST_ERROR),
    )
    at = np.zeros(len(problem.keys) + len(problem.tenants))
    levels, spreads = _levels(problem.keys), scales.effects
    root = _root(problem, scales, at)
    for _ in range(rounds):
        at = _solved(problem, scales, at, root)
        root = _root(problem, scales, at)
        spreads = _spreads(root)[: len(problem.keys)]
        scales = Scales(
            effects=_level_spreads(levels, at, spreads, scales.effects),
            errors=_error_spreads(problem, at, scales),
        )
    return _fit(problem, scales, at, spreads, runs_by_effect(problem, observations))


def _fit(problem: Problem, scales: Scales, at: Numbers, spreads: Numbers, runs: Numbers) -> Fit:
    effects, offsets = split(problem, at)
    return Fit(
        effects=tuple(
            Effect(key=key, log=float(log), spread=float(spread), runs=int(count))
            for key, log, spread, count in zip(problem.keys, effects, spreads, runs, strict=True)
        ),
        errors=dict(scales.errors),
        offsets=dict(zip(problem.tenants, offsets.tolist(), strict=False)),
    )


def _root(problem: Problem, scales: Scales, at: Numbers) -> Numbers:
    """Return the Cholesky root of the curvature."""
    root: Numbers = cholesky(curvature(problem, scales, at), lower=True)
    return root


def _spreads(root: Numbers) -> Numbers:
    """Return the standard deviations that a curvature leaves, from its Cholesky root."""
    inverse = solve_triangular(root, np.eye(len(root)), lower=True)
    spreads: Numbers = np.sqrt(np.sum(inverse**2, axis=0))
    return spreads


def _solved(problem: Problem, scales: Scales, start: Numbers, root: Numbers) -> Numbers:
    """Return where the objective is least, in the regime of the start: the next round has the next one.

    It is searched in coordinates in which the curvature, whose Cholesky root is given, is the same in all directions:
    a few steps come as near as floating point can, so that factors are the same on every machine.
    """
    regime = problem.arrays.regime(problem.factors(split(problem, start)[0]))

    def point(moved: Numbers) -> Numbers:
        found: Numbers = start + solve_triangular(root, moved, trans=1, lower=True)
        return found

    def in_coordinates(moved: Numbers) -> tuple[float, Numbers]:
        value, slope = objective(problem, scales, point(moved), regime)
        return value, solve_triangular(root, slope, lower=True)

    found = minimize(
        in_coordinates,
        np.zeros_like(start),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_STEPS, "maxcor": 30, "ftol": 0.0, "gtol": LEAST_SLOPE},
    )
    return point(found.x)


def _levels(keys: Sequence[EffectKey]) -> list[tuple[Term, NDArray[np.intp]]]:
    groups: dict[tuple[Term, Level], list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        groups[key.term, key.level].append(index)
    return [(term, np.array(members)) for (term, _), members in groups.items()]


def _level_spreads(
    levels: Sequence[tuple[Term, NDArray[np.intp]]], at: Numbers, spreads: Numbers, before: Numbers
) -> Numbers:
    """Return how far the effects of each level spread: what is seen of them, and what was expected."""
    found = before.copy()
    for term, members in levels:
        seen = float(np.sum(at[members] ** 2 + spreads[members] ** 2))
        square = (seen + PRIOR_GROUPS * SPREAD[term] ** 2) / (len(members) + PRIOR_GROUPS)
        found[members] = np.sqrt(square)
    return found


def _error_spreads(problem: Problem, at: Numbers, scales: Scales) -> dict[Layer, float]:
    effects, offsets = split(problem, at)
    layers = problem.arrays.layers(problem.factors(effects))
    found = {}
    for layer, readings in problem.readings.items():
        r = residuals(readings, layers[layer], offsets)
        square = scales.errors[layer] ** 2
        for _ in range(_SPREAD_STEPS):
            # The steps of expectation and maximization for Student's t (Lange, Little and Taylor 1989).
            weights = readings.weights * (FREEDOM + 1) / (FREEDOM + r * r / square)
            seen = float(np.sum(weights * r * r)) + PRIOR_READINGS * PRIOR_ERROR**2
            square = seen / (float(np.sum(readings.weights)) + PRIOR_READINGS)
        found[layer] = max(float(np.sqrt(square)), LEAST_ERROR)
    return found
