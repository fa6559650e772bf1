"""The text models of Gemma 3n and Gemma 4: per-layer embeddings, shared keys and values.

Source: the modeling files in transformers 5.24.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Block,
    ModelArchitecture,
    Module,
    ModuleKind,
    NormKind,
    Part,
    linear,
)
from vramgate.costmodel.families.attention import Mixer, attention_modules, attention_shape
from vramgate.costmodel.families.config import (
    MAX_EXPERTS,
    MAX_HEADS,
    MAX_INTERMEDIATE,
    MAX_LAYERS,
    MAX_SMALL,
    MAX_VOCABULARY,
    Config,
    Switch,
)
from vramgate.costmodel.families.decoder import DecoderSizes, decoder_around, read_sizes
from vramgate.costmodel.families.feed_forward import (
    FeedForwardPart,
    dense_feed_forward,
    expert_feed_forward,
)
from vramgate.costmodel.families.gemma import GEMMA3
from vramgate.costmodel.families.layers import LayerKind, layer_windows
from vramgate.costmodel.families.parts import Heads, embedding, norm, parameter, read_heads, stack
from vramgate.costmodel.families.style import DecoderStyle, ExpertStyle, Window

MAX_INPUTS = 64
"""AltUp's parallel streams: published models have four."""

_APPROXIMATE = ("Per-layer embeddings and side paths of this family are counted as weights only.",)
_GEMMA3N = replace(
    GEMMA3,
    family="gemma3n",
    logits_softcap_default=True,
    norm=NormKind.RMS,
    attention=replace(
        GEMMA3.attention,
        softcap_key=None,
        kv_heads_default=2,
        window=Window(default=512, period=5),
    ),
    approximate=_APPROXIMATE,
)
_GEMMA4 = replace(
    _GEMMA3N,
    family="gemma4",
    logits_softcap_default=False,
    attention=replace(_GEMMA3N.attention, kv_heads_default=4, window=Window(default=512, period=6)),
    experts=ExpertStyle(
        router="router.proj",
        router_kind=ModuleKind.LINEAR,
        path="experts.",
        names=("gate_up_proj", "down_proj"),
        count_keys=("num_experts",),
        per_token_keys=("top_k_experts",),
        size_keys=("moe_intermediate_size",),
    ),
)


class _Kind(NamedTuple):
    """What differs between the layers."""

    window: int | None
    reuses: bool
    """Keys and values are those of an earlier layer."""
    size: int
    heads: Heads
    keys_are_values: bool = False


def reused_from(config: Config, layers: int, *, default: int) -> int:
    """Return the first layer that reuses the keys and values of earlier ones.

    Raises:
        InvalidModelConfigError: more layers reuse than there are.
    """
    shared = config.whole("num_kv_shared_layers", at_least=0, at_most=MAX_LAYERS, default=default)
    if shared > layers:
        detail = f"{shared} of {layers} layers"
        config.refuse("num_kv_shared_layers", detail, code="contradiction")
    return layers - shared


def _mixer(config: Config, style: DecoderStyle, hidden: int, kind: _Kind) -> Mixer:
    """Return the attention; layers that reuse keys and values have no projections for them."""
    modules = attention_modules(config, style, hidden, kind.heads)
    absent = {"key", "value", "key_norm"} if kind.reuses else set()
    if kind.keys_are_values:
        absent.add("value")
    shape = attention_shape(config, style.attention, kind.heads, LayerKind(window=kind.window))
    return Mixer(shape, tuple(m for m in modules if m.role not in absent))


def _per_layer_modules(hidden: int, width: int) -> tuple[Module, ...]:
    """Return a block's path of the per-layer embedding."""
    return (
        linear("per_layer_input_gate", Part.OTHER, "per_layer_gate", hidden, width),
        linear("per_layer_projection", Part.OTHER, "per_layer_projection", width, hidden),
        norm("post_per_layer_input_norm", "per_layer_norm", hidden),
    )


