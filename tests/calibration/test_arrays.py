"""Arrays say of thousands of jobs what the model says of each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.calibration.cluster import all_jobs
from tests.costmodel.engine_jobs import a_job, cards
from vramgate.calibration.arrays import REQUIRED, TermArrays
from vramgate.calibration.evidence import Configuration, Layer
from vramgate.calibration.labels import labels_of
from vramgate.costmodel.estimate import estimate_memory, memory_terms
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.terms import Factors, Term, layers_above

JOBS = tuple(
    a_job(
        model={"name": model},
        method=method,
        hardware=cards(devices, card),
        micro_batch_size=rows,
        sequence_length=length,
        activation_checkpointing=checkpointing,
        software={"framework": framework},
        sharding={"implementation": "fsdp2", "zero_stage": 3} if devices > 1 else {},
    )
    for model in ("meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-7B")
    for method in ("full", {"kind": "lora", "rank": 16}, {"kind": "qlora"})
    for devices, card in ((1, "a100-sxm4-80gb"), (1, "l40s"), (8, "h100-sxm5-80gb"))
    for rows, length, checkpointing in ((1, 512, "none"), (4, 4096, "full"))
    for framework in ("transformers", "ms-swift", "torchtitan")
)


def _configuration(number: int, job: TrainingJob) -> Configuration:
    return Configuration(
        key=f"{number}", labels=labels_of(job, "model"), terms=memory_terms(job), group=f"{number}"
    )


ARRAYS = TermArrays([_configuration(number, job) for number, job in enumerate(JOBS)])


@given(st.fixed_dictionaries({term: st.floats(0.3, 3.0) for term in Term}))
@settings(max_examples=15, deadline=None)
def test_arrays_agree_with_the_model(factors: Factors) -> None:
    # As a calibration states them: six digits.
    stated = {term: round(float(factor), 6) for term, factor in factors.items()}
    layers = ARRAYS.layers({term: np.full(len(JOBS), factor) for term, factor in stated.items()})
    said = np.stack(
        [layers[layer].size for layer in (Layer.ALLOCATED, REQUIRED, Layer.RESERVED, Layer.DEVICE)]
    )
    peaks = [estimate_memory(job, stated).peak for job in JOBS]
    expected = np.array(
        [
            [one.allocated_bytes, one.required_bytes, one.reserved_bytes, one.device_bytes]
            for one in peaks
        ],
        dtype=float,
    ).T
    # Each component and each term above is cut to whole bytes: a byte for each; fragmentation is a fraction of a
    # fraction, so its factor's last digit shows as well.
    assert np.abs(said - expected).max() <= 20


@given(st.fixed_dictionaries({term: st.floats(0.3, 3.0) for term in Term}))
@settings(max_examples=10, deadline=None)
def test_shares_are_the_derivatives(factors: dict[Term, float]) -> None:
    at = {term: np.full(len(JOBS), factor) for term, factor in factors.items()}
    regime, step = ARRAYS.regime(at), 1e-5
    layers = ARRAYS.layers(at, regime)
    for term in Term:
        more = ARRAYS.layers({**at, term: at[term] * np.exp(step)}, regime)
        less = ARRAYS.layers({**at, term: at[term] * np.exp(-step)}, regime)
        for layer, predicted in layers.items():
            slope = (np.log(more[layer].size) - np.log(less[layer].size)) / (2 * step)
            share = predicted.shares.get(term, np.zeros(len(JOBS)))
            assert share == pytest.approx(slope, abs=1e-6)


def test_a_card_that_ends_bounds_reserved() -> None:
    ones = {term: np.ones(len(JOBS)) for term in Term}
    huge = {**ones, Term.CACHE: np.full(len(JOBS), 1e6)}
    device = ARRAYS.layers(huge)[Layer.DEVICE].size
    for row, job in enumerate(JOBS):
        terms = memory_terms(job).upper
        peak = estimate_memory(job).peak
        assert terms.usable is not None
        least = layers_above(peak.allocated_bytes, terms, {Term.CACHE: 0.0, Term.SIDE_POOLS: 0.0})
        if terms.cache > 0:
            assert device[row] == pytest.approx(max(terms.usable, float(least.device)), abs=2)


def test_what_no_job_has_is_not_exercised() -> None:
    pool = [one.configuration for one in all_jobs()[:50]]
    arrays = TermArrays(pool)
    assert not arrays.exercised(Term.COMMUNICATORS).any()  # One card each.
    assert arrays.exercised(Term.ACTIVATIONS).all()
    assert arrays.exercised(Term.FRAGMENTATION).all()
