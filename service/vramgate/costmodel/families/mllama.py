"""Llama 3.2 Vision: a tower over tiles, and a text model with layers that attend to the image only.

Source: Meta 2024 (The Llama 3 Herd of Models, section 7) and the modeling file in transformers
5.24.
"""

from collections.abc import Callable
from dataclasses import replace

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    FeedForward,
    ModelArchitecture,
    ModuleKind,
    NormKind,
    Part,
    Position,
    Stack,
    linear,
)
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_LAYERS,
    MAX_SMALL,
    Config,
    Rate,
)
from vramgate.costmodel.families.decoder import (
    SoftmaxMixers,
    decoder_around,
    read_sizes,
)
from vramgate.costmodel.families.feed_forward import dense_feed_forward
from vramgate.costmodel.families.layers import LayerKind
from vramgate.costmodel.families.parts import (
    Heads,
    embedding,
    head_count,
    hidden_size,
    layer_count,
    norm,
    parameter,
    read_heads,
    stack,
)
from vramgate.costmodel.families.style import AttentionStyle, DecoderStyle
from vramgate.costmodel.families.towers import Tower, fc_modules, tower_attention_modules
from vramgate.costmodel.families.vision import (
    image_attention,
    patch_convolution,
    patches_per_image,
)

_STYLE = DecoderStyle(family="mllama", attention=AttentionStyle(kv_heads_default=8))
# The embedding holds eight rows for special tokens that the head has not (MllamaTextModel).
_EXTRA_ROWS = 8
_RATIOS = 8  # supported aspect ratios where the config lists none


def mllama_text(config: Config) -> ModelArchitecture:
    """Return the text model.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = read_sizes(config)
    listed = config.wholes("cross_attention_layers", at_most=MAX_LAYERS)
    crossing = set(listed or ())
    kinds = tuple(layer in crossing for layer in range(sizes.layers))
    heads = read_heads(config, sizes.hidden, kv_heads_default=8)
    layers = stack(
        "decoder",
        "model.layers",
        sizes.hidden,
        kinds,
        lambda crosses: (
            _cross_block(config, sizes.hidden, heads)
            if crosses
            else _self_block(config, sizes.hidden)
        ),
    )
    model = decoder_around(config, _STYLE, sizes, layers)
    rows = sizes.vocabulary + _EXTRA_ROWS
    table = embedding("model.embed_tokens", rows, sizes.hidden)
    outside = tuple(table if m.role == "embedding" else m for m in model.outside)
    return replace(model, outside=outside)


def _self_block(config: Config, hidden: int) -> Block:
    """Return Llama's block."""
    mixer = SoftmaxMixers(config, _STYLE, hidden).mixer(LayerKind())
    part = dense_feed_forward(config, _STYLE.feed_forward, hidden, ModuleKind.LINEAR)
    norms = (norm(place.path, place.role, hidden) for place in _STYLE.norms)
    return Block(
        name="attention",
        modules=(*mixer.modules, *part.modules, *norms),
        attention=mixer.shape,
        feed_forward=part.dense,
    )


def _cross_block(config: Config, hidden: int, heads: Heads) -> Block:
    """Return the block that attends to the image, with a learned gate on each half."""
    part = dense_feed_forward(config, _STYLE.feed_forward, hidden, ModuleKind.LINEAR)
    kind, at = Part.ATTENTION, "cross_attn."
    modules = (
        linear(f"{at}q_proj", kind, "cross_query", hidden, heads.query_size),
        linear(f"{at}k_proj", kind, "cross_key", hidden, heads.kv_size),
        linear(f"{at}v_proj", kind, "cross_value", hidden, heads.kv_size),
        linear(f"{at}o_proj", kind, "cross_output", heads.query_size, hidden),
        norm(f"{at}q_norm", "query_norm", heads.head_dim),
        norm(f"{at}k_norm", "key_norm", heads.head_dim),
        parameter("cross_attn_attn_gate", Part.OTHER, "gate_parameter", 1),
        parameter("cross_attn_mlp_gate", Part.OTHER, "gate_parameter", 1),
        *part.modules,
        norm("input_layernorm", "cross_norm", hidden),
        norm("post_attention_layernorm", "pre_feed_forward_norm", hidden),
    )
    return Block(
        name="cross_attention",
        modules=modules,
        attention=None,
        cross_attention=Attention(
            heads=heads.heads,
            kv_heads=heads.kv_heads,
            head_dim=heads.head_dim,
            value_head_dim=heads.head_dim,
            position=Position.NONE,
            query_key_norm="head",
            dropout=config.fraction(Rate(("dropout",))),
            causal=False,
        ),
        feed_forward=part.dense,
    )


