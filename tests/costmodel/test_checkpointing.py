"""What a layer keeps under each kind of activation checkpointing, and what coming back for it costs.

The closed forms are those of ORACLE.md: a block's bytes a token, 2H for a checkpointed one (4H where the stream is
fp32), products and attention for per-op selection (torchtitan ``_save_list``, every second product).
"""

from typing import Any

import pytest

from tests.costmodel.engine_jobs import (
    BLOCK_PARAMETERS,
    HEADS,
    HIDDEN,
    INNER,
    KEY_VALUE,
    LAYERS,
    LINEAR_WEIGHTS,
    PARAMETERS,
    TOKENS,
    a_job,
    a_step,
    cards,
    estimated,
    held,
    highest,
    kept_by_block,
)
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.segments import Segment

BLOCK = (
    16 * HIDDEN + 4 * HIDDEN + 4 * KEY_VALUE + 8 * INNER + 4 * HEADS + 8
)  # ORACLE.md: full bf16, flash; Q = H
STREAM = 2 * HIDDEN


def _segment(**fields: Any) -> Segment:  # noqa: ANN401 whatever JSON holds
    """Return the segment of the last layer."""
    return a_step(a_job(**fields)).ledger.pieces[-1].segment


def _full(**checkpointing: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"mode": "full", **checkpointing}


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        pytest.param({}, BLOCK, id="bf16"),
        pytest.param(
            {"attention": "eager"},
            16 * HIDDEN + 8 * HIDDEN + 8 * INNER + 8 + 6 * HEADS * TOKENS,
            id="eager",
        ),
        pytest.param(
            {"precision": "bf16-mixed"},
            26 * HIDDEN + 4 * HIDDEN + 4 * KEY_VALUE + 8 * INNER + 4 * HEADS + 8,
            id="autocast",
        ),
        pytest.param(
            {"precision": "fp32"},
            # Grouped heads fall to the math kernel in fp32 (fact 6).
            24 * HIDDEN + 16 * HIDDEN + 16 * INNER + 8 + 4 * HEADS * TOKENS,
            id="fp32",
        ),
    ],
)
def test_a_whole_block_keeps_the_closed_form(fields: dict[str, Any], kept: int) -> None:
    assert kept_by_block(a_job(**fields)) == TOKENS * kept


def test_autocast_keeps_the_casts_of_every_linear_weight() -> None:
    casts = held(a_job(precision="bf16-mixed"), Phase.LOSS, Component.AUTOCAST_CACHE)
    # Two bytes for each weight of the blocks, as long as they are saved; the head's cast is saved beside them.
    assert casts == LAYERS * 2 * LINEAR_WEIGHTS + 2 * 1000 * HIDDEN


@pytest.mark.parametrize(("precision", "width"), [("bf16-true", 2), ("bf16-mixed", 4), ("fp32", 4)])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_checkpointed_layer_keeps_its_input(precision: str, width: int, rows: int) -> None:
    job = a_job(precision=precision, activation_checkpointing="full", micro_batch_size=rows)
    assert kept_by_block(job) == rows * TOKENS * width * HIDDEN


@pytest.mark.parametrize("tokens", [16, 128, 1024, 4096])
@pytest.mark.parametrize("mode", ["none", "full"])
def test_backward_of_a_block_is_the_highest_of_four_moments(mode: str, tokens: int) -> None:
    # ORACLE.md, "Phase peaks": the gradient arrives; SwiGLU's backward; the two norms' backward. Checkpointing adds
    # the input it keeps. The form is good to a hundred-thousandth: a number a row may be gone or not.
    moments = (
        tokens * (BLOCK + 2 * HIDDEN),
        tokens * (BLOCK + 4 * INNER + 2 * HIDDEN) + 2 * HIDDEN * INNER,
        tokens * (34 * HIDDEN + 4 * HIDDEN + 4 * KEY_VALUE + 4 * HEADS + 8) + 6 * HIDDEN * INNER,
        tokens * (26 * HIDDEN + 4) + 2 * BLOCK_PARAMETERS,
    )
    segment = _segment(activation_checkpointing=mode, sequence_length=tokens)
    kept_input = tokens * STREAM if mode == "full" else 0
    assert 0 <= max(moments) + kept_input - segment.backward.bytes <= 4 * tokens
    assert segment.gradients == 2 * BLOCK_PARAMETERS


def test_autocasts_cache_outlives_checkpointed_blocks_until_forward_ends() -> None:
    # ORACLE.md, fact 3: 2 bytes for each trainable weight, even with checkpointing.
    step = a_step(a_job(precision="bf16-mixed", activation_checkpointing="full"))
    first, second = (
        moment for moment in step.ledger.moments if moment.phase is Phase.LOSS
    )  # forward of the loss, then its backward
    weights = LAYERS * 2 * LINEAR_WEIGHTS
    difference = first.components[Component.AUTOCAST_CACHE] - second.components.get(
        Component.AUTOCAST_CACHE, 0
    )
    assert difference == weights


