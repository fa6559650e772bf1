"""Decoders with linear attention or convolutions: Qwen3-Next, Qwen3.5, MiniMax-Text, LFM2.

Source of every trait: the family's modeling file in transformers 5.24.
"""

from dataclasses import replace
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    AttentionKind,
    ModelArchitecture,
    NormKind,
    Part,
    Position,
    linear,
)
from vramgate.costmodel.families.attention import Mixer
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_INTERMEDIATE,
    MAX_LAYERS,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
)
from vramgate.costmodel.families.decoder import build_decoder
from vramgate.costmodel.families.hybrid import choice
from vramgate.costmodel.families.llama import ATTENTION_BIAS, HEAD_NORM
from vramgate.costmodel.families.mixture_of_experts import (
    MIXTRAL_EXPERTS,
    QWEN_EXPERTS,
    QWEN_SHARED,
)
from vramgate.costmodel.families.parts import (
    convolution,
    hidden_size,
    layer_count,
    norm,
    parameter,
    read_heads,
)
from vramgate.costmodel.families.style import (
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    NormPlace,
    QueryKeyNorm,
)

_LINEAR = ("The activations of linear-attention mixers are approximated.",)


class _DeltaSizes(NamedTuple):
    """The widths of a gated delta net."""

    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    @property
    def keys(self) -> int:
        """Width of the keys (or queries) of all heads."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Width of the values of all heads."""
        return self.heads * self.value_dim


def _delta_sizes(config: Config) -> _DeltaSizes:
    """Return the widths of a gated delta net."""
    sizes = _DeltaSizes(
        heads=config.whole("linear_num_value_heads", at_most=MAX_HEADS, default=32),
        key_heads=config.whole("linear_num_key_heads", at_most=MAX_HEADS, default=16),
        key_dim=config.whole("linear_key_head_dim", at_most=MAX_SMALL, default=128),
        value_dim=config.whole("linear_value_head_dim", at_most=MAX_SMALL, default=128),
        kernel=config.whole("linear_conv_kernel_dim", at_most=MAX_SMALL, default=4),
    )
    if sizes.heads % sizes.key_heads:
        detail = f"{sizes.key_heads} key heads do not divide {sizes.heads} value heads"
        config.refuse("linear_num_key_heads", detail, code="contradiction")
    return sizes


def delta_net_mixer(config: Config, hidden: int, *, fused: bool) -> Mixer:
    """Return Qwen's gated delta net; ``fused``: q, k, v, z in one projection (Qwen3-Next).

    Source: Yang et al. 2024, Gated Delta Networks.

    Raises:
        InvalidModelConfigError: a size is malformed, or the key heads do not divide the value
            heads.
    """
    sizes = _delta_sizes(config)
    channels = 2 * sizes.keys + sizes.values
    part, at = Part.ATTENTION, "linear_attn."
    inputs = (
        {"in_proj_qkvz": channels + sizes.values, "in_proj_ba": 2 * sizes.heads}
        if fused
        else {
            "in_proj_qkv": channels,
            "in_proj_z": sizes.values,
            "in_proj_b": sizes.heads,
            "in_proj_a": sizes.heads,
        }
    )
    convolved = f"{at}conv1d"
    modules = (
        *(linear(at + path, part, "mixer_in", hidden, size) for path, size in inputs.items()),
        convolution(convolved, "mixer_conv", (1, channels), sizes.kernel, bias=False, part=part),
        *(parameter(at + n, part, "mixer_parameter", sizes.heads) for n in ("dt_bias", "A_log")),
        norm(f"{at}norm", "mixer_norm", sizes.value_dim),
        linear(f"{at}out_proj", part, "mixer_out", sizes.values, hidden),
    )
    return Mixer(_delta_shape(sizes), modules)


