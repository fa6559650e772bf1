"""The vision towers of multimodal models: CLIP, SigLIP, Pixtral and Llama 4.

Source: the modeling files in transformers 5.24.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    FeedForward,
    Module,
    NormKind,
    Part,
    Position,
    Stack,
    linear,
)
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_SMALL,
    Config,
    Rate,
    Switch,
)
from vramgate.costmodel.families.feed_forward import feed_forward_modules
from vramgate.costmodel.families.parts import (
    embedding,
    head_count,
    hidden_size,
    layer_count,
    norm,
    parameter,
    stack,
)
from vramgate.costmodel.families.vision import (
    image_attention,
    patch_convolution,
    patches_per_image,
)


class Tower(NamedTuple):
    """A tower: its stacks, what stands outside, the width that leaves it, tokens of an image."""

    stacks: tuple[Stack, ...]
    outside: tuple[Module, ...]
    width: int
    tokens: int | None = None


def fc_modules(hidden: int, size: int, *, prefix: str = "mlp.") -> tuple[Module, ...]:
    """Return fc1 and fc2 with biases."""
    return feed_forward_modules(
        prefix, ("fc1", "fc2"), hidden, size, gated=False, biases=(True, True)
    )


def tower_attention_modules(
    prefix: str, hidden: int, width: int, *, bias: bool, output: str = "out_proj"
) -> tuple[Module, ...]:
    """Return query, key, value and output of equal width."""
    inputs = (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"))
    return (
        *(linear(prefix + n, Part.ATTENTION, r, hidden, width, bias=bias) for n, r in inputs),
        linear(prefix + output, Part.ATTENTION, "attention_output", width, hidden, bias=bias),
    )


def clip_block(config: Config, *, causal: bool = False) -> Block:
    """Return the block CLIP and SigLIP share, in text and vision.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    heads, head_dim = head_count(config, hidden)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    dropout = config.fraction(Rate(("attention_dropout",)))
    modules = (
        *tower_attention_modules("self_attn.", hidden, hidden, bias=True),
        norm("layer_norm1", "input_norm", hidden, bias=True),
        *fc_modules(hidden, size),
        norm("layer_norm2", "pre_feed_forward_norm", hidden, bias=True),
    )
    return Block(
        name="attention",
        modules=modules,
        attention=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            value_head_dim=head_dim,
            position=Position.LEARNED,
            dropout=dropout,
            causal=causal,
        ),
        feed_forward=FeedForward(
            intermediate_size=size,
            gated=False,
            activation=config.word("hidden_act", default="quick_gelu"),
        ),
        norm=NormKind.LAYER,
    )


def clip_tower(config: Config, root: str) -> Tower:
    """Return CLIP's vision tower.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    block = clip_block(config)
    tokens = patches_per_image(config) + 1
    at = f"{root}embeddings."
    outside = (
        parameter(f"{at}class_embedding", Part.EMBEDDING, "class_token", hidden),
        patch_convolution(config, f"{at}patch_embedding", hidden, bias=False),
        embedding(f"{at}position_embedding", tokens, hidden, role="position_embedding"),
        norm(f"{root}pre_layrnorm", "embedding_norm", hidden, bias=True),
        norm(f"{root}post_layernorm", "tower_final_norm", hidden, bias=True),
    )
    path = f"{root}encoder.layers"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return Tower((layers,), outside, hidden, tokens)


def siglip_tower(config: Config, root: str) -> Tower:
    """Return SigLIP's vision tower, with the pooling head unless ``vision_use_head`` is false.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    block = clip_block(config)
    tokens = patches_per_image(config)
    at = f"{root}embeddings."
    outside = [
        patch_convolution(config, f"{at}patch_embedding", hidden),
        embedding(f"{at}position_embedding", tokens, hidden, role="position_embedding"),
        norm(f"{root}post_layernorm", "tower_final_norm", hidden, bias=True),
    ]
    if config.flag(Switch("vision_use_head", default=True)):
        outside += _siglip_head(f"{root}head.", hidden, block)
    path = f"{root}encoder.layers"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return Tower((layers,), tuple(outside), hidden, tokens)


