"""Decoders that mix attention with state-space mixers: Jamba, Bamba, Falcon-H1, Granite 4.

Source of every trait: the family's modeling file in transformers 5.24.
"""

from collections.abc import Callable
from dataclasses import replace

from vramgate.costmodel.architecture import (
    ModelArchitecture,
    Position,
)
from vramgate.costmodel.families.attention import Mixer
from vramgate.costmodel.families.config import (
    MAX_EXPERTS,
    MAX_LAYERS,
    MAX_SMALL,
    Config,
    Switch,
)
from vramgate.costmodel.families.decoder import MixerMaker, SoftmaxMixers, build_decoder
from vramgate.costmodel.families.layers import LayerKind
from vramgate.costmodel.families.llama import ATTENTION_BIAS, MLP_BIAS
from vramgate.costmodel.families.mixture_of_experts import GRANITE_EXPERTS
from vramgate.costmodel.families.parts import hidden_size, layer_count
from vramgate.costmodel.families.state_space import (
    APPROXIMATE,
    MAMBA,
    MAMBA2,
    mamba1_mixer,
    mamba2_mixer,
)
from vramgate.costmodel.families.style import (
    AttentionStyle,
    DecoderStyle,
    ExpertStyle,
    FeedForwardStyle,
    NormPlace,
    SharedExpertStyle,
)

_FF_NORMS = (
    NormPlace(role="input_norm", path="input_layernorm"),
    NormPlace(role="pre_feed_forward_norm", path="pre_ff_layernorm"),
)
_IN_HYBRIDS = replace(
    MAMBA2,
    path="mamba.",
    inner=(),
    expand="mamba_expand",
    state="mamba_d_state",
    state_default=256,
    kernel="mamba_d_conv",
    heads="mamba_n_heads",
    groups="mamba_n_groups",
    groups_default=1,
    bias=Switch("mamba_proj_bias", default=False),
    convolution_bias=Switch("mamba_conv_bias", default=True),
)


def periodic(
    config: Config, layers: int, *, period: str, offset: str, defaults: tuple[int, int]
) -> tuple[bool, ...]:
    """Return every ``period``-th layer, counted from ``offset``."""
    step = config.whole(period, at_most=MAX_LAYERS, default=defaults[0])
    start = config.whole(offset, at_least=0, at_most=MAX_LAYERS, default=defaults[1])
    return tuple((layer - start) % step == 0 for layer in range(layers))


def _jamba_sparse(config: Config, layers: int) -> tuple[bool, ...]:
    """Return Jamba's sparse layers: none where there is one expert only."""
    if config.whole("num_experts", "num_local_experts", at_most=MAX_SMALL, default=16) == 1:
        return (False,) * layers
    return periodic(
        config,
        layers,
        period="expert_layer_period",
        offset="expert_layer_offset",
        defaults=(2, 1),
    )


_JAMBA = DecoderStyle(
    family="jamba",
    final_norm="final_layernorm",
    norms=_FF_NORMS,
    attention=AttentionStyle(position=Position.NONE, kv_heads_default=8),
    feed_forward=FeedForwardStyle(path="feed_forward."),
    experts=ExpertStyle(
        router="feed_forward.router",
        path="feed_forward.experts.",
        count_keys=("num_experts", "num_local_experts"),
        sparse=_jamba_sparse,
    ),
    approximate=APPROXIMATE,
)
_JAMBA_NAMES = replace(
    MAMBA,
    path="mamba.",
    inner=(),
    expand="mamba_expand",
    state="mamba_d_state",
    kernel="mamba_d_conv",
    rank="mamba_dt_rank",
    bias=Switch("mamba_proj_bias", default=False),
    convolution_bias=Switch("mamba_conv_bias", default=True),
    step_norms=True,
)


def choice(
    config: Config, style: DecoderStyle, hidden: int, other: Callable[[], Mixer], name: str
) -> MixerMaker:
    """Return a maker of attention, or of ``other`` in the layers whose mixer is called ``name``."""
    softmax: list[SoftmaxMixers] = []

    def make(kind: LayerKind) -> Mixer:
        if kind.mixer == name:
            return other()
        if not softmax:
            softmax.append(SoftmaxMixers(config, style, hidden))
        return softmax[0].mixer(kind)

    return make