def test_every_second_layer_keeps_half_and_brings_a_whole_block_back() -> None:
    each = _segment(activation_checkpointing=_full())
    second = _segment(activation_checkpointing=_full(every_n_layers=2))
    assert second.kept_bytes == TOKENS * STREAM // 2
    assert second.backward.bytes - each.backward.bytes == TOKENS * BLOCK


def test_offloaded_checkpoints_wait_in_host_memory() -> None:
    offloaded = _segment(activation_checkpointing=_full(offload=True))
    assert (offloaded.kept_bytes, offloaded.offloaded) == (0, TOKENS * STREAM)
    fields = {"activation_checkpointing": _full(offload=True)}
    assert estimated(**fields).host_bytes == LAYERS * TOKENS * STREAM
    # Two ranks of one node hold two sets.
    assert estimated(hardware=cards(2), **fields).host_bytes == 2 * LAYERS * TOKENS * STREAM


def test_checkpoints_on_the_card_take_no_host_memory() -> None:
    assert estimated(activation_checkpointing="full").host_bytes == 0


def test_lora_under_checkpointing_runs_every_block_backward() -> None:
    # A hook lets the embedding's output require a gradient: by transformers from 5.0 on, by reentrance before.
    lora = {"kind": "lora", "rank": 8, "target_modules": ["q_proj", "v_proj"]}
    for version in ("5.24", "4.57"):
        software = {"framework": "transformers", "stack": f"transformers {version}"}
        job = a_job(method=lora, activation_checkpointing="full", software=software)
        pieces = a_step(job).ledger.pieces
        assert [piece.count for piece in pieces] == [LAYERS]


def test_without_a_hook_loras_first_block_gets_no_gradient_for_its_input() -> None:
    lora = {"kind": "lora", "rank": 8, "target_modules": ["q_proj", "v_proj"]}
    pieces = a_step(a_job(method=lora)).ledger.pieces
    assert [piece.count for piece in pieces] == [1, LAYERS - 1]
    assert pieces[0].segment.kept_bytes < pieces[1].segment.kept_bytes


# -- selective, per operation --------------------------------------------------------------------------------------

TITAN = {"software": {"framework": "torchtitan"}, "activation_checkpointing": "selective"}
ATTENTION = 2 * HIDDEN + 4 * HEADS
"""The kernel's output and its log-sum-exp."""
ODD_PRODUCTS = 2 * (HIDDEN + KEY_VALUE + INNER + HIDDEN)
"""Of q, k, v, o, gate, up, down: q, v, gate, down."""


def test_per_op_selection_keeps_every_second_product_and_attention() -> None:
    assert kept_by_block(a_job(**TITAN)) == TOKENS * (STREAM + ODD_PRODUCTS + ATTENTION)


def test_compiled_the_blocks_last_product_is_not_kept() -> None:
    kept = kept_by_block(a_job(compile=True, **TITAN))
    assert kept == TOKENS * (STREAM + ODD_PRODUCTS - 2 * HIDDEN + ATTENTION)


def test_blackwells_attention_kernel_is_not_on_the_save_list() -> None:
    kept = kept_by_block(a_job(hardware=cards(1, "b200-sxm-180gb"), **TITAN))
    assert kept == TOKENS * (STREAM + ODD_PRODUCTS)


def test_products_in_nvfp4_are_not_on_the_save_list() -> None:
    nvfp4 = {
        "weights": "bf16",
        "compute": "bf16",
        "autocast": False,
        "gradients": "bf16",
        "master_weights": False,
        "optimizer_states": "bf16",
        "linear": "nvfp4",
    }
    hardware = cards(1, "b200-sxm-180gb")
    kept = kept_by_block(a_job(precision=nvfp4, hardware=hardware, **TITAN))
    assert kept == TOKENS * STREAM


def test_more_checkpointing_never_keeps_more() -> None:
    software = {"framework": "torchtitan"}
    kept = [
        held(
            a_job(activation_checkpointing=mode, software=software),
            Phase.LOSS,
            Component.ACTIVATIONS,
        )
        for mode in ("none", "selective", "full")
    ]
    assert kept[0] > kept[1] > kept[2]


def test_the_step_itself_finds_no_activations_but_the_inputs() -> None:
    # Token ids and labels: two int64 a token.
    step = a_step(a_job(activation_checkpointing="full"))
    moment = highest(step, Phase.OPTIMIZER_STEP)
    assert moment.components[Component.ACTIVATIONS] == 16 * TOKENS
    assert moment.components[Component.GRADIENTS] == 2 * PARAMETERS
