"""Factors on terms of a job's memory: what they move, what they never move, and that sums stay exact."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.costmodel.engine_jobs import a_job, cards, llama
from vramgate.costmodel.breakdown import Component, MemoryEstimate, Phase
from vramgate.costmodel.estimate import estimate_memory, memory_terms
from vramgate.costmodel.terms import IN_PHASES, TERM_OF, Factors, Term, layers_above, scaled

LORA_8B: dict[str, Any] = {
    "model": {"name": "meta-llama/Llama-3.1-8B"},
    "method": {"kind": "lora", "rank": 16},
    "micro_batch_size": 2,
    "sequence_length": 2048,
    "activation_checkpointing": "full",
    "hardware": cards(1),
}

fields = st.fixed_dictionaries(
    {
        "micro_batch_size": st.integers(1, 8),
        "sequence_length": st.sampled_from([128, 1024, 4096]),
        "hardware": st.sampled_from([cards(1), cards(4), cards(1, "rtx-4090")]),
        "method": st.sampled_from(["full", {"kind": "lora", "rank": 8}, {"kind": "qlora"}]),
        "precision": st.sampled_from(["bf16-true", "bf16-mixed", "fp32"]),
        "activation_checkpointing": st.sampled_from(["none", "full"]),
        "sharding": st.sampled_from(
            [
                {"implementation": "none"},
                {"implementation": "deepspeed", "zero_stage": 3},
                {"implementation": "fsdp2", "zero_stage": 3},
            ]
        ),
    }
)
one_factor = st.floats(0.25, 4.0)
factors = st.dictionaries(st.sampled_from(Term), one_factor)
many = settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)


def _job(fields: dict[str, Any]) -> Any:  # noqa: ANN401 a job, or none
    several = fields["hardware"]["devices"] > 1
    return a_job(**{**fields, "sharding": fields["sharding"] if several else {}})


def _bytes(estimate: MemoryEstimate) -> dict[Component, int]:
    return {line.component: int(line.bytes) for line in estimate.bill}


@given(fields)
@many
def test_factors_of_one_change_no_byte(fields: dict[str, Any]) -> None:
    job = _job(fields)
    plain, ones = estimate_memory(job), estimate_memory(job, dict.fromkeys(Term, 1.0))
    assert ones.peak == plain.peak
    assert ones.timeline == plain.timeline
    assert _bytes(ones) == _bytes(plain)


@given(fields, factors)
@many
def test_the_bill_adds_up_under_any_factors(fields: dict[str, Any], factors: Factors) -> None:
    estimate = estimate_memory(_job(fields), factors)
    assert sum(line.bytes for line in estimate.bill) == estimate.peak.allocated_bytes
    for phase in estimate.timeline:
        assert sum(phase.components.values()) == phase.allocated_bytes
    assert estimate.peak.allocated_bytes == max(one.allocated_bytes for one in estimate.timeline)


@given(fields, factors)
@many
def test_weights_gradients_and_states_never_move(fields: dict[str, Any], factors: Factors) -> None:
    job = _job(fields)
    exact = set(Component) - set(TERM_OF)
    assert {Component.WEIGHTS, Component.GRADIENTS, Component.OPTIMIZER_STATES} <= exact
    plain, moved = estimate_memory(job).timeline, estimate_memory(job, factors).timeline
    for before, after in zip(plain, moved, strict=True):
        for component in exact:
            assert after.components.get(component) == before.components.get(component)


@given(fields, factors)
@many
def test_terms_make_the_same_peak(fields: dict[str, Any], factors: dict[Term, float]) -> None:
    job = _job(fields)
    terms, peak = memory_terms(job), estimate_memory(job, factors).peak
    allocated = max(
        int(one.exact)
        + sum(int(int(size) * factors.get(term, 1.0)) for term, size in one.terms.items())
        for one in terms.phases
    )
    # A component is cut to whole bytes on its own, and a factor to a millionth.
    slack = len(Component) + int(peak.allocated_bytes) // 1_000_000
    assert abs(allocated - int(peak.allocated_bytes)) <= slack
    above = layers_above(peak.allocated_bytes, terms.upper, factors)
    assert (above.required, above.reserved, above.device) == (
        peak.required_bytes,
        peak.reserved_bytes,
        peak.device_bytes,
    )


def test_half_as_many_activations_again_are_half_of_them_more() -> None:
    job = a_job(**LORA_8B)
    plain, more = estimate_memory(job), estimate_memory(job, {Term.ACTIVATIONS: 1.5})
    assert more.peak.phase is plain.peak.phase
    activations = _bytes(plain)[Component.ACTIVATIONS]
    assert int(more.peak.allocated_bytes) - int(plain.peak.allocated_bytes) == activations // 2


def test_the_bill_says_what_was_multiplied() -> None:
    lines = estimate_memory(a_job(**LORA_8B), {Term.LOGITS: 1.25}).bill
    said = {line.component: "by calibration" in line.formula for line in lines}
    assert said[Component.LOGITS]
    assert not said[Component.WEIGHTS]
    logits = next(line for line in lines if line.component is Component.LOGITS)
    assert logits.formula.endswith(", × 1.250000 by calibration")


def test_another_phase_may_peak() -> None:
    # 2 × 2048 tokens × 128 256 words: the logits are what peaks, until they are nearly nothing.
    job = a_job(**LORA_8B)
    assert estimate_memory(job).peak.phase is Phase.LOSS
    moved = estimate_memory(job, {Term.LOGITS: 0.01})
    assert moved.peak.phase is not Phase.LOSS
    by_phase = {one.phase: int(one.allocated_bytes) for one in moved.timeline}
    assert by_phase[moved.peak.phase] == max(by_phase.values())


@pytest.mark.parametrize("term", sorted(set(Term) - set(IN_PHASES)))
def test_what_lies_above_allocated_leaves_it_alone(term: Term) -> None:
    job = a_job(model=llama(), hardware=cards(2))
    assert (
        estimate_memory(job, {term: 2.0}).peak.allocated_bytes
        == estimate_memory(job).peak.allocated_bytes
    )


@given(st.integers(0, 2**50), st.integers(1, 10_000_000))
def test_a_factor_is_read_to_a_millionth(size: int, millionths: int) -> None:
    assert scaled(size, millionths / 1_000_000) == size * millionths // 1_000_000