def mllama_tower(config: Config, root: str) -> Tower:
    """Return the tower: local layers over each tile, then gated global ones.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    tokens = patches_per_image(config) + 1
    tiles = config.whole("max_num_tiles", at_most=MAX_SMALL)
    _, listed = config.get("supported_aspect_ratios")
    ratios = (len(listed) if isinstance(listed, (list, tuple)) else _RATIOS) + 1
    positions = f"{root}gated_positional_embedding."
    part, role = Part.EMBEDDING, "position_embedding"
    outside = [
        parameter(f"{root}class_embedding", part, "class_token", hidden),
        patch_convolution(config, f"{root}patch_embedding", hidden, bias=False),
        parameter(f"{positions}gate", part, "gate_parameter", 1),
        parameter(f"{positions}embedding", part, role, tokens * hidden),
        embedding(f"{positions}tile_embedding", ratios, tiles * tokens * hidden, role=role),
        norm(f"{root}layernorm_pre", "embedding_norm", hidden, bias=True),
        norm(f"{root}layernorm_post", "tower_final_norm", hidden, bias=True),
    ]
    for when in ("pre", "post"):
        at = f"{root}{when}_tile_positional_embedding."
        outside.append(parameter(f"{at}gate", part, "gate_parameter", 1))
        outside.append(embedding(f"{at}embedding", ratios, tiles * hidden, role=role))
    stacks = (
        _vision_stack(config, f"{root}transformer.layers", "num_hidden_layers", _vision_block),
        _vision_stack(config, f"{root}global_transformer.layers", "num_global_layers", _gated),
    )
    return Tower(stacks, tuple(outside), config.whole("vision_output_dim"), tokens * tiles)


def _vision_stack(config: Config, path: str, key: str, build: Callable[[Config], Block]) -> Stack:
    """Return one of the tower's two stacks."""
    hidden = hidden_size(config)
    block = build(config)
    layers = layer_count(config, key)
    return stack("vision", path, hidden, (0,) * layers, lambda _: block)


def _vision_block(config: Config) -> Block:
    """Return a local layer of the tower."""
    hidden = hidden_size(config)
    heads, head_dim = head_count(config, hidden, "attention_heads", "num_attention_heads")
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    modules = (
        *tower_attention_modules("self_attn.", hidden, hidden, bias=False, output="o_proj"),
        norm("input_layernorm", "input_norm", hidden, bias=True),
        *fc_modules(hidden, size),
        norm("post_attention_layernorm", "pre_feed_forward_norm", hidden, bias=True),
    )
    return Block(
        name="attention",
        modules=modules,
        attention=image_attention(heads, head_dim),
        feed_forward=FeedForward(
            intermediate_size=size,
            gated=False,
            activation=config.word("hidden_act", default="gelu"),
        ),
        norm=NormKind.LAYER,
    )


def _gated(config: Config) -> Block:
    """Return a global layer: a learned gate on each half."""
    block = _vision_block(config)
    gates = (
        parameter("gate_attn", Part.OTHER, "gate_parameter", 1),
        parameter("gate_ffn", Part.OTHER, "gate_parameter", 1),
    )
    return Block(
        name="global_attention",
        modules=(*block.modules, *gates),
        attention=block.attention,
        feed_forward=block.feed_forward,
        norm=block.norm,
    )
