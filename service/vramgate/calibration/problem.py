"""Problem: observations as the arrays that a fit searches over."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vramgate.calibration.arrays import Numbers, TermArrays
from vramgate.calibration.effects import LEVELS, EffectKey
from vramgate.calibration.evidence import Configuration, Layer, Observation
from vramgate.calibration.labels import Label
from vramgate.costmodel.terms import Term

ALIKE = 0.5
"""How much runs of one configuration share of their error: a thousand of them count as two."""
TERMS = tuple(Term)
"""The order of the blocks of a design."""
_NO_ROWS = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What was measured of one layer, one entry a reading."""

    rows: NDArray[np.intp]
    """Which configuration."""
    tenants: NDArray[np.intp]
    logs: Numbers
    weights: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What outcomes say of required: above (+1) or at most (-1) a number of bytes."""

    rows: NDArray[np.intp]
    sides: Numbers
    logs: Numbers
    weights: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Everything that an objective is made of."""

    arrays: TermArrays
    design: sparse.csr_array
    """1 where an effect is of a term of a configuration: a block of rows for each of ``TERMS``, effects across."""
    transposed: sparse.csr_array
    readings: Mapping[Layer, Readings]
    bounds: Bounds
    keys: tuple[EffectKey, ...]
    """The effects that anything was seen of."""
    tenants: tuple[str, ...]
    """Those with an offset: none where there is one tenant, which has nobody to differ from."""

    def factors(self, effects: Numbers) -> dict[Term, Numbers]:
        """Return the factor of each term for each configuration."""
        blocks = np.exp(self.design @ effects).reshape(len(TERMS), self.arrays.count)
        return dict(zip(TERMS, blocks, strict=True))


def problem_of(observations: Sequence[Observation]) -> Problem:
    """Return observations as a problem; those of the same configuration share its row."""
    rows: dict[str, int] = {}
    configurations: list[Configuration] = []
    for one in observations:
        if one.configuration.key not in rows:
            rows[one.configuration.key] = len(configurations)
            configurations.append(one.configuration)
    names = sorted({one.tenant for one in observations})
    tenants = tuple(names) if len(names) > 1 else ()
    arrays = TermArrays(configurations)
    keys, design = _design(configurations, arrays)
    weights = weights_of(observations)
    return Problem(
        arrays=arrays,
        design=design,
        transposed=design.T.tocsr(),
        readings=_readings(observations, rows, tenants, weights),
        bounds=_bounds(observations, rows, weights),
        keys=keys,
        tenants=tenants,
    )


def weights_of(observations: Sequence[Observation]) -> Numbers:
    """Return what each observation counts: repeated runs little more than one, no tenant more than all others."""
    weights = np.array([one.runs / (1 + ALIKE * (one.runs - 1)) for one in observations])
    totals: dict[str, float] = defaultdict(float)
    for one, weight in zip(observations, weights, strict=True):
        totals[one.tenant] += weight
    total = sum(totals.values())
    share = {
        tenant: min(1.0, (total - own) / own) if len(totals) > 1 else 1.0
        for tenant, own in totals.items()
    }
    capped: Numbers = weights * np.array([share[one.tenant] for one in observations])
    return capped


def runs_by_effect(problem: Problem, observations: Sequence[Observation]) -> Numbers:
    """Return how many runs each effect was seen in."""
    counts = np.zeros(problem.arrays.count)
    rows: dict[str, int] = {}
    for one in observations:
        counts[rows.setdefault(one.configuration.key, len(rows))] += one.runs
    seen: Numbers = problem.transposed @ np.tile(counts, len(TERMS))
    return seen


def _design(
    configurations: Sequence[Configuration], arrays: TermArrays
) -> tuple[tuple[EffectKey, ...], sparse.csr_array]:
    """Return the effects, and which configuration has which, a level at a time."""
    values = {label: np.array([one.labels[label] for one in configurations]) for label in Label}
    keys: list[EffectKey] = []
    rows: list[NDArray[np.intp]] = []
    columns: list[NDArray[np.intp]] = []
    for block, term in enumerate(TERMS):
        there = np.flatnonzero(arrays.exercised(term))
        for level in LEVELS[term] if there.size else ():
            firsts, member = _alike([values[label][there] for label in level], there.size)
            rows.append(block * arrays.count + there)
            columns.append(len(keys) + member)
            keys += [
                EffectKey(term, level, tuple(str(values[label][there[first]]) for label in level))
                for first in firsts
            ]
    entries = (np.concatenate([*rows, _NO_ROWS]), np.concatenate([*columns, _NO_ROWS]))
    shape = (len(TERMS) * arrays.count, len(keys))
    return tuple(keys), sparse.csr_array((np.ones(len(entries[0])), entries), shape=shape)


def _alike(
    columns: Sequence[NDArray[np.str_]], count: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first of each group of entries that agree in all columns, and the group of each entry."""
    code = np.zeros(count, dtype=np.intp)
    for column in columns:
        names, place = np.unique(column, return_inverse=True)
        code = np.unique(code * len(names) + place, return_inverse=True)[1]
    _, firsts, member = np.unique(code, return_index=True, return_inverse=True)
    return firsts, member


def _readings(
    observations: Sequence[Observation],
    rows: Mapping[str, int],
    tenants: Sequence[str],
    weights: Numbers,
) -> dict[Layer, Readings]:
    place = {name: index for index, name in enumerate(tenants)}
    found = {}
    for layer in Layer:
        chosen = [i for i, one in enumerate(observations) if layer in one.measured]
        if chosen:
            members = [observations[i] for i in chosen]
            found[layer] = Readings(
                rows=np.array([rows[one.configuration.key] for one in members], dtype=np.intp),
                tenants=np.array([place.get(one.tenant, 0) for one in members], dtype=np.intp),
                logs=np.log([one.measured[layer] for one in members]),
                weights=weights[chosen],
            )
    return found


def _bounds(
    observations: Sequence[Observation], rows: Mapping[str, int], weights: Numbers
) -> Bounds:
    entries = [
        (rows[one.configuration.key], side, np.log(size), weight * share)
        for one, weight in zip(observations, weights, strict=True)
        for side, size, share in one.bounds
    ]
    columns = list(zip(*entries, strict=True)) if entries else [(), (), (), ()]
    return Bounds(
        rows=np.array(columns[0], dtype=np.intp),
        sides=np.array(columns[1], dtype=float),
        logs=np.array(columns[2], dtype=float),
        weights=np.array(columns[3], dtype=float),
    )
