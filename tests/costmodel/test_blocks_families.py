"""Decoder families beside Llama: what a block keeps, added up by hand, and laws for every model of the catalog.

The sums were checked against exact traces of transformers 5.24 (two rows of 512 tokens, three layers).
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from tests.costmodel.block_jobs import (
    AUTOCAST,
    BF16,
    LORA,
    a_block_job,
    kept_by_last_block,
    segment_of,
)
from vramgate.costmodel.architecture import Block, ModelArchitecture, Stack
from vramgate.costmodel.families import architecture_from_config
from vramgate.costmodel.job import (
    AttentionImplementation,
    Checkpointing,
    CheckpointMode,
    Method,
    Software,
)

TOKENS = 2048
SMALL = {
    "vocab_size": 8192,
    "hidden_size": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 2816,
    "max_position_embeddings": 4096,
}


def _kept_per_token(**config: Any) -> int:  # noqa: ANN401
    kept = kept_by_last_block(a_block_job({**SMALL, **config}))
    assert kept % TOKENS == 0
    return kept // TOKENS


def test_cohere_keeps_the_centred_stream_twice_in_fp32() -> None:
    # H = Q = 1024, K = 256, n = 16, I = 2816. One norm: centred twice and normalised, 4H each, one number, output 2H;
    # its factor of 4H a layer. Queries 2Q, keys and values 4K, output 2Q, 4n; gate, silu, up, product 2I each.
    per_token = 3 * 4 * 1024 + 4 + 2 * 1024 + 2 * 1024 + 4 * 256 + 2 * 1024 + 4 * 16 + 8 * 2816
    kept = kept_by_last_block(a_block_job({**SMALL, "model_type": "cohere", "use_qk_norm": False}))
    assert kept == TOKENS * per_token + 4 * 1024


def test_olmo_2_weighs_its_norms_in_fp32() -> None:
    # Four norms over H, Q, K and H again: fp32 copy 4, normalised fp32 4, one number. Outputs: the stream 2H twice,
    # as the input of attention and feed-forward; queries 2Q, keys and values 4K, output 2Q, 4n; 8I.
    norms = 8 * (1024 + 1024 + 256 + 1024) + 4 * 4
    rest = 2 * 2 * 1024 + 2 * 1024 + 4 * 256 + 2 * 1024 + 4 * 16 + 8 * 2816
    # The sum behind the last half is the next block's first input and counts there.
    assert _kept_per_token(model_type="olmo2") == norms + rest


def test_granite_keeps_what_llama_keeps() -> None:
    multipliers = {"residual_multiplier": 0.22, "embedding_multiplier": 12.0}
    granite = _kept_per_token(model_type="granite", **multipliers)
    # 16H + 4Q + 4K + 8I + 4n + 8, the closed form of Llama.
    assert granite == 16 * 1024 + 4 * 1024 + 4 * 256 + 8 * 2816 + 4 * 16 + 8


def test_lfm2s_convolution_keeps_its_projection_and_three_more() -> None:
    config = {
        **SMALL,
        "model_type": "lfm2",
        "layer_types": ["conv", "conv"],
        "block_auto_adjust_ff_dim": False,
    }
    # Norms 8H + 4 twice; B, C and x 6H, their product 2H, the convolution 2H, times C 2H; 8I.
    per_token = 2 * (8 * 1024 + 4) + 6 * 1024 + 3 * 2 * 1024 + 8 * 2816
    assert kept_by_last_block(a_block_job(config)) == TOKENS * per_token


def test_gpt_oss_keeps_one_softmax_with_a_column_for_the_sink() -> None:
    config = {
        **SMALL,
        "model_type": "gpt_oss",
        "intermediate_size": 1024,
        "head_dim": 64,
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
    }
    job = a_block_job(config, attention=AttentionImplementation.EAGER, sequence_length=512)
    # A score keeps its softmax in 16 bits: n × s × 2 = 16 384 a token. The trace of this shape keeps 121 987 136 bytes
    # for 1 024 tokens, of which 16 × 512 × 2 × 2 are the sinks' column, left out here.
    assert kept_by_last_block(job) == pytest.approx(121_987_136 / 2, rel=0.001)


def _distinct_blocks() -> Iterator[Any]:
    """Yield every kind of block of the catalog once for each set of roles in a family."""
    seen = set()
    text = (files("vramgate.catalog") / "models.json").read_text(encoding="utf-8")
    for entry in json.loads(text):
        architecture = architecture_from_config(entry["config"])
        for stack in architecture.stacks:
            for kind in stack.blocks:
                key = (
                    architecture.model_type,
                    stack.name,
                    kind.layout,
                    tuple(module.role for module in kind.modules),
                )
                if key not in seen:
                    seen.add(key)
                    name = f"{len(seen)}-{architecture.model_type}-{stack.name}-{kind.name}"
                    yield pytest.param(architecture, stack, kind, id=name)


@pytest.mark.parametrize(("architecture", "stack", "kind"), list(_distinct_blocks()))
def test_every_block_of_the_catalog_obeys_the_laws(
    architecture: ModelArchitecture, stack: Stack, kind: Block
) -> None:
    for precision in (BF16, AUTOCAST):
        for method in (Method(), LORA):
            for mode in (CheckpointMode.NONE, CheckpointMode.FULL):
                for software in (Software(), Software(transformers=(4, 57), peft=(0, 17))):
                    job = a_block_job(
                        architecture,
                        precision=precision,
                        method=method,
                        checkpointing=Checkpointing(mode=mode),
                        software=software,
                        micro_batch_size=2,
                        sequence_length=512,
                    )
                    segment = segment_of(job, kind, stack.hidden_size)
                    assert segment.kept_bytes > 0
                    assert segment.backward.bytes >= segment.kept_bytes
                    if method.kind is Method().kind:
                        width = precision.weights.bytes
                        assert segment.gradients == width * kind.parameters
