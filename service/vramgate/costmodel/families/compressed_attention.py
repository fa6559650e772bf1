"""DeepSeek V4: one key-value head, compressed; hyper-connections in place of the residual.

Source: the modeling file in transformers 5.24.
"""

from dataclasses import replace
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    ModelArchitecture,
    Module,
    Part,
    linear,
)
from vramgate.costmodel.families.attention import Mixer
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_POSITIONS,
    MAX_SMALL,
    Config,
    Rate,
)
from vramgate.costmodel.families.decoder import decoder_around, read_sizes
from vramgate.costmodel.families.feed_forward import expert_feed_forward
from vramgate.costmodel.families.llama import LLAMA, MLP_BIAS
from vramgate.costmodel.families.mixture_of_experts import DEEPSEEK_EXPERTS, DEEPSEEK_SHARED
from vramgate.costmodel.families.parts import HEAD_KEYS, norm, parameter, stack

SLIDING = "sliding_attention"
SPARSE = "compressed_sparse_attention"
HEAVY = "heavily_compressed_attention"
_BY_RATIO = {0: SLIDING, 4: SPARSE, 128: HEAVY}
_EXPERTS = replace(DEEPSEEK_EXPERTS, shared=replace(DEEPSEEK_SHARED, bias=MLP_BIAS))
_STYLE = replace(
    LLAMA,
    family="deepseek_v4",
    experts=_EXPERTS,
    approximate=(
        "DeepSeek V4's compressors, indexers and hyper-connections are counted as weights only.",
    ),
)


class _Sizes(NamedTuple):
    """The widths of the attention."""

    hidden: int
    heads: int
    head_dim: int
    query_rank: int
    groups: int
    group_rank: int
    index_heads: int
    index_dim: int
    connections: int


def _sizes(config: Config, hidden: int) -> _Sizes:
    """Return the widths of the attention."""
    return _Sizes(
        hidden=hidden,
        heads=config.whole(*HEAD_KEYS, at_most=MAX_HEADS),
        head_dim=config.whole("head_dim", at_most=MAX_SMALL, default=512),
        query_rank=config.whole("q_lora_rank"),
        groups=config.whole("o_groups", at_most=MAX_SMALL, default=8),
        group_rank=config.whole("o_lora_rank", at_most=MAX_SMALL, default=1024),
        index_heads=config.whole("index_n_heads", at_most=MAX_HEADS, default=64),
        index_dim=config.whole("index_head_dim", at_most=MAX_SMALL, default=128),
        connections=config.whole("hc_mult", at_most=MAX_SMALL, default=4),
    )


def layer_kinds(config: Config, layers: int) -> tuple[str, ...]:
    """Return the attention of each layer: ``layer_types``, ``compress_ratios`` or the default.

    Raises:
        InvalidModelConfigError: a list is malformed or too short.
    """
    kinds = config.words("layer_types", length=layers)
    if kinds is None:
        ratios = config.wholes("compress_ratios", at_most=MAX_SMALL)
        if ratios is None:
            rest = tuple(SPARSE if i % 2 else HEAVY for i in range(max(layers - 2, 0)))
            return (HEAVY,) * min(layers, 2) + rest
        if len(ratios) < layers or not set(ratios) <= set(_BY_RATIO):
            config.refuse("compress_ratios", f"it needs {layers} entries of 0, 4 or 128")
        kinds = tuple(_BY_RATIO[ratio] for ratio in ratios[:layers])
    if not set(kinds) <= set(_BY_RATIO.values()):
        config.refuse("layer_types", f"only {', '.join(_BY_RATIO.values())} are known")
    return kinds


