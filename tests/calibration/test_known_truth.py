"""A cluster whose truth is known: what a fit finds of it, and what ignoring evidence or believing a liar costs.

4 frameworks, 3 cards, 7 models, 3 % noise, 2 % gross errors, out-of-memory runs whose peak nobody saw, and three
tenants of which one reports 1.4 times what it measured (``cluster.py``).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.calibration.cluster import (
    HONEST,
    LIAR,
    LIE,
    SimulatedJob,
    Truth,
    all_jobs,
    reports,
    runs_of,
    true_factors,
    truth_of,
)
from vramgate.calibration.arrays import REQUIRED, TermArrays
from vramgate.calibration.effects import effects_of
from vramgate.calibration.evidence import Layer, Run, aggregated
from vramgate.calibration.fit import Fit, fit_effects
from vramgate.calibration.held_out import predictions
from vramgate.calibration.labels import Label
from vramgate.costmodel.terms import Term

SEEDS = (7, 8, 9)
FIRST_PRINCIPLES = Fit(effects=(), errors={}, offsets={})


@cache
def _unseen(count: int = 2_000) -> tuple[tuple[SimulatedJob, ...], Truth]:
    random, pool = np.random.default_rng(1), all_jobs()
    jobs = tuple(pool[index] for index in random.integers(0, len(pool), count))
    return jobs, truth_of(jobs, random)


@cache
def _reports(seed: int, count: int = 300) -> tuple[Run, ...]:
    return tuple(reports(count, np.random.default_rng(seed)))


@cache
def _fitted(seed: int) -> Fit:
    return fit_effects(aggregated(_reports(seed)))


def _errors(fitted: Fit, layer: Layer | str = Layer.ALLOCATED) -> NDArray[np.float64]:
    """Return what a fit says of unseen jobs over what they take, less one."""
    jobs, truth = _unseen()
    said = predictions(fitted, [one.configuration for one in jobs])
    return np.array([one[layer] for one in said]) / truth.layers[layer] - 1


def _median_error(fitted: Fit) -> float:
    return float(np.median(np.abs(_errors(fitted))))


def _deviations(fitted: Fit, term: Term) -> NDArray[np.float64]:
    """Return how far the factor of a term is from the hidden one, for every job that has bytes of it."""
    pool = all_jobs()
    exercised = TermArrays([one.configuration for one in pool]).exercised(term)
    logs = {effect.key: effect.log for effect in fitted.effects}
    found = np.exp(
        [
            sum(logs.get(key, 0.0) for key in effects_of(term, one.configuration.labels))
            for one in pool
        ]
    )
    deviations: NDArray[np.float64] = np.abs(found / true_factors(pool)[term] - 1)[exercised]
    return deviations


@pytest.mark.parametrize("seed", SEEDS)
def test_300_reports_bring_the_median_error_below_4_percent(seed: int) -> None:
    # Noise alone is 2.0 %: the median of |N(0, 0.03)|.
    found = _median_error(_fitted(seed))
    assert found <= 0.04
    assert found < 0.75 * _median_error(FIRST_PRINCIPLES)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("term", [Term.ACTIVATIONS, Term.LOGITS])
def test_hidden_factors_are_found_within_5_percent(seed: int, term: Term) -> None:
    assert float(np.median(_deviations(_fitted(seed), term))) <= 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_the_liar_is_found_out(seed: int) -> None:
    offsets = _fitted(seed).offsets
    assert math.exp(offsets[LIAR]) == pytest.approx(LIE, rel=0.02)
    for tenant in HONEST:
        assert math.exp(offsets[tenant]) == pytest.approx(1, abs=0.02)


def _truth_errors(
    fitted: Fit, layer: Layer | str, jobs: Sequence[SimulatedJob]
) -> NDArray[np.float64]:
    """Return what a fit says of jobs over what they take but for noise, less one."""
    configurations = [one.configuration for one in jobs]
    said = predictions(fitted, configurations)
    size = TermArrays(configurations).layers(true_factors(jobs))[layer].size
    return np.array([one[layer] for one in said]) / size - 1


def test_trusting_the_liar_is_visibly_worse() -> None:
    heard, trusting = [], []
    for seed in SEEDS:
        heard.append(_truth_errors(_fitted(seed), Layer.ALLOCATED, all_jobs()))
        # Nobody asks who sent what: one tenant, no offset, no cap.
        runs = aggregated(replace(run, tenant="all") for run in _reports(seed))
        trusting.append(_truth_errors(fit_effects(runs), Layer.ALLOCATED, all_jobs()))
    assert np.mean(np.square(trusting)) >= 1.5**2 * np.mean(np.square(heard))
    # The liar pulls everything up.
    assert np.mean(trusting) >= 3 * abs(np.mean(heard))


SHY = "torchtitan"
"""Of whose jobs in this cluster hardly any lives to report a peak."""


def _tight_jobs() -> list[SimulatedJob]:
    """Return jobs of one framework that should fit, by first principles, and most of which do not."""
    pool = [one for one in all_jobs() if one.configuration.labels[Label.FRAMEWORK] == SHY]
    said = predictions(FIRST_PRINCIPLES, [one.configuration for one in pool])
    return [
        job for job, one in zip(pool, said, strict=True) if 0.85 < one[REQUIRED] / job.usable < 1
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_ignoring_who_ran_out_of_memory_is_visibly_worse(seed: int) -> None:
    random, tight = np.random.default_rng(seed), _tight_jobs()
    others = [one for one in all_jobs() if one.configuration.labels[Label.FRAMEWORK] != SHY]
    jobs = [others[i] for i in random.integers(0, len(others), 240)]
    jobs += [tight[i] for i in random.integers(0, len(tight), 60)]
    runs = runs_of(jobs, ["north"] * len(jobs), random)
    assert sum(one.required_above is not None for one in runs[240:]) >= 35
    outcomes_left_out = (replace(one, required_above=None, required_within=None) for one in runs)
    blind, seeing = fit_effects(aggregated(outcomes_left_out)), fit_effects(aggregated(runs))
    errors = {
        name: float(np.median(np.abs(_truth_errors(fitted, REQUIRED, tight))))
        for name, fitted in (("blind", blind), ("seeing", seeing))
    }
    assert errors["blind"] >= 1.5 * errors["seeing"]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_configuration_is_one_observation_of_its_tenant(seed: int) -> None:
    runs = _reports(seed)
    counted = Counter((run.configuration.key, run.tenant) for run in runs)
    found = aggregated(runs)
    assert {(one.configuration.key, one.tenant): one.runs for one in found} == dict(counted)
