"""The vision tower of Gemma 4.

Source: the modeling file in transformers 5.24.
"""

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    BlockLayout,
    FeedForward,
    Module,
    Part,
    linear,
)
from vramgate.costmodel.families.config import (
    MAX_INTERMEDIATE,
    MAX_SMALL,
    Config,
)
from vramgate.costmodel.families.feed_forward import feed_forward_modules
from vramgate.costmodel.families.parts import (
    Heads,
    hidden_size,
    layer_count,
    norm,
    parameter,
    read_heads,
    stack,
)
from vramgate.costmodel.families.style import SANDWICH_NORMS
from vramgate.costmodel.families.towers import Tower


def gemma4_tower(config: Config, root: str) -> Tower:
    """Return Gemma 4's tower.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    block = _block(config, hidden)
    patch = config.whole("patch_size", at_most=MAX_SMALL)
    rows = 2 * config.whole("position_embedding_size")
    at, part = f"{root}patch_embedder.", Part.EMBEDDING
    table = f"{at}position_embedding_table"
    outside = (
        parameter(table, part, "position_embedding", rows * hidden),
        linear(f"{at}input_proj", part, "patch_embedding", 3 * patch * patch, hidden),
    )
    path = f"{root}encoder.layers"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return Tower((layers,), outside, hidden)


def _block(config: Config, hidden: int) -> Block:
    """Return the block: Gemma's, over patches."""
    heads = read_heads(config, hidden)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    names = ("gate_proj.linear", "up_proj.linear", "down_proj.linear")
    return Block(
        name="attention",
        modules=(
            *_attention_modules(hidden, heads),
            *feed_forward_modules("mlp.", names, hidden, size, gated=True),
            *(norm(place.path, place.role, hidden) for place in SANDWICH_NORMS),
        ),
        attention=Attention(
            heads=heads.heads,
            kv_heads=heads.kv_heads,
            head_dim=heads.head_dim,
            value_head_dim=heads.head_dim,
            rotary_dim=heads.head_dim,
            query_key_norm="head",
            causal=False,
        ),
        feed_forward=FeedForward(
            intermediate_size=size,
            activation=config.word("hidden_activation", default="gelu_pytorch_tanh"),
        ),
        layout=BlockLayout.SANDWICH,
    )


def _attention_modules(hidden: int, heads: Heads) -> tuple[Module, ...]:
    """Return the projections, each wrapped in a layer that may clip its input and output."""
    at, part = "self_attn.", Part.ATTENTION
    return (
        linear(f"{at}q_proj.linear", part, "query", hidden, heads.query_size),
        linear(f"{at}k_proj.linear", part, "key", hidden, heads.kv_size),
        linear(f"{at}v_proj.linear", part, "value", hidden, heads.kv_size),
        linear(f"{at}o_proj.linear", part, "attention_output", heads.query_size, hidden),
        norm(f"{at}q_norm", "query_norm", heads.head_dim),
        norm(f"{at}k_norm", "key_norm", heads.head_dim),
    )