def deepseek_v4(config: Config) -> ModelArchitecture:
    """Return DeepSeek V4.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    shape = read_sizes(config)
    sizes = _sizes(config, shape.hidden)
    if sizes.heads * sizes.head_dim % sizes.groups:
        detail = f"{sizes.groups} groups do not divide {sizes.heads} heads"
        config.refuse("o_groups", detail, code="contradiction")
    kinds = layer_kinds(config, shape.layers)
    layers = stack(
        "decoder", "model.layers", shape.hidden, kinds, lambda kind: _block(config, sizes, kind)
    )
    wide, at, role = sizes.connections, "model.hc_head.hc_", "hyper_connection"
    head = (
        parameter(f"{at}fn", Part.OTHER, role, wide * wide * shape.hidden),
        parameter(f"{at}base", Part.OTHER, role, wide),
        parameter(f"{at}scale", Part.OTHER, role, 1),
    )
    return decoder_around(config, _STYLE, shape, layers, beside=head)


def _block(config: Config, sizes: _Sizes, kind: str) -> Block:
    """Return the block of one kind of attention; all hold experts."""
    experts = expert_feed_forward(config, _EXPERTS, _STYLE.feed_forward, sizes.hidden)
    mixer = _mixer(config, sizes, kind)
    modules = (
        *mixer.modules,
        *experts.modules,
        *(norm(place.path, place.role, sizes.hidden) for place in _STYLE.norms),
        *_hyper_connections(sizes),
    )
    return Block(name=kind, modules=modules, attention=mixer.shape, experts=experts.experts)


def _hyper_connections(sizes: _Sizes) -> tuple[Module, ...]:
    """Return the mixing of the parallel residual streams around each half."""
    wide = sizes.connections
    rows = wide * (2 + wide)
    part, role = Part.OTHER, "hyper_connection"
    return tuple(
        parameter(f"{half}.{name}", part, role, size)
        for half in ("attn_hc", "ffn_hc")
        for name, size in (("fn", rows * wide * sizes.hidden), ("base", rows), ("scale", 3))
    )


def _mixer(config: Config, sizes: _Sizes, kind: str) -> Mixer:
    """Return the attention and what compresses its keys and values."""
    part, at = Part.ATTENTION, "self_attn."
    queries, inner = sizes.heads * sizes.head_dim, sizes.groups * sizes.group_rank
    modules = (
        linear(f"{at}q_a_proj", part, "query_down", sizes.hidden, sizes.query_rank),
        norm(f"{at}q_a_norm", "q_latent_norm", sizes.query_rank),
        linear(f"{at}q_b_proj", part, "query_up", sizes.query_rank, queries),
        linear(f"{at}kv_proj", part, "kv_down", sizes.hidden, sizes.head_dim),
        norm(f"{at}kv_norm", "kv_latent_norm", sizes.head_dim),
        linear(f"{at}o_a_proj", part, "output_down", queries // sizes.groups, inner),
        linear(f"{at}o_b_proj", part, "attention_output", inner, sizes.hidden),
        parameter(f"{at}sinks", part, "sinks", sizes.heads),
        *(_compressor(config, sizes, kind) if kind != SLIDING else ()),
    )
    rotary = config.whole("qk_rope_head_dim", at_most=sizes.head_dim, default=sizes.head_dim // 8)
    shape = Attention(
        heads=sizes.heads,
        kv_heads=1,
        head_dim=sizes.head_dim,
        value_head_dim=sizes.head_dim,
        rotary_dim=rotary,
        sliding_window=config.whole("sliding_window", at_most=MAX_POSITIONS, default=128),
        sinks=True,
        dropout=config.fraction(Rate(("attention_dropout",))),
        q_lora_rank=sizes.query_rank,
    )
    return Mixer(shape, modules)


def _compressor(config: Config, sizes: _Sizes, kind: str) -> tuple[Module, ...]:
    """Return the compressor of keys and values; the sparse kind has an indexer as well."""
    rates = config.section("compress_rates") or Config({})
    rate = rates.whole(kind, at_most=MAX_SMALL, default=4 if kind == SPARSE else 128)
    at = "self_attn.compressor."
    if kind == HEAVY:
        return _pooling(at, sizes.hidden, sizes.head_dim, sizes.head_dim, rate)
    index, part = f"{at}indexer.", Part.ATTENTION
    width = sizes.index_heads * sizes.index_dim
    weights = f"{index}scorer.weights_proj"
    return (
        *_pooling(at, sizes.hidden, 2 * sizes.head_dim, sizes.head_dim, rate),
        *_pooling(index, sizes.hidden, 2 * sizes.index_dim, sizes.index_dim, rate),
        linear(f"{index}q_b_proj", part, "index_query", sizes.query_rank, width),
        linear(weights, part, "index_weights", sizes.hidden, sizes.index_heads),
    )


def _pooling(at: str, hidden: int, width: int, normed: int, rate: int) -> tuple[Module, ...]:
    """Return a gated pooling of ``rate`` tokens into one."""
    part = Part.ATTENTION
    return (
        linear(f"{at}kv_proj", part, "compressor", hidden, width),
        linear(f"{at}gate_proj", part, "compressor", hidden, width),
        parameter(f"{at}position_bias", part, "compressor", rate * width),
        norm(f"{at}kv_norm", "compressor_norm", normed),
    )
