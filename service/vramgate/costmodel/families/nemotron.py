"""Nemotron-H: every layer is one thing only, a Mamba 2 mixer, attention, a feed-forward or experts.

Source: NVIDIA 2025 (Nemotron-H) and the modeling file in transformers 5.24.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import Block, ModelArchitecture, Part, Position, linear
from vramgate.costmodel.families.config import (
    MAX_HEADS,
    MAX_LAYERS,
    MAX_SMALL,
    Config,
    shown,
)
from vramgate.costmodel.families.decoder import DecoderSizes, SoftmaxMixers, decoder_around
from vramgate.costmodel.families.feed_forward import (
    FeedForwardPart,
    dense_feed_forward,
    expert_feed_forward,
    feed_forward_modules,
)
from vramgate.costmodel.families.layers import LayerKind
from vramgate.costmodel.families.llama import MLP_BIAS
from vramgate.costmodel.families.parts import (
    hidden_size,
    layer_count,
    max_positions,
    norm,
    stack,
    vocabulary,
)
from vramgate.costmodel.families.state_space import APPROXIMATE, MAMBA2, mamba2_mixer
from vramgate.costmodel.families.style import (
    AttentionStyle,
    DecoderStyle,
    ExpertStyle,
    FeedForwardStyle,
    SharedExpertStyle,
)

_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS = {
    "mamba": "mamba",
    "linear_attention": "mamba",
    "attention": "attention",
    "full_attention": "attention",
    "mlp": "mlp",
    "moe": "moe",
}
_EXPERTS = ExpertStyle(
    router="mixer.gate",
    path="mixer.experts.",
    names=("up_proj", "down_proj"),
    gated=False,
    count_keys=("n_routed_experts", "num_local_experts"),
    size_keys=("moe_intermediate_size",),
    shared=SharedExpertStyle(
        path="mixer.shared_experts",
        names=("up_proj", "down_proj"),
        size_keys=("moe_shared_expert_intermediate_size",),
        bias=MLP_BIAS,
    ),
)
_STYLE = DecoderStyle(
    family="nemotron_h",
    embedding="embeddings",
    final_norm="norm_f",
    attention=AttentionStyle(
        path="mixer.",
        position=Position.NONE,
        kv_heads_default=8,
        head_dim_default=128,
    ),
    feed_forward=FeedForwardStyle(
        path="mixer.",
        names=("up_proj", "down_proj"),
        gated=False,
        bias=MLP_BIAS,
        activation="relu2",
        activation_keys=("mlp_hidden_act",),
    ),
    approximate=APPROXIMATE,
)
_NAMES = replace(
    MAMBA2,
    inner=("_inner",),
    state="ssm_state_size",
    heads="mamba_num_heads",
)


def layer_words(config: Config) -> tuple[str, ...]:
    """Return what each layer is: ``layers_block_type`` or ``hybrid_override_pattern``.

    Raises:
        InvalidModelConfigError: neither is there, or one is malformed.
    """
    listed = config.words("layers_block_type") or config.words("layer_types")
    if listed:
        if not set(listed) <= set(_WORDS):
            config.refuse("layers_block_type", f"only {', '.join(_WORDS)} are layers")
        return tuple(_WORDS[word] for word in listed)
    _, pattern = config.get("hybrid_override_pattern")
    if pattern is None:
        config.require("hybrid_override_pattern", "layers_block_type")
    if (
        not isinstance(pattern, str)
        or not 0 < len(pattern) <= MAX_LAYERS
        or set(pattern) - set(_LETTERS)
    ):
        detail = f"{shown(pattern)} is no pattern of M, *, - and E"
        config.refuse("hybrid_override_pattern", detail)
    return tuple(_LETTERS[letter] for letter in pattern)


def nemotron_h(config: Config) -> ModelArchitecture:
    """Return Nemotron-H or Nemotron 3.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    words = layer_words(config)
    if config.has("num_hidden_layers") and layer_count(config) != len(words):
        detail = f"{layer_count(config)} layers, but the pattern names {len(words)}"
        config.refuse("num_hidden_layers", detail, code="contradiction")
    hidden = hidden_size(config)
    sizes = DecoderSizes(hidden, len(words), vocabulary(config), max_positions(config))
    path = _STYLE.root + _STYLE.layers
    layers = stack("decoder", path, hidden, words, lambda word: _block(config, hidden, word))
    # The class names no tied weights, so it has both whatever the config says.
    return decoder_around(config.replaced(tie_word_embeddings=False), _STYLE, sizes, layers)


def _block(config: Config, hidden: int, word: str) -> Block:
    """Return the block of one kind: a norm and its only half."""
    role = "input_norm" if word in {"mamba", "attention"} else "pre_feed_forward_norm"
    own_norm = norm("norm", role, hidden)
    if word in {"mamba", "attention"}:
        if word == "attention":
            mixer = SoftmaxMixers(config, _STYLE, hidden).mixer(LayerKind())
        else:
            width = config.whole("mamba_num_heads", at_most=MAX_HEADS) * config.whole(
                "mamba_head_dim", at_most=MAX_SMALL, default=64
            )
            mixer = mamba2_mixer(config.replaced(_inner=width), _NAMES, hidden)
        return Block(name=word, modules=(*mixer.modules, own_norm), attention=mixer.shape)
    part = (
        dense_feed_forward(config, _STYLE.feed_forward, hidden, _STYLE.linear)
        if word == "mlp"
        else _experts(config, hidden)
    )
    return Block(
        name=word,
        modules=(*part.modules, own_norm),
        attention=None,
        feed_forward=part.dense,
        experts=part.experts,
    )


def _experts(config: Config, hidden: int) -> FeedForwardPart:
    """Return the experts; with ``moe_latent_size`` the routed ones work in a narrower space."""
    style = _EXPERTS
    part = expert_feed_forward(config, style, _STYLE.feed_forward, hidden)
    latent = config.maybe_whole("moe_latent_size")
    if latent is None or part.experts is None:
        return part
    bias = config.flag(MLP_BIAS)
    narrow = feed_forward_modules(
        style.path,
        style.names,
        latent,
        part.experts.intermediate_size,
        gated=False,
        role="expert_",
        part=Part.EXPERTS,
        kind=next(m.kind for m in part.modules if m.role == "expert_up"),
        copies=part.experts.num_experts,
    )
    into, out = "latent_in", "latent_out"
    projections = (
        linear("mixer.fc1_latent_proj", Part.MLP, into, hidden, latent, bias=bias),
        linear("mixer.fc2_latent_proj", Part.MLP, out, latent, hidden, bias=bias),
    )
    kept = (m for m in part.modules if m.part is not Part.EXPERTS)
    return part._replace(modules=(*kept, *narrow, *projections))
