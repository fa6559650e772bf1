"""Multi-head latent attention: DeepSeek V2, V3, V3.2, Kimi K2, Moonlight, GLM-4.7-Flash, GLM-5.

Queries and keys have a part without positions and a rotated part; keys and values come from a
narrow latent.
Source: DeepSeek-V2 (2024), section 2.1, and the modeling files in transformers 5.24.
"""

from dataclasses import replace
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    AttentionKind,
    ModelArchitecture,
    Module,
    Part,
    linear,
)
from vramgate.costmodel.families.attention import Mixer
from vramgate.costmodel.families.config import MAX_HEADS, MAX_SMALL, Config, Rate
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.layers import LayerKind
from vramgate.costmodel.families.llama import ATTENTION_BIAS, MLP_BIAS
from vramgate.costmodel.families.mixture_of_experts import DEEPSEEK_EXPERTS, DEEPSEEK_SHARED
from vramgate.costmodel.families.parts import HEAD_KEYS, head_count, hidden_size, norm
from vramgate.costmodel.families.style import DecoderStyle, FeedForwardStyle

DEEPSEEK_V3 = DecoderStyle(family="deepseek", experts=DEEPSEEK_EXPERTS)
DEEPSEEK_V2 = replace(
    DEEPSEEK_V3,
    feed_forward=FeedForwardStyle(bias=MLP_BIAS),
    experts=replace(DEEPSEEK_EXPERTS, shared=replace(DEEPSEEK_SHARED, bias=MLP_BIAS)),
)
_INDEXED = "The indexer of sparse attention is counted as weights; attention is taken as full."


class LatentSizes(NamedTuple):
    """The widths latent attention is made of."""

    hidden: int
    heads: int
    query_rank: int | None
    kv_rank: int
    plain: int
    rotary: int
    value: int

    @property
    def head_dim(self) -> int:
        """Width of a query or key head."""
        return self.plain + self.rotary


def latent_sizes(config: Config) -> LatentSizes:
    """Return the widths; ``q_lora_rank`` null means an undivided query projection.

    Raises:
        InvalidModelConfigError: a key is missing or out of bounds.
    """
    query_rank = config.maybe_whole("q_lora_rank")
    if query_rank is None and not config.has("q_lora_rank"):
        config.require("q_lora_rank")
    return LatentSizes(
        hidden=hidden_size(config),
        heads=config.whole(*HEAD_KEYS, at_most=MAX_HEADS),
        query_rank=query_rank,
        kv_rank=config.whole("kv_lora_rank"),
        plain=config.whole("qk_nope_head_dim", at_most=MAX_SMALL),
        rotary=config.whole("qk_rope_head_dim", at_most=MAX_SMALL),
        value=config.whole("v_head_dim", at_most=MAX_SMALL),
    )


def latent_modules(config: Config, sizes: LatentSizes) -> tuple[Module, ...]:
    """Return the projections and latent norms of the attention."""
    bias = config.flag(ATTENTION_BIAS)
    part, at = Part.ATTENTION, "self_attn."
    queries = sizes.heads * sizes.head_dim
    if sizes.query_rank is None:
        query: tuple[Module, ...] = (linear(f"{at}q_proj", part, "query", sizes.hidden, queries),)
    else:
        rank = sizes.query_rank
        query = (
            linear(f"{at}q_a_proj", part, "query_down", sizes.hidden, rank, bias=bias),
            norm(f"{at}q_a_layernorm", "q_latent_norm", rank),
            linear(f"{at}q_b_proj", part, "query_up", rank, queries),
        )
    kv_down, kv_up = sizes.kv_rank + sizes.rotary, sizes.heads * (sizes.plain + sizes.value)
    return (
        *query,
        linear(f"{at}kv_a_proj_with_mqa", part, "kv_down", sizes.hidden, kv_down, bias=bias),
        norm(f"{at}kv_a_layernorm", "kv_latent_norm", sizes.kv_rank),
        linear(f"{at}kv_b_proj", part, "kv_up", sizes.kv_rank, kv_up),
        linear(
            f"{at}o_proj",
            part,
            "attention_output",
            sizes.heads * sizes.value,
            sizes.hidden,
            bias=bias,
        ),
    )


def latent_shape(config: Config, sizes: LatentSizes) -> Attention:
    """Return the shape of the attention."""
    return Attention(
        kind=AttentionKind.LATENT,
        heads=sizes.heads,
        kv_heads=sizes.heads,
        head_dim=sizes.head_dim,
        value_head_dim=sizes.value,
        rotary_dim=sizes.rotary,
        dropout=config.fraction(Rate(("attention_dropout",))),
        q_lora_rank=sizes.query_rank,
        kv_lora_rank=sizes.kv_rank,
        rope_head_dim=sizes.rotary,
    )


def indexer_modules(config: Config, sizes: LatentSizes) -> tuple[Module, ...]:
    """Return the indexer that picks the keys each query attends to (DeepSeek V3.2).

    Raises:
        InvalidModelConfigError: a key is missing, or queries have no latent for it to read.
    """
    if sizes.query_rank is None:
        config.refuse("q_lora_rank", "null: the indexer reads the query latent")
    heads = config.whole("index_n_heads", at_most=MAX_HEADS)
    width = config.whole("index_head_dim", at_most=MAX_SMALL)
    part, at = Part.ATTENTION, "self_attn.indexer."
    return (
        linear(f"{at}wq_b", part, "index_query", sizes.query_rank, heads * width),
        linear(f"{at}wk", part, "index_key", sizes.hidden, width),
        norm(f"{at}k_norm", "index_key_norm", width, bias=True),
        linear(f"{at}weights_proj", part, "index_weights", sizes.hidden, heads),
    )


def deepseek(config: Config, style: DecoderStyle = DEEPSEEK_V3) -> ModelArchitecture:
    """Return a decoder with latent attention and DeepSeek's experts.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = latent_sizes(config)
    mixer = Mixer(latent_shape(config, sizes), latent_modules(config, sizes))
    return _build(config, style, mixer)


def deepseek_sparse(config: Config) -> ModelArchitecture:
    """Return DeepSeek V3.2 or GLM-5: latent attention to the keys an indexer picks.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = latent_sizes(config)
    modules = (*latent_modules(config, sizes), *indexer_modules(config, sizes))
    style = replace(DEEPSEEK_V3, approximate=(_INDEXED,))
    return _build(config, style, Mixer(latent_shape(config, sizes), modules))


def _build(config: Config, style: DecoderStyle, mixer: Mixer) -> ModelArchitecture:
    """Return the decoder whose layers all have this attention."""

    def same(_kind: LayerKind) -> Mixer:
        return mixer

    return build_decoder(config, style, mixer=same)


MINICPM3 = DecoderStyle(
    family="minicpm3",
    tied=True,
    embedding_scaled=True,
    feed_forward=FeedForwardStyle(bias=MLP_BIAS),
)


def minicpm3(config: Config) -> ModelArchitecture:
    """Return MiniCPM 3: latent attention without experts; values are a head wide where not told.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    if config.maybe_whole("v_head_dim", at_most=MAX_SMALL) is None:
        config = config.replaced(v_head_dim=head_count(config, hidden_size(config))[1])
    return deepseek(config, MINICPM3)
