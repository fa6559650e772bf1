"""Held out: what a fit says of observations that it has not seen.

Observations are dealt into folds by group, each fold is left out once, and what the fit of the others says of it is
held against what was measured (cross-validation: Stone 1974; by group, since what is wrong about a group is wrong
about all of it).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from vramgate.calibration.arrays import TermArrays
from vramgate.calibration.effects import effects_of
from vramgate.calibration.evidence import Configuration, Layer, Observation
from vramgate.calibration.fit import Fit, fit_effects
from vramgate.costmodel.terms import Term

FOLDS = 5

Progress: TypeAlias = Callable[[float], None]
"""Takes how much is done, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """An observation, and what a fit that had not seen its group says of it."""

    observation: Observation
    predicted: dict[Layer | str, float]
    """Bytes by layer."""
    fold: int
    """It was left out with."""
    offset: float
    """Of its tenant, on the log scale."""

    @property
    def allocated_residual(self) -> float | None:
        """Return measured over predicted, on the log scale; None where nobody measured allocated."""
        size = self.observation.measured.get(Layer.ALLOCATED)
        if size is None:
            return None
        return math.log(size / self.predicted[Layer.ALLOCATED]) - self.offset


def hold_out(
    observations: Sequence[Observation], *, progress: Progress = lambda _: None
) -> list[HeldOut]:
    """Return every observation beside what a fit without its group says of it."""
    folds = _folds(observations)
    found: list[HeldOut] = []
    for number in range(FOLDS):
        seen = [one for one, fold in zip(observations, folds, strict=True) if fold != number]
        unseen = [one for one, fold in zip(observations, folds, strict=True) if fold == number]
        if seen and unseen:
            fitted = fit_effects(seen)
            said = predictions(fitted, [one.configuration for one in unseen])
            found += [
                HeldOut(
                    observation=one,
                    predicted=predicted,
                    fold=number,
                    offset=fitted.offsets.get(one.tenant, 0.0),
                )
                for one, predicted in zip(unseen, said, strict=True)
            ]
        progress((number + 1) / FOLDS)
    return found


def _folds(observations: Sequence[Observation]) -> list[int]:
    """Deal groups into folds of about the same size, the largest first."""
    sizes: dict[str, int] = defaultdict(int)
    for one in observations:
        sizes[one.configuration.group] += 1
    held = [0] * FOLDS
    fold_of: dict[str, int] = {}
    for group in sorted(sizes, key=lambda name: (-sizes[name], name)):
        fold_of[group] = min(range(FOLDS), key=lambda fold: held[fold])
        held[fold_of[group]] += sizes[group]
    return [fold_of[one.configuration.group] for one in observations]


def predictions(
    fitted: Fit, configurations: Sequence[Configuration]
) -> list[dict[Layer | str, float]]:
    """Return what a fit says of configurations, bytes by layer."""
    logs = {effect.key: effect.log for effect in fitted.effects}
    factors = {
        term: np.exp(
            [
                sum(logs.get(key, 0.0) for key in effects_of(term, one.labels))
                for one in configurations
            ]
        )
        for term in Term
    }
    layers = TermArrays(configurations).layers(factors)
    return [
        {layer: float(predicted.size[row]) for layer, predicted in layers.items()}
        for row in range(len(configurations))
    ]
