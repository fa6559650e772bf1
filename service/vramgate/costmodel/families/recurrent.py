"""Recurrent mixers: RWKV 4 and RecurrentGemma's gated linear recurrence.

Source: Peng et al. 2023 (RWKV), De et al. 2024 (Griffin), and the modeling files in transformers
5.24.
"""

from vramgate.costmodel.architecture import (
    Attention,
    AttentionKind,
    Block,
    FeedForward,
    ModelArchitecture,
    Module,
    NormKind,
    Part,
    Position,
    linear,
)
from vramgate.costmodel.families.attention import Mixer
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_INTERMEDIATE,
    MAX_POSITIONS,
    MAX_SMALL,
    Config,
    shown,
)
from vramgate.costmodel.families.decoder import build_decoder, decoder_around, read_sizes
from vramgate.costmodel.families.gemma import GEMMA_ACTIVATION
from vramgate.costmodel.families.hybrid import choice
from vramgate.costmodel.families.llama import ATTENTION_BIAS
from vramgate.costmodel.families.parts import (
    HEAD_KEYS,
    convolution,
    hidden_size,
    layer_count,
    norm,
    parameter,
    stack,
)
from vramgate.costmodel.families.style import (
    AttentionStyle,
    DecoderStyle,
    FeedForwardStyle,
    NormPlace,
    Window,
)

_APPROXIMATE = ("The activations of recurrent mixers are approximated.",)
_GRIFFIN = DecoderStyle(
    family="recurrent_gemma",
    final_norm="final_norm",
    embedding_scaled=True,
    tied=True,
    norm=NormKind.RMS_PLUS_ONE,
    norms=(
        NormPlace(role="input_norm", path="temporal_pre_norm"),
        NormPlace(role="pre_feed_forward_norm", path="channel_pre_norm"),
    ),
    logits_softcap_key="logits_soft_cap",
    logits_softcap_default=True,
    attention=AttentionStyle(
        path="temporal_block.",
        bias=ATTENTION_BIAS,
        output_bias=True,
        partial_rotary=0.5,
        window=Window(default=2048, key="attention_window_size"),
    ),
    feed_forward=FeedForwardStyle(
        path="mlp_block.",
        bias=True,
        activation="gelu_pytorch_tanh",
        activation_keys=GEMMA_ACTIVATION,
    ),
    approximate=_APPROXIMATE,
)
_RWKV = DecoderStyle(
    family="rwkv",
    root="rwkv.",
    layers="blocks",
    embedding="embeddings",
    final_norm="ln_out",
    head="head",
    norm=NormKind.LAYER,
    norm_bias=True,
    approximate=_APPROXIMATE,
)


def recurrent_shape(width: int, *, state: int = 1) -> Attention:
    """Return the shape of a recurrence over ``width`` channels."""
    return Attention(
        kind=AttentionKind.RECURRENT,
        heads=1,
        kv_heads=1,
        head_dim=width,
        value_head_dim=width,
        position=Position.NONE,
        inner_size=width,
        state_size=state,
    )


