"""A step in time: its phases, its gradients, what trains, what is counted once.

Bytes are added up by hand for the small Llama; that every moment's parts make its whole, and none is negative, holds
for any model of the catalog under any method and sharding.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.costmodel.engine_jobs import (
    BLOCK_PARAMETERS,
    HIDDEN,
    LAYERS,
    PARAMETERS,
    TABLE,
    TOKENS,
    VOCABULARY,
    a_job,
    a_step,
    cards,
    estimated,
    held,
    highest,
    llama,
)
from vramgate.catalog.models import builtin_models
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.estimate import PHASES, estimate_memory
from vramgate.costmodel.job import MethodKind, OptimizerName
from vramgate.costmodel.parallelism import pipeline_stages
from vramgate.errors import DomainError

INPUTS = 2 * 8 * TOKENS
"""Token ids and labels."""
FREQUENCIES = 2 * 4 * 32
"""The rotary inverse frequencies of 64-wide heads, registered twice."""
TABLES = 2 * TOKENS * 64 * 2
"""cos and sin of all positions."""

# -- any job -------------------------------------------------------------------------------------------------------

_SHARDINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"implementation": "ddp"}, {}),
    *(({"implementation": "deepspeed", "zero_stage": stage}, {}) for stage in (1, 2, 3)),
    (
        {
            "implementation": "deepspeed",
            "zero_stage": 3,
            "offload_optimizer": "cpu",
            "offload_parameters": "cpu",
        },
        {},
    ),
    ({"implementation": "fsdp"}, {}),
    ({"implementation": "fsdp2", "shard_group_size": 2}, {}),
    ({"implementation": "megatron"}, {"tensor_parallel_size": 2}),
    ({"implementation": "megatron"}, {"pipeline_parallel_size": 2}),
    ({"implementation": "megatron", "zero_stage": 1}, {"context_parallel_size": 2}),
]
_METHODS: list[Any] = [
    "full",
    {"kind": "lora", "rank": 8, "target_modules": "all-linear"},
    {"kind": "lora", "rank": 8, "target_modules": ["q_proj"], "dora": True, "dropout": 0.05},
    {"kind": "qlora", "rank": 8, "target_modules": "all-linear", "double_quant": True},
    {"kind": "qlora", "rank": 8, "target_modules": "all-linear", "quantization": "int8"},
    {"kind": "freeze", "trainable_layers": 2},
]
_MODELS = [{"name": entry.name} for entry in builtin_models().entries]
_FIELDS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(_MODELS),
        "method": st.sampled_from(_METHODS),
        "spread": st.sampled_from(_SHARDINGS),
        "precision": st.sampled_from(["fp32", "bf16-mixed", "bf16-master", "bf16-true"]),
        "optimizer": st.sampled_from([{"name": name.value} for name in OptimizerName])
        | st.just({"name": "adamw", "in_backward": True}),
        "activation_checkpointing": st.sampled_from(
            [
                "none",
                "selective",
                "full",
                {"mode": "full", "every_n_layers": 3},
                {"mode": "full", "offload": True},
                {"mode": "full", "reentrant": True},
                {"mode": "selective", "modules": ["mlp", "layernorm"]},
            ]
        ),
        "loss": st.sampled_from(["standard", "fused", "chunked", "fused_linear"]),
        "task": st.sampled_from(["sft", "dpo", "reward", "pretrain"]),
        "micro_batch_size": st.integers(1, 3),
        "sequence_length": st.sampled_from([64, 512, 4096]),
        "gradient_accumulation_steps": st.sampled_from([1, 4]),
        "attention": st.sampled_from(["eager", "sdpa"]),
        "compile": st.booleans(),
    }
)


@given(_FIELDS)
@settings(max_examples=800, suppress_health_check=list(HealthCheck))
def test_the_parts_of_every_moment_make_it_whole(fields: dict[str, Any]) -> None:
    note(str(fields))
    given_fields = dict(fields)
    sharding, parallelism = given_fields.pop("spread")
    if sharding:
        given_fields |= {"sharding": sharding, "parallelism": parallelism, "hardware": cards(4)}
    try:
        job = a_job(**given_fields)
    except DomainError:
        return
    for stage in pipeline_stages(job):
        moments = a_step(job, stage).ledger.moments
        for moment in moments:
            assert sum(moment.components.values()) == moment.bytes, moment.label
            assert min(moment.components.values()) >= 0, moment
        order = [PHASES.index(moment.phase) for moment in moments]
        assert order == sorted(order)


# -- phases --------------------------------------------------------------------------------------------------------


def test_a_step_passes_its_phases_in_order() -> None:
    phases = [phase.phase for phase in estimated().timeline]
    assert phases == [
        Phase.LOAD,
        Phase.FORWARD,
        Phase.LOSS,
        Phase.BACKWARD,
        Phase.OPTIMIZER_STEP,
    ]


def test_the_peak_is_the_highest_phase() -> None:
    estimate = estimated()
    highest_phase = max(estimate.timeline, key=lambda phase: phase.allocated_bytes)
    assert estimate.peak.allocated_bytes == highest_phase.allocated_bytes
    assert estimate.peak.phase is highest_phase.phase


def test_a_model_is_loaded_without_states_or_activations() -> None:
    load = highest(a_step(a_job()), Phase.LOAD)
    assert load.bytes == 2 * PARAMETERS + FREQUENCIES


def test_the_optimizer_step_finds_weights_gradients_states_and_inputs() -> None:
    moment = highest(
        a_step(a_job(optimizer={"name": "adamw", "implementation": "fused"})), Phase.OPTIMIZER_STEP
    )
    assert moment.bytes == (2 + 2 + 4) * PARAMETERS + FREQUENCIES + INPUTS


def test_the_loss_stands_on_all_blocks_the_final_norm_and_the_heads_input() -> None:
    # ORACLE.md: 9 752 bytes a token and block for these sizes; final norm 8 H + 4 with the head's input; 12 a logit.
    block = 16 * HIDDEN + 4 * HIDDEN + 4 * 128 + 8 * 512 + 4 * 4 + 8
    kept = TOKENS * (LAYERS * block + 8 * HIDDEN + 4) + TABLES + INPUTS
    states = (2 + 4) * PARAMETERS + FREQUENCIES
    loss = highest(a_step(a_job()), Phase.LOSS)
    assert loss.bytes - (states + kept + 12 * TOKENS * VOCABULARY) in range(9)


# -- gradients -----------------------------------------------------------------------------------------------------


def test_accumulation_keeps_gradients_while_forward_runs() -> None:
    for steps, gradients in ((1, 0), (2, 2 * PARAMETERS), (64, 2 * PARAMETERS)):
        job = a_job(gradient_accumulation_steps=steps)
        assert held(job, Phase.FORWARD, Component.GRADIENTS) == gradients


def test_accumulated_gradients_do_not_grow() -> None:
    step = a_step(a_job(gradient_accumulation_steps=8))
    moments = [moment for moment in step.ledger.moments if moment.phase is not Phase.LOAD]
    assert {moment.components[Component.GRADIENTS] for moment in moments} == {2 * PARAMETERS}


def test_megatrons_wider_gradient_buffer_is_always_there() -> None:
    precision = {
        "weights": "bf16",
        "compute": "bf16",
        "autocast": False,
        "gradients": "fp32",
        "master_weights": True,
        "optimizer_states": "fp32",
    }
    job = a_job(
        precision=precision,
        software={"framework": "megatron"},
        sharding={"implementation": "megatron"},
    )
    assert held(job, Phase.FORWARD, Component.GRADIENTS) == 4 * PARAMETERS


def test_an_optimizer_in_backward_leaves_no_gradients() -> None:
    step = a_step(a_job(optimizer={"name": "adamw", "in_backward": True}))
    for moment in step.ledger.moments:
        assert moment.components.get(Component.GRADIENTS, 0) == 0
    # Every gradient is a temporary of its own layer.
    backward = highest(step, Phase.BACKWARD)
    assert backward.components[Component.TEMPORARIES] < 2 * BLOCK_PARAMETERS


def test_gradients_grow_from_the_last_block_to_the_first() -> None:
    step = a_step(a_job(activation_checkpointing="full"))
    made = [
        moment.components[Component.GRADIENTS]
        for moment in step.ledger.moments
        if moment.phase is Phase.BACKWARD
    ]
    assert made == sorted(made)


def test_backward_of_the_embedding_has_every_gradient() -> None:
    # ORACLE.md: static, all gradients, and the stream's (2 H T) where the tables are apart.
    step = a_step(a_job())
    last = [moment for moment in step.ledger.moments if moment.phase is Phase.BACKWARD][-1]
    states = (2 + 4) * PARAMETERS + FREQUENCIES + INPUTS + TABLES
    assert last.bytes == states + 2 * PARAMETERS + 2 * HIDDEN * TOKENS


def test_a_tied_embeddings_gradients_are_three_tables_for_a_moment() -> None:
    # ORACLE.md, fact 10: the head's, the embedding's, their sum.
    step = a_step(a_job(model=llama(tie_word_embeddings=True)))
    last = [moment for moment in step.ledger.moments if moment.phase is Phase.BACKWARD][-1]
    tied = PARAMETERS - TABLE
    states = (2 + 4) * tied + FREQUENCIES + INPUTS + TABLES
    assert last.bytes == states + 2 * (tied - TABLE) + 3 * 2 * TABLE


# -- what trains ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [1, 3, 4, 99])
def test_freezing_trains_the_last_layers_only(layers: int) -> None:
    job = a_job(method={"kind": "freeze", "trainable_layers": min(layers, LAYERS)})
    estimate = estimate_memory(job)
    trained = min(layers, LAYERS)
    assert job.method.kind is MethodKind.FREEZE
    assert estimate.trainable_parameters == trained * BLOCK_PARAMETERS
    pieces = a_step(job).ledger.pieces
    waiting = [piece for piece in pieces if piece.segment.requires_grad]
    assert sum(piece.count for piece in waiting) == trained


def test_frozen_layers_keep_nothing_below_the_first_that_trains() -> None:
    pieces = a_step(a_job(method={"kind": "freeze", "trainable_layers": 1})).ledger.pieces
    assert pieces[0].count == LAYERS - 1
    assert pieces[0].segment.kept_bytes == 0
    assert pieces[0].segment.gradients == 0


def test_preference_losses_hold_a_frozen_reference() -> None:
    assert held(a_job(task="dpo"), Phase.LOAD, Component.WEIGHTS) == 4 * PARAMETERS + FREQUENCIES
    lora = {"kind": "lora", "rank": 8, "target_modules": ["q_proj"], "adapter_dtype": "bf16"}
    adapters = 2 * LAYERS * 8 * (HIDDEN + HIDDEN)
    with_adapters = held(a_job(task="dpo", method=lora), Phase.LOAD, Component.WEIGHTS)
    assert with_adapters == 2 * PARAMETERS + FREQUENCIES + adapters


def test_pairs_are_two_rows_of_the_micro_batch() -> None:
    one, pair = (a_step(a_job(task=task)).setting for task in ("sft", "simpo"))
    assert (one.batch, pair.batch) == (1, 2)
    assert pair.tokens == 2 * TOKENS


def test_a_reward_model_has_no_output_layer() -> None:
    assert a_step(a_job(task="reward")).model.states.parameters == PARAMETERS - TABLE


# -- encoder and decoder -------------------------------------------------------------------------------------------

T5 = {
    "model_type": "t5",
    "architectures": ["T5ForConditionalGeneration"],
    "d_model": HIDDEN,
    "d_ff": 512,
    "d_kv": 64,
    "num_heads": 4,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "vocab_size": VOCABULARY,
    "feed_forward_proj": "relu",
    "dropout_rate": 0.1,
}


def test_an_encoder_decoder_runs_both_stacks_there_and_back() -> None:
    step = a_step(a_job(model={"config": T5}))
    assert step.ledger.pieces[0].run.layer.stack.name == "encoder"
    assert sum(layers for layers, _ in step.ledger.counted()) == 2 + 3
    labels = [moment.label for moment in step.ledger.moments]
    places = [
        labels.index(label)
        for label in (
            "encoder's output",
            "decoder's embedding",
            "backward of the loss",
            "backward of the decoder's embedding",
            "backward of the encoder's output",
        )
    ]
    assert places == sorted(places)


def test_an_encoder_decoder_ends_with_its_gradients_alone() -> None:
    step = a_step(a_job(model={"config": T5}))
    states = step.model.states
    moment = highest(step, Phase.OPTIMIZER_STEP)
    assert moment.components[Component.GRADIENTS] == 2 * states.parameters
    # Everything that forward held has been let go when backward has passed.
    last = [m for m in step.ledger.moments if m.phase is Phase.BACKWARD][-1]
    assert last.components[Component.ACTIVATIONS] == INPUTS


def test_t5_ties_its_head_from_transformers_5_on() -> None:
    untied = {**T5, "tie_word_embeddings": False}
    now = a_step(a_job(model={"config": untied}, attention="eager")).model
    software = {"framework": "transformers", "stack": "transformers 4.57"}
    before = a_step(a_job(model={"config": untied}, attention="eager", software=software)).model
    assert before.states.parameters - now.states.parameters == TABLE


def test_freezing_trains_layers_of_the_decoder_alone() -> None:
    step = a_step(a_job(model={"config": T5}, method={"kind": "freeze", "trainable_layers": 2}))
    trained = [p.run.layer.stack.name for p in step.ledger.pieces if p.segment.gradients]
    assert set(trained) == {"decoder"}
    assert all(
        p.segment.gradients == 0 for p in step.ledger.pieces if p.run.layer.stack.name != "decoder"
    )