def _delta_shape(sizes: _DeltaSizes) -> Attention:
    """Return the shape of a gated delta net as what stands in the attention's place."""
    return Attention(
        kind=AttentionKind.LINEAR,
        heads=sizes.heads,
        kv_heads=sizes.key_heads,
        head_dim=sizes.key_dim,
        value_head_dim=sizes.value_dim,
        position=Position.NONE,
        inner_size=sizes.values,
        state_size=sizes.key_dim,
    )


_QWEN3_NEXT = DecoderStyle(
    family="qwen3_next",
    norm=NormKind.RMS_PLUS_ONE,
    attention=AttentionStyle(
        bias=ATTENTION_BIAS,
        output_bias=ATTENTION_BIAS,
        norm=HEAD_NORM,
        partial_rotary=0.25,
        kv_heads_default=2,
        head_dim_default=256,
        output_gate=True,
    ),
    experts=replace(QWEN_EXPERTS, shared=QWEN_SHARED),
    approximate=_LINEAR,
)
_QWEN3_5 = replace(_QWEN3_NEXT, family="qwen3_5", experts=None)
_QWEN3_5_MOE = replace(_QWEN3_NEXT, family="qwen3_5_moe")


def linear_layers(config: Config, layers: int, *, interval: int) -> tuple[str, ...]:
    """Return each layer's mixer: ``layer_types``, or attention every ``full_attention_interval``.

    Raises:
        InvalidModelConfigError: the list has another length than the layers.
    """
    kinds = config.words("layer_types", length=layers)
    if kinds is not None:
        return tuple(
            "attention" if kind in {"full_attention", "attention"} else "linear" for kind in kinds
        )
    step = config.whole("full_attention_interval", at_most=MAX_LAYERS, default=interval)
    return tuple("linear" if (layer + 1) % step else "attention" for layer in range(layers))


def _qwen_hybrid(config: Config, style: DecoderStyle, *, fused: bool) -> ModelArchitecture:
    """Return a decoder of delta nets and gated attention."""
    hidden, layers = hidden_size(config), layer_count(config)
    make = choice(
        config, style, hidden, lambda: delta_net_mixer(config, hidden, fused=fused), "linear"
    )
    return build_decoder(
        config, style, mixer=make, mixers=linear_layers(config, layers, interval=4)
    )


def qwen3_next(config: Config) -> ModelArchitecture:
    """Return Qwen3-Next.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen_hybrid(config, _QWEN3_NEXT, fused=True)


def qwen3_5_text(config: Config) -> ModelArchitecture:
    """Return the text model of Qwen3.5.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen_hybrid(config, _QWEN3_5, fused=False)


def qwen3_5_moe_text(config: Config) -> ModelArchitecture:
    """Return the text model of Qwen3.5 with experts.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    return _qwen_hybrid(config, _QWEN3_5_MOE, fused=False)


_MINIMAX = DecoderStyle(
    family="minimax",
    attention=AttentionStyle(kv_heads_default=8),
    experts=MIXTRAL_EXPERTS,
    approximate=_LINEAR,
)


def minimax(config: Config) -> ModelArchitecture:
    """Return MiniMax-Text: lightning attention, softmax attention in every eighth layer.

    Its lightning layers each keep decay tables: one of block_size² for each head and two of
    block_size.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, layers = hidden_size(config), layer_count(config)
    heads = read_heads(config, hidden, kv_heads_default=8)
    width, part, at = heads.query_size, Part.ATTENTION, "self_attn."
    modules = (
        linear(f"{at}qkv_proj", part, "qkv", hidden, 3 * width),
        linear(f"{at}output_gate", part, "output_gate", hidden, width),
        linear(f"{at}out_proj", part, "attention_output", width, hidden),
        norm(f"{at}norm", "mixer_norm", width),
    )
    shape = Attention(
        kind=AttentionKind.LINEAR,
        heads=heads.heads,
        kv_heads=heads.heads,
        head_dim=heads.head_dim,
        value_head_dim=heads.head_dim,
        position=Position.NONE,
        fused_qkv=True,
        inner_size=width,
        state_size=heads.head_dim,
    )
    mixers = linear_layers(config, layers, interval=2)
    make = choice(config, _MINIMAX, hidden, lambda: Mixer(shape, modules), "linear")
    model = build_decoder(config, _MINIMAX, mixer=make, mixers=mixers)
    block = config.whole("block_size", at_most=MAX_SMALL, default=256)
    tables = mixers.count("linear") * heads.heads * (block * block + 2 * block + 1)
    return replace(model, buffer_elements=model.buffer_elements + tables)


