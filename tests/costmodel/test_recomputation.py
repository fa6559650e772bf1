"""A recomputed part keeps its inputs, leaves the same gradients, and costs its own tensors again in backward.

Bytes a token follow from the block's list in FORMULAS.md 1.2 with fused norms and SwiGLU, as Megatron has them; the
parts that each name recomputes are Megatron's ``recompute_modules``. H, Q, K, I: widths of stream, queries, keys, MLP.
"""

from functools import partial
from typing import Any

import pytest

from tests.costmodel.engine_jobs import (
    HEADS,
    HIDDEN,
    INNER,
    KEY_VALUE,
    LINEAR_WEIGHTS,
    TOKENS,
    a_job,
    a_step,
    a_tape,
    a_weight,
    an_input,
    kept_by_block,
    run_backward,
)
from vramgate.costmodel.job import TrainingJob
from vramgate.costmodel.operations import activation, multiply
from vramgate.costmodel.products import linear
from vramgate.costmodel.recomputation import recompute
from vramgate.costmodel.tape import ACTIVATION, CAST, GRADIENT, Tape, Tensor

WIDTH, ROWS = 64, 16
SIZE = 2 * WIDTH * ROWS


def _part(tape: Tape, x: Tensor, job: TrainingJob) -> Tensor:
    """Run a gated half: two products, an activation, their product."""
    gate = linear(tape, x, a_weight(job, WIDTH, WIDTH))
    opened = activation(tape, gate)
    out = multiply(tape, opened, x)
    tape.drop(gate, opened)
    return out


def test_nothing_is_kept_but_the_inputs() -> None:
    tape, job = a_tape(), a_job()
    x = an_input(tape, WIDTH * ROWS)
    out = recompute(tape, (x,), lambda: _part(tape, x, job))
    tape.drop(x, out)
    assert (tape.live, tape.by[ACTIVATION]) == (SIZE, SIZE)
    again = a_tape()
    y = an_input(again, WIDTH * ROWS)
    whole = _part(again, y, job)
    again.drop(y, whole)
    assert again.live == 3 * SIZE  # the input, the gate, the opened gate


@pytest.mark.parametrize("autocast", [False, True])
def test_gradients_are_the_same_as_without(autocast: bool) -> None:
    job = a_job(precision="bf16-mixed" if autocast else "bf16-true")
    ends = []
    for recomputed in (False, True):
        tape = a_tape(autocast=autocast)
        x = an_input(tape, WIDTH * ROWS)
        run = partial(_part, tape, x, job)
        out = recompute(tape, (x,), run) if recomputed else run()
        tape.drop(x)
        tape.leave_autocast()
        run_backward(tape, out)
        ends.append((tape.by[GRADIENT], tape.live))
    assert ends[0] == ends[1]
    assert ends[0][0] == WIDTH * WIDTH * (4 if autocast else 2)


def test_backward_stands_on_the_recomputed_tensors() -> None:
    # Highest in the linear layer's backward: its input, the gradient the input has already, the output's, the
    # weight's (64 × 64 numbers, four times as many as a tensor here has), and the input's second.
    tape, job = a_tape(), a_job()
    x = an_input(tape, WIDTH * ROWS)
    out = recompute(tape, (x,), lambda: _part(tape, x, job))
    tape.drop(x)
    run_backward(tape, out)
    assert tape.peak == (1 + 1 + 1 + 4 + 1) * SIZE


def test_a_recomputed_part_casts_its_weights_for_itself() -> None:
    # The cache of casts belongs to the run of the part: nothing of it waits outside.
    tape, job = a_tape(autocast=True), a_job(precision="bf16-mixed")
    x = an_input(tape, WIDTH * ROWS, 4)
    recompute(tape, (x,), lambda: _part(tape, x, job))
    assert tape.by[CAST] == 0
    assert not tape.casts


def test_a_recomputed_part_leaves_the_cache_outside_alone() -> None:
    tape, job = a_tape(autocast=True), a_job(precision="bf16-mixed")
    x = an_input(tape, WIDTH * ROWS, 4)
    linear(tape, x, a_weight(job, WIDTH, WIDTH))
    recompute(tape, (x,), lambda: _part(tape, x, job))
    assert len(tape.casts) == 1
    assert tape.by[CAST] == 2 * WIDTH * WIDTH


def test_inside_another_recomputation_nothing_is_recorded() -> None:
    tape = Tape(autocast=False, compute_width=2, recording=False)
    x = an_input(tape, WIDTH * ROWS)
    out = recompute(tape, (x,), lambda: _part(tape, x, a_job()))
    tape.drop(x, out)
    assert (tape.live, tape.operations) == (0, [])


