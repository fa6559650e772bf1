"""The vision tower of Gemma 4.

Source: the modeling file in transformers 5.24.
"""

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    BlockLayout,
    FeedForward,
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
    hidden_size,
    layer_count,
    norm,
    parameter,
    read_heads,
    stack,
)
from vramgate.costmodel.families.towers import Tower


def gemma4_tower(config: Config, root: str) -> Tower:
    """Return Gemma 4's tower.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    hidden = hidden_size(config)
    heads = read_heads(config, hidden)
    size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    at, part = "self_attn.", Part.ATTENTION
    # Each linear layer is wrapped in one that may clip its input and output.
    modules = (
        linear(f"{at}q_proj.linear", part, "query", hidden, heads.query_size),
        linear(f"{at}k_proj.linear", part, "key", hidden, heads.kv_size),
        linear(f"{at}v_proj.linear", part, "value", hidden, heads.kv_size),
        linear(f"{at}o_proj.linear", part, "attention_output", heads.query_size, hidden),
        norm(f"{at}q_norm", "query_norm", heads.head_dim),
        norm(f"{at}k_norm", "key_norm", heads.head_dim),
        *feed_forward_modules(
            "mlp.",
            ("gate_proj.linear", "up_proj.linear", "down_proj.linear"),
            hidden,
            size,
            gated=True,
        ),
        norm("input_layernorm", "input_norm", hidden),
        norm("post_attention_layernorm", "post_attention_norm", hidden),
        norm("pre_feedforward_layernorm", "pre_feed_forward_norm", hidden),
        norm("post_feedforward_layernorm", "post_feed_forward_norm", hidden),
    )
    block = Block(
        name="attention",
        modules=modules,
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
    patch = config.whole("patch_size", at_most=MAX_SMALL)
    positions = config.whole("position_embedding_size")
    embedder = f"{root}patch_embedder."
    outside = (
        parameter(
            f"{embedder}position_embedding_table",
            Part.EMBEDDING,
            "position_embedding",
            2 * positions * hidden,
        ),
        linear(
            f"{embedder}input_proj", Part.EMBEDDING, "patch_embedding", 3 * patch * patch, hidden
        ),
    )
    path = f"{root}encoder.layers"
    layers = stack("vision", path, hidden, (0,) * layer_count(config), lambda _: block)
    return Tower((layers,), outside, hidden)