_LFM2 = DecoderStyle(
    family="lfm2",
    final_norm="embedding_norm",
    tied=True,
    norms=(
        NormPlace(role="input_norm", path="operator_norm"),
        NormPlace(role="pre_feed_forward_norm", path="ffn_norm"),
    ),
    attention=AttentionStyle(
        projections=("q_proj", "k_proj", "v_proj", "out_proj"),
        norm=QueryKeyNorm(paths=("q_layernorm", "k_layernorm")),
        kv_heads_default=8,
        dropout=Rate(()),
    ),
    feed_forward=FeedForwardStyle(path="feed_forward.", names=("w1", "w3", "w2")),
    approximate=("The activations of LFM2's short convolutions are approximated.",),
)


def lfm2(config: Config) -> ModelArchitecture:
    """Return LFM2: gated short convolutions, attention in some layers.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, layers = hidden_size(config), layer_count(config)
    kinds = config.words("layer_types", length=layers)
    if kinds is None:
        listed = config.wholes("full_attn_idxs", at_most=MAX_LAYERS)
        attends = set(range(layers) if listed is None else listed)
        mixers = tuple("attention" if i in attends else "convolution" for i in range(layers))
    else:
        mixers = tuple("convolution" if kind == "conv" else "attention" for kind in kinds)
    make = choice(config, _LFM2, hidden, lambda: _short_convolution(config, hidden), "convolution")
    flat = config.replaced(intermediate_size=_lfm2_width(config), block_ff_dim=None)
    tied = config.flag(Switch("tie_embedding", default=_LFM2.tied))
    return build_decoder(flat, replace(_LFM2, tied=tied), mixer=make, mixers=mixers)


def _short_convolution(config: Config, hidden: int) -> Mixer:
    """Return LFM2's gated short convolution."""
    kernel = config.whole("conv_L_cache", at_most=MAX_SMALL, default=3)
    bias = config.flag(Switch("conv_bias", default=False))
    part = Part.ATTENTION
    modules = (
        linear("conv.in_proj", part, "mixer_in", hidden, 3 * hidden, bias=bias),
        convolution("conv.conv", "mixer_conv", (1, hidden), kernel, bias=bias, part=part),
        linear("conv.out_proj", part, "mixer_out", hidden, hidden, bias=bias),
    )
    shape = Attention(
        kind=AttentionKind.CONVOLUTION,
        heads=1,
        kv_heads=1,
        head_dim=hidden,
        value_head_dim=hidden,
        position=Position.NONE,
        inner_size=hidden,
    )
    return Mixer(shape, modules)


def _lfm2_width(config: Config) -> int:
    """Return the feed-forward width: two thirds of the key's, rounded up to a multiple."""
    size = config.whole("block_ff_dim", "intermediate_size", at_most=MAX_INTERMEDIATE)
    if not config.flag(Switch("block_auto_adjust_ff_dim", default=True)):
        return size
    size = max(1, 2 * size // 3)
    _, factor = config.get("block_ffn_dim_multiplier")
    if factor is not None:
        share = config.number("block_ffn_dim_multiplier", at_most=MAX_SMALL)
        multiple = config.whole("block_multiple_of", at_most=MAX_SMALL, default=256)
        size = max(1, -(-int(share * size) // multiple)) * multiple
    return size