def _per_layer_outside(config: Config, sizes: DecoderSizes, width: int) -> tuple[Module, ...]:
    """Return the table of per-layer embeddings and the projection of the embedding beside it."""
    rows = config.whole("vocab_size_per_layer_input", at_most=MAX_VOCABULARY, default=262_144)
    packed, part = sizes.layers * width, Part.OTHER
    path = "model.embed_tokens_per_layer"
    into = "model.per_layer_model_projection"
    return (
        embedding(path, rows, packed, role="per_layer_embedding"),
        linear(into, part, "per_layer_projection", sizes.hidden, packed),
        norm("model.per_layer_projection_norm", "per_layer_norm", width),
    )


def gemma3n_text(config: Config) -> ModelArchitecture:
    """Return the text model of Gemma 3n.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = read_sizes(config)
    heads = read_heads(config, sizes.hidden, kv_heads_default=2, head_dim_default=256)
    windows = layer_windows(config, _GEMMA3N.attention.window, sizes.layers)
    first = reused_from(config, sizes.layers, default=15)
    widths = _intermediate_sizes(config, sizes.layers)
    kinds = [
        _Kind(window, layer >= first, size, heads)
        for layer, (window, size) in enumerate(zip(windows, widths, strict=True))
    ]
    inputs = config.whole("altup_num_inputs", at_most=MAX_INPUTS, default=4)
    width = config.whole("hidden_size_per_layer_input", default=256)
    side = (*_side_paths(config, sizes.hidden, inputs), *_per_layer_modules(sizes.hidden, width))
    layers = stack(
        "decoder",
        "model.layers",
        sizes.hidden,
        kinds,
        lambda kind: _gemma3n_block(config, sizes.hidden, kind, side),
    )
    square = [
        linear(f"model.{name}.{i}", Part.OTHER, "altup", sizes.hidden, sizes.hidden)
        for name in ("altup_projections", "altup_unembed_projections")
        for i in range(inputs - 1)
    ]
    beside = (*_per_layer_outside(config, sizes, width), *square)
    return decoder_around(config, _GEMMA3N, sizes, layers, beside=beside)


def _intermediate_sizes(config: Config, layers: int) -> tuple[int, ...]:
    """Return the feed-forward width of each layer, from one number or a list."""
    _, value = config.get("intermediate_size")
    if not isinstance(value, (list, tuple)):
        return (config.whole("intermediate_size", at_most=MAX_INTERMEDIATE),) * layers
    listed = config.wholes("intermediate_size", at_most=MAX_INTERMEDIATE, at_least=1, length=layers)
    return listed or ()


def _side_paths(config: Config, hidden: int, inputs: int) -> tuple[Module, ...]:
    """Return AltUp and LAuReL, the paths beside attention and feed-forward."""
    rank = config.whole("laurel_rank", default=64)
    part = Part.OTHER
    return (
        linear("altup.correction_coefs", part, "altup", inputs, inputs),
        linear("altup.prediction_coefs", part, "altup", inputs, inputs * inputs),
        linear("altup.modality_router", part, "altup", hidden, inputs),
        norm("altup.router_norm", "altup_norm", hidden),
        linear("laurel.linear_left", part, "laurel", hidden, rank),
        linear("laurel.linear_right", part, "laurel", rank, hidden),
        norm("laurel.post_laurel_norm", "laurel_norm", hidden),
        parameter("altup.correct_output_scale", part, "altup", hidden),
    )


def _gemma3n_block(config: Config, hidden: int, kind: _Kind, side: tuple[Module, ...]) -> Block:
    """Return Gemma 3n's block of one kind."""
    mixer = _mixer(config, _GEMMA3N, hidden, kind)
    part = dense_feed_forward(
        config, _GEMMA3N.feed_forward, hidden, ModuleKind.LINEAR, size=kind.size
    )
    return _sandwich(_GEMMA3N, hidden, mixer, part, side)


def _sandwich(
    style: DecoderStyle,
    hidden: int,
    mixer: Mixer,
    part: FeedForwardPart,
    side: tuple[Module, ...],
) -> Block:
    """Return a block with norms before and after each half."""
    norms = (norm(place.path, place.role, hidden) for place in style.norms)
    window = mixer.shape.sliding_window
    return Block(
        name="sliding_attention" if window else "attention",
        modules=(*mixer.modules, *part.modules, *norms, *side),
        attention=mixer.shape,
        feed_forward=part.dense,
        experts=part.experts,
        norm=style.norm,
        layout=style.layout,
    )