# -- Megatron's modules on real jobs -------------------------------------------------------------------------------

NORMS = 2 * (2 * HIDDEN + 4) + 2 * 2 * HIDDEN
"""Two fused norms: input, one number a row; their outputs."""
QKV = 2 * (HIDDEN + 2 * KEY_VALUE)
CONTEXT = 2 * HIDDEN
STATISTICS = 4 * HEADS
"""The kernel's log-sum-exp."""
MLP = 3 * 2 * INNER
"""Gate, up and their product, by a fused kernel."""
SCORES = 6 * HEADS * TOKENS
"""Eager attention: the softmax in fp32 and in 16 bits."""
REPEATED = 2 * 2 * (HIDDEN - KEY_VALUE)
"""Keys and values at full head count, less what they are grouped."""

MIXTRAL = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
DEEPSEEK = {
    "model_type": "deepseek_v2",
    "architectures": ["DeepseekV2ForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "vocab_size": 1000,
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "n_routed_experts": None,
    "first_k_dense_replace": 2,
}


def _megatron(*modules: str, **fields: Any) -> TrainingJob:  # noqa: ANN401
    """Return a Megatron job that recomputes these parts of a block."""
    checkpointing = {"mode": "selective", "modules": list(modules)} if modules else "none"
    megatron = {"framework": "megatron"}
    return a_job(
        activation_checkpointing=checkpointing,
        software=megatron,
        sharding={"implementation": "megatron"},
        **fields,
    )


def _per_token(*modules: str, **fields: Any) -> int:  # noqa: ANN401
    kept = kept_by_block(_megatron(*modules, **fields))
    assert kept % TOKENS == 0
    return kept // TOKENS


@pytest.mark.parametrize(
    ("modules", "attention", "kept"),
    [
        ((), "sdpa", NORMS + QKV + CONTEXT + STATISTICS + MLP),
        # With a kernel that keeps no scores it saves the log-sum-exp alone (Megatron-LM issue 1225).
        (("core_attn",), "sdpa", NORMS + QKV + CONTEXT + MLP),
        ((), "eager", NORMS + QKV + REPEATED + CONTEXT + SCORES + MLP),
        (("core_attn",), "eager", NORMS + QKV + CONTEXT + MLP),
        (("mlp",), "sdpa", NORMS + QKV + CONTEXT + STATISTICS),
        (("layernorm",), "sdpa", NORMS - 2 * 2 * HIDDEN + QKV + CONTEXT + STATISTICS + MLP),
        (("core_attn", "mlp", "layernorm"), "sdpa", NORMS - 4 * HIDDEN + QKV + CONTEXT),
    ],
)
def test_a_block_drops_what_megatron_recomputes(
    modules: tuple[str, ...], attention: str, kept: int
) -> None:
    assert _per_token(*modules, attention=attention) == kept


def test_recomputed_experts_keep_what_a_recomputed_mlp_keeps() -> None:
    assert _per_token("moe", model={"config": MIXTRAL}) == NORMS + QKV + CONTEXT + STATISTICS


def test_moe_act_drops_the_experts_inner_activations() -> None:
    # Two experts a token: the product of gate and up, 2 I bytes for each.
    model = {"config": MIXTRAL}
    assert _per_token(model=model) - _per_token("moe_act", model=model) == 2 * 2 * INNER


def test_mla_up_proj_drops_what_the_latents_were_raised_to() -> None:
    # Queries and keys of 4 heads × (32 + 16), and the product that holds the values, 4 × (32 + 32); 2 bytes each.
    model = {"config": DEEPSEEK}
    dropped = 2 * HEADS * (48 + 48 + 64)
    assert _per_token(model=model) - _per_token("mla_up_proj", model=model) == dropped


@pytest.mark.parametrize("modules", [("core_attn",), ("mlp",), ("layernorm",)])
def test_a_blocks_gradients_do_not_change(modules: tuple[str, ...]) -> None:
    (piece,) = a_step(_megatron(*modules)).ledger.pieces
    assert piece.segment.gradients == 2 * (LINEAR_WEIGHTS + 2 * HIDDEN)


def test_megatrons_selective_mode_is_the_attention_core() -> None:
    selective = a_job(
        activation_checkpointing="selective",
        attention="eager",
        software={"framework": "megatron"},
        sharding={"implementation": "megatron"},
    )
    assert kept_by_block(selective) == TOKENS * (NORMS + QKV + CONTEXT + MLP)
