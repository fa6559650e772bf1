"""Bytes that tensors as wide as the vocabulary take in the loss, for each logit: forward, backward.

Standard: the traces of VERSIONS.md, "Loss phase". Fused: kernels that overwrite what they read (Liger).
Parallel: ``torch/distributed/tensor/parallel/loss.py``.
"""

from typing import Any

import pytest

from tests.costmodel.engine_jobs import (
    HIDDEN,
    TABLE,
    TOKENS,
    VOCABULARY,
    a_job,
    a_step,
    cards,
    llama,
)
from vramgate.costmodel.blocks.loss import chunk_rows
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.moments import Moment

GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": HIDDEN,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 1024,
    "vocab_size": VOCABULARY,
}
GEMMA_2 = {
    "model_type": "gemma2",
    "architectures": ["Gemma2ForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "final_logit_softcapping": 30.0,
}


def _moments(**fields: Any) -> list[Moment]:  # noqa: ANN401 whatever JSON holds
    """Return the loss's two moments: its forward and its backward."""
    step = a_step(a_job(**fields))
    moments = [moment for moment in step.ledger.moments if moment.phase is Phase.LOSS]
    assert len(moments) == 2
    return moments


def _per_logit(**fields: Any) -> tuple[int, int]:  # noqa: ANN401
    """Return whole bytes for each logit; the loss itself, a number, is not one."""
    rows = fields.get("micro_batch_size", 1)
    logits = rows * TOKENS * VOCABULARY
    forward, backward = (
        int(moment.components[Component.LOGITS]) // logits for moment in _moments(**fields)
    )
    return forward, backward


def _transformers(version: str) -> dict[str, Any]:
    return {"software": {"framework": "transformers", "stack": f"transformers {version}"}}


@pytest.mark.parametrize(
    ("version", "rows", "expected"),
    [
        ("4.45", 1, (8, 12)),
        ("4.45", 2, (12, 12)),
        ("4.46", 1, (10, 12)),
        ("4.48", 2, (14, 12)),
        ("4.49", 2, (10, 12)),
        ("5.24", 1, (10, 12)),
    ],
)
def test_the_standard_loss_follows_the_version(
    version: str, rows: int, expected: tuple[int, int]
) -> None:
    assert _per_logit(micro_batch_size=rows, **_transformers(version)) == expected


@pytest.mark.parametrize(
    ("precision", "version", "rows", "expected"),
    [
        ("bf16-true", "4.47", 1, (4, 6)),
        ("bf16-true", "4.47", 2, (6, 6)),
        ("bf16-mixed", "4.47", 1, (8, 10)),
        ("bf16-mixed", "4.47", 2, (10, 10)),
        ("bf16-true", "4.48", 1, (10, 12)),
        ("bf16-true", "4.48", 2, (14, 12)),
    ],
)
def test_gpt_2_read_16_bit_logits_before_4_48(
    precision: str, version: str, rows: int, expected: tuple[int, int]
) -> None:
    fields = {"model": {"config": GPT2}, "precision": precision, "micro_batch_size": rows}
    assert _per_logit(**fields, **_transformers(version)) == expected


@pytest.mark.parametrize(
    ("version", "rows", "expected"),
    [("4.45", 1, (10, 14)), ("4.46", 2, (16, 14)), ("5.24", 1, (12, 14))],
)
def test_soft_capped_logits_keep_their_tanh(
    version: str, rows: int, expected: tuple[int, int]
) -> None:
    model = {"config": GEMMA_2}
    fields = {"model": model, "attention": "eager", "micro_batch_size": rows}
    assert _per_logit(**fields, **_transformers(version)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # fp32 logits are their own copy: log-softmax, then its gradient and theirs.
        pytest.param({"precision": "fp32"}, (8, 12), id="fp32"),
        pytest.param({"precision": "bf16-mixed"}, (10, 12), id="autocast"),
        # 16-bit logits and the fp32 copy, over which the gradient is written.
        pytest.param({"loss": "fused"}, (6, 6), id="fused"),
        # One kernel reads 16-bit logits and makes their gradient beside them.
        pytest.param({"compile": True}, (2, 4), id="compiled"),
        pytest.param(
            {"loss": "fused", "software": {"framework": "composer"}}, (2, 4), id="flash-attention's"
        ),
        # Every chunk's log-softmax is saved in fp32 beside the whole 16-bit logits, later beside their gradient.
        pytest.param(
            {"loss": "chunked", "software": {"framework": "torchtune"}}, (6, 6), id="chunked"
        ),
    ],
)
def test_other_losses(fields: dict[str, Any], expected: tuple[int, int]) -> None:
    assert _per_logit(**fields) == expected


