"""Mixtures of experts: what they keep, added up by hand.

Every sum per token was checked against the exact trace named beside it (``ORACLE.md``, fitted coefficients).
Letters: H hidden, Q query and K key width, n heads, g key-value heads, I an expert's width, E experts, k per token.
"""

import pytest

from tests.costmodel.block_jobs import (
    AUTOCAST,
    BF16,
    LORA,
    a_block_job,
    kept_by_last_block,
    segment_of,
)
from vramgate.costmodel.blocks.decoder import block
from vramgate.costmodel.job import Checkpointing, CheckpointMode, Method, Precision, Software
from vramgate.costmodel.segments import stream_tensor
from vramgate.costmodel.setting import setting_of
from vramgate.costmodel.tape import CAST, Tape
from vramgate.costmodel.weights import held_weights

TOKENS = 2048
TRANSFORMERS_4 = Software(transformers=(4, 57), peft=(0, 17))
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
DEEPSEEK_V2_LITE = {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_shared_experts": 2,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "vocab_size": 102400,
    "tie_word_embeddings": False,
}


def test_mixtral_keeps_its_chosen_rows_and_three_products_an_expert() -> None:
    # Attention and norms, 16H + 4Q + 4K + 4n + 8 with H = Q = 4096, K = 1024, n = 32: 86 152.
    # A chosen row: its input 2H, gate and up 4I, silu 2I, their product 2I, the output 2H; I = 14 336, k = 2.
    # Router: 8 probabilities of 4; for each choice two indices, the order and its inverse (8 each, 32), the score
    # before its division and after its sort (4 each, 8); the sum of the scores 4.
    attention = 16 * 4096 + 4 * 4096 + 4 * 1024 + 4 * 32 + 8
    experts = 2 * (4 * 4096 + 8 * 14336)
    router = 8 * 4 + 2 * (32 + 8) + 4
    # 348 412 bytes a token in the trace of Mixtral-8x7B.
    assert attention + experts + router == 348_412
    assert kept_by_last_block(a_block_job(MIXTRAL)) == TOKENS * 348_412


def test_qwen_casts_the_scores_to_the_format_of_its_router() -> None:
    # As Mixtral, with H = 2048, Q = 4096, K = 512, n = 32, g = 4, I = 768, k = 8, and norms of queries and keys:
    # 6(Q + K) + 4(n + g). The sorted score of a choice is 2 bytes instead of 4.
    attention = 16 * 2048 + 4 * 4096 + 4 * 512 + 4 * 32 + 8
    head_norms = 6 * (4096 + 512) + 4 * (32 + 4)
    experts = 8 * (4 * 2048 + 8 * 768)
    router = 128 * 4 + 8 * (32 + 4 + 2) + 4
    assert attention + head_norms + experts + router == 194_636  # trace of Qwen3-30B-A3B
    assert kept_by_last_block(a_block_job(QWEN3_MOE)) == TOKENS * 194_636


def test_deepseek_keeps_a_latent_an_fp32_router_input_and_shared_experts() -> None:
    # H = 2048, latent r = 512, 16 heads of 192 for queries and keys, of 128 for values; I = 1408, k = 6, E = 64.
    norms = 8 * 2048 * 2 + 4 * 2
    latent = 8 * 512 + 4  # fp32 copy 4, normalised 2, output 2; one inverse root
    heads = (
        2 * 16 * (192 + (128 + 128) + 192 + 128) + 4 * 16
    )  # queries, keys-values, keys, output, log-sum-exp
    router = 4 * 2048 + 64 * 4 + 6 * (32 + 4)  # scores are not normalised: no sum, no copy
    experts = 6 * (4 * 2048 + 8 * 1408)
    shared = 8 * 2 * 1408
    # 209 444 bytes a token in the trace of DeepSeek-V2-Lite.
    assert norms + latent + heads + router + experts + shared == 209_444
    assert kept_by_last_block(a_block_job(DEEPSEEK_V2_LITE)) == TOKENS * 209_444


def test_grouped_products_stay_in_fp32_under_autocast() -> None:
    # Attention and norms under autocast, 26H + 4Q + 4K + 4n + 8, but the feed-forward norm's output is cast once
    # (for the router), not twice as for gate and up: 24H. The experts' side is twice as wide.
    attention = 24 * 4096 + 4 * 4096 + 4 * 1024 + 4 * 32 + 8
    experts = 2 * 2 * (4 * 4096 + 8 * 14336)
    router = 8 * 4 + 2 * (32 + 8) + 4
    assert attention + experts + router == 643_324  # trace of Mixtral-8x7B under autocast
    assert kept_by_last_block(a_block_job(MIXTRAL, precision=AUTOCAST)) == TOKENS * 643_324


