"""Faults that once were in the model, each as the smallest job that showed it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.costmodel.engine_jobs import (
    BLOCK_PARAMETERS,
    HIDDEN,
    LINEAR_WEIGHTS,
    PARAMETERS,
    TABLE,
    TOKENS,
    a_job,
    a_step,
    a_weight,
    an_input,
    cards,
    estimated,
    highest,
    llama,
)
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.estimate import peak_bytes
from vramgate.costmodel.parallelism import pipeline_stages
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape

ALL_LINEAR = {"kind": "lora", "rank": 8, "target_modules": "all-linear"}
MEGATRON: dict[str, Any] = {
    "software": {"framework": "megatron"},
    "sharding": {"implementation": "megatron"},
}
MIXTRAL = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
BF16 = 2
EXPERT = 3 * 256 * 512
"""Parameters of one expert."""

# -- jobs that are not answered ------------------------------------------------------------------------------------


def test_a_model_that_reads_sound_is_answered() -> None:
    estimated(model={"name": "facebook/wav2vec2-base"}, attention="eager")


@pytest.mark.parametrize(
    "model", ["facebook/opt-350m", "google/electra-small-discriminator", "albert/albert-base-v2"]
)
def test_an_adapted_projection_behind_a_frozen_embedding_is_answered(model: str) -> None:
    estimated(model={"name": model}, method=ALL_LINEAR)


def test_dora_in_a_recomputed_part_is_answered() -> None:
    selective = {"mode": "selective", "modules": ["mlp"]}
    estimated(method={**ALL_LINEAR, "dora": True}, activation_checkpointing=selective)


def test_dora_keeps_nothing_where_nothing_is_recorded() -> None:
    tape = Tape(autocast=False, compute_width=2, recording=False)
    x = an_input(tape, 16 * 64)
    job = a_job(method={**ALL_LINEAR, "dora": True, "adapter_dtype": "bf16"})
    tape.drop(linear(tape, x, a_weight(job, 64, 32)), x)
    assert tape.live == 0


# -- arrays --------------------------------------------------------------------------------------------------------


def test_arrays_of_batches_and_lengths_broadcast() -> None:
    batches, lengths = np.array([[2], [5]]), np.array([[64, 128]])
    together = peak_bytes(replace(a_job(), micro_batch_size=batches, sequence_length=lengths))
    assert np.shape(together) == (2, 2)


def test_each_length_is_compared_with_the_window_itself() -> None:
    window = llama(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=256)
    job = a_job(model=window)
    together = peak_bytes(replace(job, sequence_length=np.array([128, 512])))
    alone = [peak_bytes(replace(job, sequence_length=length)) for length in (128, 512)]
    assert np.asarray(together).tolist() == alone


# -- bytes ---------------------------------------------------------------------------------------------------------


def test_a_tensor_group_splits_every_expert() -> None:
    # FORMULAS.md 6: experts are divided by the expert-parallel and the tensor-parallel size.
    fields = {"model": {"config": MIXTRAL}, **MEGATRON}
    job = a_job(parallelism={"tensor_parallel_size": 2}, hardware=cards(2), **fields)
    attention = LINEAR_WEIGHTS - EXPERT
    block = attention // 2 + 4 * 256 + 2 * HIDDEN + 4 * EXPERT // 2
    assert a_step(job).model.states.parameters == 2 * block + TABLE + HIDDEN


def test_experts_states_are_shared_by_their_own_replicas_alone() -> None:
    # Four ranks hold an expert each: nobody has another's, so there is nothing to share (FORMULAS.md 6).
    job = a_job(
        model={"config": MIXTRAL},
        precision="bf16-master",
        parallelism={"expert_parallel_size": 4},
        hardware=cards(4),
        software={"framework": "megatron"},
        sharding={"implementation": "megatron", "zero_stage": 1},
    )
    step = a_step(job)
    moment = highest(step, Phase.OPTIMIZER_STEP)
    experts = 2 * EXPERT
    others = step.model.states.parameters - experts
    assert moment.components[Component.OPTIMIZER_STATES] == 8 * experts + 8 * others // 4


def test_no_micro_batch_is_in_flight_when_the_optimizer_steps() -> None:
    job = a_job(
        parallelism={"pipeline_parallel_size": 4},
        hardware=cards(4),
        gradient_accumulation_steps=8,
    )
    moment = highest(a_step(job, pipeline_stages(job)[0]), Phase.OPTIMIZER_STEP)
    assert moment.components[Component.ACTIVATIONS] == 2 * 8 * TOKENS  # token ids and labels


def test_dualpipe_holds_two_stages_of_weights() -> None:
    # DeepSeek-V3, table 2: parameters twice.
    sizes = {"pipeline_parallel_size": 4, "pipeline_schedule": "dualpipe"}
    job = a_job(
        model=llama(num_hidden_layers=8),
        parallelism=sizes,
        hardware=cards(4),
        gradient_accumulation_steps=8,
    )
    weights = highest(a_step(job, pipeline_stages(job)[0]), Phase.FORWARD).components[
        Component.WEIGHTS
    ]
    assert weights >= BF16 * (2 * 2 * BLOCK_PARAMETERS + TABLE)


def test_ddps_buckets_stand_from_the_start() -> None:
    # PyTorch ``reducer.cpp``: initialize_buckets allocates each bucket's tensor, and the reducer keeps it.
    job = a_job(hardware=cards(2), sharding={"implementation": "ddp"})
    step = a_step(job)
    for phase in (Phase.FORWARD, Phase.LOSS, Phase.OPTIMIZER_STEP):
        buffers = highest(step, phase).components[Component.COMMUNICATION_BUFFERS]
        assert buffers == 2 * PARAMETERS


@pytest.mark.parametrize("implementation", ["deepspeed", "fsdp", "fsdp2"])
def test_nothing_is_gathered_when_the_optimizer_steps(implementation: str) -> None:
    # DeepSpeed ``stage3.py``: step() begins with _partition_all_parameters(); FSDP reshards its root after backward.
    sharding = {"implementation": implementation, "zero_stage": 3}
    moment = highest(a_step(a_job(hardware=cards(4), sharding=sharding)), Phase.OPTIMIZER_STEP)
    assert moment.components.get(Component.GATHERED_PARAMETERS, 0) == 0


def test_without_resharding_all_blocks_are_gathered_when_backward_starts() -> None:
    sharding = {"implementation": "fsdp2", "reshard_after_forward": False}
    moment = highest(a_step(a_job(hardware=cards(4), sharding=sharding)), Phase.LOSS)
    assert moment.components[Component.GATHERED_PARAMETERS] == 2 * PARAMETERS


def test_one_unit_is_gathered_whole() -> None:
    sharding = {"implementation": "fsdp", "wrap": "none"}
    moment = highest(a_step(a_job(hardware=cards(4), sharding=sharding)), Phase.BACKWARD)
    assert moment.components[Component.GATHERED_PARAMETERS] == 2 * PARAMETERS


def test_half_of_the_states_stay_on_the_card() -> None:
    sharding = {
        "implementation": "deepspeed",
        "zero_stage": 3,
        "offload_optimizer": "cpu",
        "offload_fraction": 0.5,
    }
    job = a_job(hardware=cards(4), sharding=sharding, precision="bf16-master")
    moment = highest(a_step(job), Phase.OPTIMIZER_STEP)
    assert moment.components[Component.OPTIMIZER_STATES] == 8 * PARAMETERS // 4 // 2


def test_accumulated_gradients_are_shares_when_the_optimizer_steps() -> None:
    # The last micro-step reduces: no_sync is left, reduce-scatter frees what was whole.
    sharding = {"implementation": "fsdp", "sync_each_micro_batch": False}
    job = a_job(hardware=cards(4), sharding=sharding, gradient_accumulation_steps=4)
    moment = highest(a_step(job), Phase.OPTIMIZER_STEP)
    assert moment.components[Component.GRADIENTS] == 2 * PARAMETERS // 4


def test_what_a_card_must_offer_is_not_more_than_its_meter_shows() -> None:
    peak = estimated(
        model={"name": "meta-llama/Llama-3.1-8B"},
        method={"kind": "lora", "rank": 8},
        hardware=cards(1),
    ).peak
    assert peak.required_bytes <= peak.device_bytes