def test_chunks_are_raised_to_fp32_one_at_a_time() -> None:
    # torchtune: eight chunks; beside the logits one of them in fp32.
    forward, _ = _moments(loss="chunked", software={"framework": "torchtune"})
    assert forward.components[Component.TEMPORARIES] == 4 * TOKENS // 8 * VOCABULARY


def test_trls_chunks_are_made_again_in_backward() -> None:
    # TRL ``chunked_nll``: chunks of 256 tokens, 14 bytes a logit while one runs; no whole logits, then the gradient of
    # the hidden states.
    tokens = 4 * TOKENS
    forward, backward = _moments(
        loss="chunked", software={"framework": "trl"}, sequence_length=tokens
    )
    chunk = 14 * 256 * VOCABULARY
    assert forward.components[Component.LOGITS] == chunk
    assert backward.components[Component.LOGITS] - chunk - 2 * tokens * HIDDEN in range(9)
    assert backward.components[Component.GRADIENTS] == 2 * TABLE


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_parallel_loss_takes_sixteen_bytes_over_the_ranks_in_backward(ranks: int) -> None:
    # Forward: 16-bit logits, fp32 copy, shifted, exponential or log-softmax, 14; backward: saved log-softmax, zeros,
    # exponential, their sum or product: four in fp32.
    forward, backward = _moments(
        software={"framework": "torchtitan"},
        parallelism={"tensor_parallel_size": ranks},
        hardware=cards(ranks),
        model=llama(num_key_value_heads=4),
    )
    logits = TOKENS * VOCABULARY // ranks
    assert forward.components[Component.LOGITS] == 14 * logits
    assert backward.components[Component.LOGITS] - 16 * logits in range(9)  # the loss, its gradient


def test_a_fused_linear_loss_makes_one_chunk_of_logits_and_both_gradients_in_forward() -> None:
    # Liger: ⌈V / H⌉ = 4 pieces of 128 rows are chunks of 32; kept are the hidden states' gradient, a loss a token.
    forward, backward = _moments(loss="fused_linear")
    chunk, gradient = 2 * 32 * VOCABULARY, 2 * TOKENS * HIDDEN
    assert forward.components[Component.LOGITS] == chunk + gradient + 4 * TOKENS
    assert forward.components[Component.GRADIENTS] == 2 * TABLE
    assert backward.components[Component.LOGITS] == gradient + 2 * 4
    assert backward.components[Component.GRADIENTS] == 2 * TABLE


def test_a_frozen_head_gets_no_gradient_from_the_fused_linear_loss() -> None:
    lora = {"kind": "lora", "rank": 8, "target_modules": ["q_proj"]}
    forward, _ = _moments(loss="fused_linear", method=lora)
    assert forward.components.get(Component.GRADIENTS, 0) == 0


@pytest.mark.parametrize(
    ("tokens", "vocabulary", "hidden", "rows"),
    [
        # 2^⌈log2(T / ⌈V/H⌉)⌉ (Liger, FORMULAS.md 2), never more rows than there are.
        (8192, 128_256, 4096, 256),
        (8192, 32_000, 4096, 1024),
        (1000, 32_000, 4096, 128),
        (10, 500, 4096, 10),
    ],
)
def test_chunks_of_the_fused_linear_loss(
    tokens: int, vocabulary: int, hidden: int, rows: int
) -> None:
    assert chunk_rows(tokens, vocab_size=vocabulary, hidden_size=hidden) == rows


@pytest.mark.parametrize("task", ["reward", "embedding"])
def test_without_a_vocabulary_there_are_no_logits(task: str) -> None:
    _, backward = _moments(task=task)
    rows = 2 if task == "reward" else 1  # chosen and rejected
    # The hidden states' gradient is all that is made, 2 bytes an element; the loss and its gradient are numbers.
    made = 2 * rows * TOKENS * HIDDEN
    assert backward.components[Component.LOGITS] - made in range(9)


def test_logits_kept_by_the_loop_stay_through_backward() -> None:
    # fsdp_qlora holds the model's outputs: 16-bit logits, 2 bytes each.
    software = {"framework": "fsdp_qlora", "stack": "transformers 5.24"}
    step = a_step(a_job(software=software, loss="standard"))
    moments = [m for m in step.ledger.moments if m.phase is Phase.BACKWARD]
    backward = [moment for moment in moments if "block" in moment.label]
    assert backward
    assert all(
        moment.components[Component.LOGITS] == 2 * TOKENS * VOCABULARY for moment in backward
    )