def test_listed_experts_keep_as_much_as_stacked_ones() -> None:
    job = a_block_job(MIXTRAL, software=TRANSFORMERS_4)
    # 4.57 differs from 5 in the router alone: scores in 16 bits (2, and 2 where an expert picks them), and for each
    # choice the indices of rows (8), of scores (16) and of the sum (8) beside those of the choice (8).
    attention = 16 * 4096 + 4 * 4096 + 4 * 1024 + 4 * 32 + 8
    experts = 2 * (4 * 4096 + 8 * 14336)
    router = 8 * 4 + 2 * (8 + 4) + 4 + 2 * (8 + 16 + 8 + 2)
    assert kept_by_last_block(job) == TOKENS * (attention + experts + router)


@pytest.mark.parametrize("software", [Software(), TRANSFORMERS_4], ids=["stacked", "listed"])
@pytest.mark.parametrize(
    "config", [MIXTRAL, QWEN3_MOE, DEEPSEEK_V2_LITE], ids=lambda c: c["model_type"]
)
def test_every_expert_leaves_its_gradient(config: dict[str, object], software: Software) -> None:
    job = a_block_job(config, software=software)
    block = job.architecture.decoder.blocks[-1]
    segment = segment_of(job, block, job.architecture.hidden_size)
    assert segment.gradients == 2 * block.parameters


def test_listed_experts_need_one_experts_room_at_a_time() -> None:
    # Beside gradients and what it keeps, a stacked layer needs room for all rows at once, a listed one for a few.
    job = a_block_job(QWEN3_MOE)
    listed = a_block_job(QWEN3_MOE, software=TRANSFORMERS_4)
    block = job.architecture.decoder.blocks[-1]
    stacked_peak = segment_of(job, block, 2048).backward.bytes
    assert segment_of(listed, block, 2048).backward.bytes < stacked_peak


def test_peft_adapts_stacked_experts_as_one_parameter() -> None:
    job = a_block_job(MIXTRAL, method=LORA)
    weights = held_weights(job.architecture.decoder.blocks[-1].modules, job, in_block=True)
    # Rank 16. Attention: q and o 16(4096 + 4096) each, k and v 16(4096 + 1024) each. Router 16(4096 + 8).
    attention = 2 * 16 * 8192 + 2 * 16 * 5120
    router = 16 * (4096 + 8)
    # gate_up is one parameter of rank 32: A 32 × 8 × 4096, B 28 672 × 32 × 8. down: A 16 × 8 × 14 336, B 4096 × 16 × 8.
    gate_up = 32 * 8 * 4096 + 28672 * 32 * 8
    down = 16 * 8 * 14336 + 4096 * 16 * 8
    assert (
        attention + router + gate_up + down == 11_239_552
    )  # trainable parameters a block in the trace
    assert sum(weight.trainable_elements for weight in weights.values()) == 11_239_552


def test_lora_on_stacked_experts_keeps_a_merged_copy_of_them() -> None:
    merged = 2 * 8 * 3 * 4096 * 14336  # bytes of all experts of a layer, in bf16
    kept = kept_by_last_block(a_block_job(MIXTRAL, method=LORA))
    without = kept_by_last_block(a_block_job(MIXTRAL, method=LORA, software=TRANSFORMERS_4))
    assert kept > merged
    assert without < merged


@pytest.mark.parametrize("software", [Software(), TRANSFORMERS_4], ids=["stacked", "listed"])
@pytest.mark.parametrize("precision", [BF16, AUTOCAST], ids=["bf16", "autocast"])
@pytest.mark.parametrize("method", [Method(), LORA], ids=["full", "lora"])
def test_a_checkpointed_block_first_runs_as_one_that_saves_nothing(
    software: Software, precision: Precision, method: Method
) -> None:
    checkpointing = Checkpointing(mode=CheckpointMode.FULL)
    job = a_block_job(
        MIXTRAL,
        software=software,
        precision=precision,
        method=method,
        checkpointing=checkpointing,
    )
    setting, shape = setting_of(job), job.architecture.decoder.blocks[-1]
    tape = Tape(autocast=setting.autocast, compute_width=2, recording=False)
    weights = held_weights(shape.modules, job, in_block=True)
    stream = stream_tensor(tape, setting, 4096, requires_grad=True)
    block(tape, setting, shape, weights, stream)
    segment = segment_of(job, shape, 4096)
    assert (segment.forward.bytes, segment.forward.parts) == (tape.peak, tape.peak_by)
    assert segment.casts_until_forward_ends == tape.by[CAST]