def jamba(config: Config) -> ModelArchitecture:
    """Return Jamba: one attention in eight layers, experts in every second.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, layers = hidden_size(config), layer_count(config)
    attends = periodic(
        config,
        layers,
        period="attn_layer_period",
        offset="attn_layer_offset",
        defaults=(8, 4),
    )
    mixers = tuple("attention" if attention else "mamba" for attention in attends)
    make = choice(
        config, _JAMBA, hidden, lambda: mamba1_mixer(config, _JAMBA_NAMES, hidden), "mamba"
    )
    return build_decoder(config, _JAMBA, mixer=make, mixers=mixers)


_BAMBA = DecoderStyle(
    family="bamba",
    final_norm="final_layernorm",
    norms=_FF_NORMS,
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, partial_rotary=0.5),
    feed_forward=FeedForwardStyle(path="feed_forward.", bias=MLP_BIAS),
    approximate=APPROXIMATE,
)


def bamba(config: Config) -> ModelArchitecture:
    """Return Bamba: attention in the layers of ``attn_layer_indices``, Mamba 2 in the others.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, layers = hidden_size(config), layer_count(config)
    attends = set(config.wholes("attn_layer_indices", at_most=MAX_LAYERS) or ())
    mixers = tuple("attention" if layer in attends else "mamba" for layer in range(layers))
    make = choice(
        config, _BAMBA, hidden, lambda: mamba2_mixer(config, _IN_HYBRIDS, hidden), "mamba"
    )
    return build_decoder(config, _BAMBA, mixer=make, mixers=mixers)


_FALCON_H1 = replace(
    _BAMBA,
    family="falcon_h1",
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, kv_heads_default=8),
    embedding_scaled=True,
)
_FALCON_H1_NAMES = replace(
    _IN_HYBRIDS,
    inner=("mamba_d_ssm",),
    output_bias=Switch("projectors_bias", default=False),
    gated_norm=Switch("mamba_rms_norm", default=False),
)


def falcon_h1(config: Config) -> ModelArchitecture:
    """Return Falcon-H1: attention and Mamba 2 side by side in every layer.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    scan = mamba2_mixer(config, _FALCON_H1_NAMES, hidden)
    softmax = SoftmaxMixers(config, _FALCON_H1, hidden)

    def both(kind: LayerKind) -> Mixer:
        attention = softmax.mixer(kind)
        shape = replace(
            attention.shape, inner_size=scan.shape.inner_size, state_size=scan.shape.state_size
        )
        return Mixer(shape, (*attention.modules, *scan.modules))

    return build_decoder(config, _FALCON_H1, mixer=both)


_GRANITE_SHARED = ("input_linear", "output_linear")
_GRANITE_DENSE = DecoderStyle(
    family="granitemoehybrid",
    embedding_scaled=True,
    attention=AttentionStyle(bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS),
    feed_forward=FeedForwardStyle(
        path="shared_mlp.", names=_GRANITE_SHARED, size_keys=("shared_intermediate_size",)
    ),
)
_GRANITE_SPARSE = replace(
    _GRANITE_DENSE,
    experts=replace(
        GRANITE_EXPERTS,
        shared=SharedExpertStyle(
            path="shared_mlp", names=_GRANITE_SHARED, size_keys=("shared_intermediate_size",)
        ),
    ),
)


def granitemoehybrid(config: Config) -> ModelArchitecture:
    """Return Granite 4 or Granite-MoE-shared: attention or Mamba 2, shared and routed experts.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, layers = hidden_size(config), layer_count(config)
    count = config.whole("num_local_experts", at_least=0, at_most=MAX_EXPERTS, default=8)
    style = _GRANITE_SPARSE if count else _GRANITE_DENSE
    shared_only = config.word("model_type", default="") == "granitemoeshared"
    kinds = config.words("layer_types", length=layers)
    if kinds is None:
        kinds = config.words("layers_block_type", length=layers)
    if kinds is None:
        kinds = ("attention" if shared_only else "mamba",) * layers
    mixers = tuple(
        "attention" if "attention" in k and "linear" not in k else "mamba" for k in kinds
    )
    if not shared_only and config.word("position_embedding_type", default="nope") != "rope":
        style = replace(style, attention=replace(style.attention, position=Position.NONE))
    if "mamba" in mixers:
        style = replace(style, approximate=APPROXIMATE)
    make = choice(config, style, hidden, lambda: mamba2_mixer(config, _IN_HYBRIDS, hidden), "mamba")
    return build_decoder(config, style, mixer=make, mixers=mixers)