def gemma4_text(config: Config) -> ModelArchitecture:
    """Return the text model of Gemma 4.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = read_sizes(config)
    kinds = _gemma4_kinds(config, sizes)
    width = config.whole("hidden_size_per_layer_input", at_least=0, default=256)
    side = _per_layer_modules(sizes.hidden, width) if width else ()
    layers = stack(
        "decoder",
        "model.layers",
        sizes.hidden,
        kinds,
        lambda kind: _gemma4_block(config, sizes.hidden, kind, side),
    )
    beside = _per_layer_outside(config, sizes, width) if width else ()
    sparse = config.flag(Switch("enable_moe_block", default=False))
    style = _GEMMA4 if width or sparse else replace(_GEMMA4, approximate=())
    return decoder_around(config, style, sizes, layers, beside=beside)


def _gemma4_kinds(config: Config, sizes: DecoderSizes) -> list[_Kind]:
    """Return the kind of each layer; full attention has heads of its own, the last is full."""
    layers = sizes.layers
    windows = [*layer_windows(config, _GEMMA4.attention.window, layers)[:-1], None]
    local = read_heads(config, sizes.hidden, kv_heads_default=4, head_dim_default=256)
    same = config.flag(Switch("attention_k_eq_v", default=False))
    full = _full_heads(config, sizes.hidden, local, same=same)
    first = reused_from(config, layers, default=0)
    wide = config.flag(Switch("use_double_wide_mlp", default=False))
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    return [
        _Kind(
            window,
            layer >= first,
            size * (2 if wide and layer >= first else 1),
            local if window else full,
            same and not window,
        )
        for layer, window in enumerate(windows)
    ]


def _full_heads(config: Config, hidden: int, local: Heads, *, same: bool) -> Heads:
    """Return the heads of full attention, from keys of their own or the per-layer overrides."""
    overrides: Config | None = None
    section = config.section("per_layer_config")
    if section is not None:
        _, listed = config.get("per_layer_config")
        names = sorted(listed) if isinstance(listed, Mapping) else []
        overrides = section.section(names[0]) if names else None
    if overrides is not None:
        head_dim = overrides.whole("head_dim", at_most=MAX_SMALL, default=local.head_dim)
        kv_heads = overrides.maybe_whole("num_key_value_heads", at_most=MAX_HEADS)
    else:
        head_dim = config.whole("global_head_dim", at_most=MAX_SMALL, default=512)
        kv_heads = config.maybe_whole("num_global_key_value_heads", at_most=MAX_HEADS)
        kv_heads = kv_heads if same else None
    flat = config.replaced(head_dim=head_dim, num_key_value_heads=kv_heads or local.kv_heads)
    return read_heads(flat, hidden)


def _gemma4_block(config: Config, hidden: int, kind: _Kind, side: tuple[Module, ...]) -> Block:
    """Return Gemma 4's block of one kind; experts stand beside the dense feed-forward."""
    style = _GEMMA4
    if not kind.window:
        style = replace(style, attention=replace(style.attention, partial_rotary=0.25))
    mixer = _mixer(config, style, hidden, kind)
    part = dense_feed_forward(config, style.feed_forward, hidden, ModuleKind.LINEAR, size=kind.size)
    if config.flag(Switch("enable_moe_block", default=False)) and style.experts is not None:
        experts = expert_feed_forward(config, style.experts, style.feed_forward, hidden)
        count = config.whole("num_experts", at_most=MAX_EXPERTS)
        own = (
            parameter("router.scale", Part.ROUTER, "router_scale", hidden),
            parameter("router.per_expert_scale", Part.ROUTER, "router_scale", count),
            norm("post_feedforward_layernorm_1", "dense_post_norm", hidden),
            norm("post_feedforward_layernorm_2", "experts_post_norm", hidden),
            norm("pre_feedforward_layernorm_2", "experts_pre_norm", hidden),
        )
        part = FeedForwardPart(
            (*part.modules, *experts.modules, *own), dense=part.dense, experts=experts.experts
        )
    return _sandwich(style, hidden, mixer, part, side)
