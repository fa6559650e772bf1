"""From allocated to required, reserved and device: which is above which, and what the driver and NCCL add.

Workspaces: PyTorch ``CUDABlas.cpp``, ":4096:2:16:8" below Hopper, 32 MiB from it, for two threads. What calibration may
move is read from the coefficients; the laws hold for any of them.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.costmodel.engine_jobs import a_job, a_step, cards, estimated, llama
from vramgate.costmodel.breakdown import Phase
from vramgate.costmodel.coefficients import FIRST_PRINCIPLES
from vramgate.costmodel.estimate import estimate_memory
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.memory_layers import (
    communicator_count,
    communicators_bytes,
    context_bytes,
    workspace_bytes,
)
from vramgate.costmodel.terms import Factors, Term, scaled
from vramgate.units import MIB


def _outside(job: TrainingJob) -> int:
    return int(context_bytes(job, FIRST_PRINCIPLES) + communicators_bytes(job, FIRST_PRINCIPLES))


LLAMA_8B = {"name": "meta-llama/Llama-3.1-8B"}


@given(
    st.fixed_dictionaries(
        {
            "micro_batch_size": st.integers(1, 16),
            "sequence_length": st.sampled_from([128, 2048, 8192]),
            "hardware": st.sampled_from(
                [cards(1), cards(8), cards(1, "rtx-4090"), cards(2, "h100-sxm5-80gb")]
            ),
            "method": st.sampled_from(["full", {"kind": "lora", "rank": 8}, {"kind": "qlora"}]),
            "activation_checkpointing": st.sampled_from(["none", "full"]),
            "software": st.sampled_from(
                [
                    {"framework": name, "expandable_segments": segments}
                    for name in ("transformers", "unsloth", "ms-swift", "torchtitan")
                    for segments in (False, True)
                ]
            ),
        }
    )
)
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_each_layer_is_above_the_one_below(fields: dict[str, Any]) -> None:
    job = a_job(**fields)
    peak = estimate_memory(job).peak
    assert peak.allocated_bytes <= peak.reserved_bytes <= peak.device_bytes
    assert peak.allocated_bytes < peak.required_bytes
    # The least that lives: allocated with what the allocator, the libraries and the driver cannot do without.
    outside = _outside(job)
    assert peak.required_bytes >= peak.allocated_bytes + outside + workspace_bytes(job)
    assert peak.device_bytes - peak.reserved_bytes == outside


def test_meters_stop_at_the_card() -> None:
    # A job whose cache would outgrow a 24 GB card that its tensors fit on.
    fields = {
        "model": LLAMA_8B,
        "method": {"kind": "lora", "rank": 8},
        "activation_checkpointing": "full",
        "sequence_length": 2560,
    }
    job = a_job(hardware=cards(1, "rtx-4090"), **fields)
    card = job.hardware.device
    assert card is not None
    peak = estimate_memory(job).peak
    roomy = estimated(hardware=cards(1, "a100-sxm4-80gb"), **fields).peak
    assert peak.allocated_bytes == roomy.allocated_bytes
    assert peak.device_bytes <= max(
        card.usable_bytes, peak.allocated_bytes + workspace_bytes(job) + 500 * MIB
    )


@pytest.mark.parametrize(
    ("accelerator", "workspace"),
    [
        ("v100-sxm2-32gb", 8_519_680),
        ("a100-sxm4-80gb", 8_519_680),
        ("rtx-4090", 8_519_680),
        ("h100-sxm5-80gb", 32 * MIB),
        ("b200-sxm-180gb", 32 * MIB),
        ("mi300x", 8_519_680),
    ],
)
def test_two_cublas_workspaces_by_card(accelerator: str, workspace: int) -> None:
    # fms-acceleration: 17.04 MB on every row of an A100.
    assert workspace_bytes(a_job(hardware=cards(1, accelerator), precision="fp32")) == 2 * workspace


def test_without_a_card_the_smaller_workspace_is_taken() -> None:
    assert workspace_bytes(a_job()) == 2 * 8_519_680


@pytest.mark.parametrize(
    ("stack", "context"),
    [("torch 1.12", "eager_context_bytes"), ("torch 1.13", "context_bytes")],
)
def test_before_torch_1_13_all_kernels_were_loaded(stack: str, context: str) -> None:
    job = a_job(software={"framework": "transformers", "stack": stack}, attention="eager")
    coefficient = getattr(FIRST_PRINCIPLES, context)
    assert _outside(job) == round(coefficient.value)


MEGATRON: dict[str, Any] = {
    "software": {"framework": "megatron"},
    "sharding": {"implementation": "megatron"},
}


@pytest.mark.parametrize(
    ("devices", "sizes", "communicators"),
    [
        (1, {}, 0),
        (2, {}, 1),
        (2, {"tensor_parallel_size": 2}, 1),
        (4, {"tensor_parallel_size": 2}, 2),
        (8, {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 3),
        (
            16,
            {
                "tensor_parallel_size": 2,
                "pipeline_parallel_size": 2,
                "context_parallel_size": 2,
            },
            4,
        ),
    ],
)
def test_one_communicator_an_axis_with_more_than_one_rank(
    devices: int, sizes: dict[str, int], communicators: int
) -> None:
    fields = {"parallelism": sizes, "hardware": cards(devices), **MEGATRON}
    job = a_job(gradient_accumulation_steps=4, **fields)
    assert communicator_count(job) == communicators
    first = round(FIRST_PRINCIPLES.nccl_first_communicator_bytes.value)
    further = round(FIRST_PRINCIPLES.nccl_communicator_bytes.value)
    context = round(FIRST_PRINCIPLES.context_bytes.value)
    nccl = first + (communicators - 1) * further if communicators else 0
    assert _outside(job) == context + nccl


def _required(job: TrainingJob, factors: Factors | None = None) -> int:
    return int(estimate_memory(job, factors or {}).peak.required_bytes)


def test_required_is_allocated_and_its_parts() -> None:
    job = a_job(model=LLAMA_8B, hardware=cards(1))
    allocated = int(estimate_memory(job).peak.allocated_bytes)
    fragmentation = scaled(allocated, FIRST_PRINCIPLES.fragmentation_fraction.value)
    context = round(FIRST_PRINCIPLES.context_bytes.value)
    assert _required(job) == allocated + fragmentation + 2 * 8_519_680 + context


def test_expandable_segments_leave_less_fragmentation() -> None:
    plain, expandable = (
        a_job(
            model=LLAMA_8B,
            software={"framework": "transformers", "expandable_segments": segments},
        )
        for segments in (False, True)
    )
    assert _required(expandable) < _required(plain)
    allocated = int(estimate_memory(plain).peak.allocated_bytes)
    saved = (
        FIRST_PRINCIPLES.fragmentation_fraction.value
        - FIRST_PRINCIPLES.fragmentation_fraction_expandable.value
    )
    assert _required(plain) - _required(expandable) == pytest.approx(saved * allocated, abs=2)


def test_a_factor_on_the_context_moves_required_and_nothing_allocated() -> None:
    job = a_job(model=llama())
    # The coefficient is 500 MiB.
    before, after = estimate_memory(job), estimate_memory(job, {Term.CONTEXT: 1.2})
    assert after.peak.allocated_bytes == before.peak.allocated_bytes
    assert after.peak.required_bytes - before.peak.required_bytes == 100 * MIB


def test_a_fraction_of_bytes_is_whole_bytes() -> None:
    assert scaled(1_000_001, 0.03) == 30_000
    assert scaled(10**15, 0.2) == 2 * 10**14


def test_every_coefficient_has_a_unit_a_source_and_its_own_name() -> None:
    coefficients = FIRST_PRINCIPLES.all()
    assert len({one.name for one in coefficients}) == len(coefficients)
    for one in coefficients:
        assert getattr(FIRST_PRINCIPLES, one.name) is one
        assert one.value > 0
        assert one.unit
        assert len(one.source) > 20


def test_a_bigger_first_communicator_counts_once() -> None:
    job = a_job(hardware=cards(8), parallelism={"tensor_parallel_size": 2}, **MEGATRON)
    nccl = replace(
        FIRST_PRINCIPLES.nccl_first_communicator_bytes,
        value=FIRST_PRINCIPLES.nccl_first_communicator_bytes.value + 7,
    )
    moved = replace(FIRST_PRINCIPLES, nccl_first_communicator_bytes=nccl)
    assert communicators_bytes(job, moved) - communicators_bytes(job, FIRST_PRINCIPLES) == 7


def test_the_layers_stand_on_the_highest_moment() -> None:
    job = a_job(optimizer={"name": "adamw", "implementation": "foreach"}, precision="fp32")
    estimate = estimate_memory(job)
    top = max(a_step(job).ledger.moments, key=lambda moment: moment.bytes)
    assert top.phase is Phase.OPTIMIZER_STEP
    assert estimate.peak.allocated_bytes == top.bytes