def recurrent_gemma(config: Config) -> ModelArchitecture:
    """Return RecurrentGemma: two recurrent layers, then one of local attention, over and over.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden, layers = hidden_size(config), layer_count(config)
    types = config.words("block_types") or ("recurrent", "recurrent", "attention")
    if not set(types) <= {"recurrent", "attention"}:
        config.refuse("block_types", "only recurrent and attention are blocks")
    mixers = tuple(types[layer % len(types)] for layer in range(layers))
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE, at_least=2)
    make = choice(config, _GRIFFIN, hidden, lambda: _recurrence(config, hidden), "recurrent")
    flat = config.replaced(intermediate_size=size // 2, head_dim=None)
    return build_decoder(flat, _GRIFFIN, mixer=make, mixers=mixers)


def _recurrence(config: Config, hidden: int) -> Mixer:
    """Return the gated linear recurrence (RG-LRU) between two projections."""
    width = config.whole("lru_width", default=hidden)
    heads = config.whole(*HEAD_KEYS, at_most=MAX_HEADS)
    if width % heads:
        detail = f"{heads} heads do not divide lru_width {shown(width)}"
        config.refuse("lru_width", detail, code="contradiction")
    kernel = config.whole("conv1d_width", at_most=MAX_SMALL, default=4)
    part, at = Part.ATTENTION, "temporal_block."
    gates = [
        parameter(f"{at}rg_lru.{gate}_gate_{kind}", part, "mixer_parameter", size)
        for gate in ("input", "recurrent")
        for kind, size in (("weight", width * width // heads), ("bias", width))
    ]
    modules = (
        linear(f"{at}linear_y", part, "mixer_in", hidden, width, bias=True),
        linear(f"{at}linear_x", part, "mixer_in", hidden, width, bias=True),
        linear(f"{at}linear_out", part, "mixer_out", width, hidden, bias=True),
        convolution(f"{at}conv_1d", "mixer_conv", (1, width), kernel, part=part),
        parameter(f"{at}rg_lru.recurrent_param", part, "mixer_parameter", width),
        *gates,
    )
    return Mixer(recurrent_shape(width), modules)


def rwkv(config: Config) -> ModelArchitecture:
    """Return RWKV 4.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    config = config.replaced(
        max_position_embeddings=config.maybe_whole("context_length", at_most=MAX_POSITIONS)
    )
    sizes = read_sizes(config)
    kinds = (True,) + (False,) * (sizes.layers - 1)
    path = _RWKV.root + _RWKV.layers
    hidden = sizes.hidden
    layers = stack(
        "decoder", path, hidden, kinds, lambda first: _rwkv_block(config, hidden, first=first)
    )
    return decoder_around(config, _RWKV, sizes, layers)


def _rwkv_block(config: Config, hidden: int, *, first: bool) -> Block:
    """Return time mixing and channel mixing; the first block also norms the embedding."""
    inner = config.whole("attention_hidden_size", default=hidden)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE, default=4 * hidden)
    modules = [*_time_mixing(hidden, inner), *_channel_mixing(hidden, size)]
    modules.append(norm("ln1", "input_norm", hidden, bias=True))
    modules.append(norm("ln2", "pre_feed_forward_norm", hidden, bias=True))
    if first:
        modules.append(norm("pre_ln", "embedding_norm", hidden, bias=True))
    return Block(
        name="first" if first else "layer",
        modules=tuple(modules),
        attention=recurrent_shape(inner),
        feed_forward=FeedForward(intermediate_size=size, gated=False, activation="relu2"),
        norm=NormKind.LAYER,
    )


def _time_mixing(hidden: int, inner: int) -> tuple[Module, ...]:
    """Return RWKV's mixing of tokens."""
    part, at = Part.ATTENTION, "attention."
    return (
        *(parameter(f"{at}time_{n}", part, "mixer_parameter", inner) for n in ("decay", "first")),
        *(
            parameter(f"{at}time_mix_{n}", part, "mixer_parameter", hidden)
            for n in ("key", "value", "receptance")
        ),
        linear(f"{at}key", part, "key", hidden, inner),
        linear(f"{at}value", part, "value", hidden, inner),
        linear(f"{at}receptance", part, "mixer_in", hidden, inner),
        linear(f"{at}output", part, "attention_output", inner, hidden),
    )


def _channel_mixing(hidden: int, size: int) -> tuple[Module, ...]:
    """Return RWKV's mixing of channels."""
    part, at = Part.MLP, "feed_forward."
    return (
        *(
            parameter(f"{at}time_mix_{n}", part, "mixer_parameter", hidden)
            for n in ("key", "receptance")
        ),
        linear(f"{at}key", part, "up", hidden, size),
        linear(f"{at}receptance", part, "receptance", hidden, hidden),
        linear(f"{at}value", part, "down", size, hidden),
    )