def _siglip_head(at: str, hidden: int, block: Block) -> tuple[Module, ...]:
    """Return the attention pooling: a probe that attends to the patches, then a feed-forward."""
    size = block.feed_forward.intermediate_size if block.feed_forward is not None else 0
    inner, part = f"{at}attention.", Part.OTHER
    return (
        parameter(f"{at}probe", part, "pooler", hidden),
        parameter(f"{inner}in_proj_weight", part, "pooler", 3 * hidden * hidden),
        parameter(f"{inner}in_proj_bias", part, "pooler", 3 * hidden),
        linear(f"{inner}out_proj", part, "pooler", hidden, hidden, bias=True),
        norm(f"{at}layernorm", "pooler_norm", hidden, bias=True),
        *fc_modules(hidden, size, prefix=f"{at}mlp."),
    )


def idefics_tower(config: Config, root: str) -> Tower:
    """Return the SigLIP tower of Idefics 3 and SmolVLM, which has no head."""
    return siglip_tower(config.replaced(vision_use_head=False), root)


def pixtral_tower(config: Config, root: str) -> Tower:
    """Return Pixtral's tower: Llama's block over patches.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    heads, head_dim = head_count(config, hidden)
    modules = (
        *tower_attention_modules("attention.", hidden, hidden, bias=False, output="o_proj"),
        norm("attention_norm", "input_norm", hidden),
        *feed_forward_modules(
            "feed_forward.", ("gate_proj", "up_proj", "down_proj"), hidden, size, gated=True
        ),
        norm("ffn_norm", "pre_feed_forward_norm", hidden),
    )
    block = Block(
        name="attention",
        modules=modules,
        attention=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            value_head_dim=head_dim,
            rotary_dim=head_dim,
            causal=False,
        ),
        feed_forward=FeedForward(
            intermediate_size=size, activation=config.word("hidden_act", default="gelu")
        ),
    )
    outside = (
        patch_convolution(config, f"{root}patch_conv", hidden, bias=False),
        norm(f"{root}ln_pre", "embedding_norm", hidden),
    )
    path = f"{root}transformer.layers"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return Tower((layers,), outside, hidden, patches_per_image(config))


def llama4_tower(config: Config, root: str) -> Tower:
    """Return Llama 4's tower and its pixel-shuffle adapter.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    heads, head_dim = head_count(config, hidden)
    modules = (
        *tower_attention_modules("self_attn.", hidden, hidden, bias=True, output="o_proj"),
        norm("input_layernorm", "input_norm", hidden, bias=True),
        *fc_modules(hidden, size),
        norm("post_attention_layernorm", "pre_feed_forward_norm", hidden, bias=True),
    )
    block = Block(
        name="attention",
        modules=modules,
        attention=image_attention(heads, head_dim),
        feed_forward=FeedForward(intermediate_size=size, gated=False, activation="gelu"),
        norm=NormKind.LAYER,
    )
    patch = config.whole("patch_size", at_most=MAX_SMALL)
    pixels = patch * patch * config.whole("num_channels", at_most=MAX_SMALL, default=3)
    tokens = patches_per_image(config) + 1
    into, out = config.whole("projector_input_dim"), config.whole("projector_output_dim")
    adapter, part = f"{root}vision_adapter.mlp.", Part.OTHER
    positions = f"{root}positional_embedding_vlm"
    outside = (
        parameter(f"{root}class_embedding", Part.EMBEDDING, "class_token", hidden),
        parameter(positions, Part.EMBEDDING, "position_embedding", tokens * hidden),
        linear(f"{root}patch_embedding.linear", Part.EMBEDDING, "patch_embedding", pixels, hidden),
        norm(f"{root}layernorm_pre", "embedding_norm", hidden, bias=True),
        norm(f"{root}layernorm_post", "tower_final_norm", hidden, bias=True),
        linear(f"{adapter}fc1", part, "projector", size, into),
        linear(f"{adapter}fc2", part, "projector", out, out),
    )
    path = f"{root}model.layers"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return Tower((layers,), outside, config.whole("vision_output_dim"), tokens)


TOWERS: Mapping[str, Callable[[Config, str], Tower]] = {
    "clip_vision_model": clip_tower,
    "siglip_vision_model": siglip_tower,
    "pixtral": pixtral_tower,
    "idefics3_vision": idefics_tower,
    "smolvlm_vision": idefics_tower,
}
