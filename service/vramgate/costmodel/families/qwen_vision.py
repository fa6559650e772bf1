"""The vision towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5, with their mergers.

Source: the modeling files in transformers 5.24.
"""

from dataclasses import dataclass
from typing import NamedTuple

from vramgate.costmodel.architecture import (
    Attention,
    Block,
    FeedForward,
    Module,
    NormKind,
    Part,
    linear,
)
from vramgate.costmodel.families.config import MAX_INTERMEDIATE, MAX_LAYERS, MAX_SMALL, Config
from vramgate.costmodel.families.feed_forward import feed_forward_modules
from vramgate.costmodel.families.parts import (
    embedding,
    head_count,
    layer_count,
    norm,
    stack,
)
from vramgate.costmodel.families.towers import Tower
from vramgate.costmodel.families.vision import patch_convolution


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenVision:
    """What differs between the generations."""

    names: tuple[str, ...]
    norm: NormKind = NormKind.LAYER
    width_key: str = "hidden_size"
    ratio_key: str | None = None
    """The feed-forward is this many times the width (Qwen2-VL); None: ``intermediate_size``."""
    patch_bias: bool = True
    merger: tuple[str, str, str] = ("norm", "linear_fc1", "linear_fc2")
    position_table: bool = True
    output_key: str = "out_hidden_size"
    deepstack: bool = True


QWEN2_VL = QwenVision(
    names=("fc1", "fc2"),
    width_key="embed_dim",
    ratio_key="mlp_ratio",
    patch_bias=False,
    merger=("ln_q", "mlp.0", "mlp.2"),
    position_table=False,
    output_key="hidden_size",
    deepstack=False,
)
QWEN2_5_VL = QwenVision(
    names=("gate_proj", "up_proj", "down_proj"),
    norm=NormKind.RMS,
    patch_bias=False,
    merger=("ln_q", "mlp.0", "mlp.2"),
    position_table=False,
    deepstack=False,
)
QWEN3_VL = QwenVision(names=("linear_fc1", "linear_fc2"))


class _Sizes(NamedTuple):
    """The widths of a tower: of a token, inside, of merged patches, and what leaves it."""

    hidden: int
    size: int
    merged: int
    output: int


def qwen_tower(config: Config, root: str, style: QwenVision) -> Tower:
    """Return a tower of one generation.

    Raises:
        InvalidModelConfigError: a key is missing or malformed.
    """
    sizes = _sizes(config, style)
    hidden = sizes.hidden
    frames = config.whole("temporal_patch_size", at_most=MAX_SMALL, default=2)
    block = _block(config, style, sizes)
    outside = [
        patch_convolution(
            config, f"{root}patch_embed.proj", hidden, bias=style.patch_bias, frames=frames
        ),
        *_merger(f"{root}merger.", style, sizes, normed=hidden),
    ]
    if style.position_table:
        rows = config.whole("num_position_embeddings")
        path = f"{root}pos_embed"
        outside.append(embedding(path, rows, hidden, role="position_embedding"))
    listed = config.wholes("deepstack_visual_indexes", at_most=MAX_LAYERS)
    for index in range(len(listed or ()) if style.deepstack else 0):
        at = f"{root}deepstack_merger_list.{index}."
        outside += _merger(at, style, sizes, normed=sizes.merged)
    layers = layer_count(config, "depth", "num_hidden_layers")
    blocks = stack("vision", f"{root}blocks", hidden, (0,) * layers, lambda _: block)
    return Tower((blocks,), tuple(outside), sizes.output)


def _sizes(config: Config, style: QwenVision) -> _Sizes:
    """Return the widths of a tower."""
    hidden = config.whole(style.width_key)
    if style.ratio_key is None:
        size = config.whole("intermediate_size", at_most=MAX_INTERMEDIATE)
    else:
        size = hidden * config.whole(style.ratio_key, at_most=MAX_SMALL)
    merge = config.whole("spatial_merge_size", at_most=MAX_SMALL)
    return _Sizes(hidden, size, merge * merge * hidden, config.whole(style.output_key))


def _merger(at: str, style: QwenVision, sizes: _Sizes, *, normed: int) -> tuple[Module, ...]:
    """Return the norm and the two layers that merge neighbouring patches into one token."""
    before, first, second = style.merger
    bias = style.norm is NormKind.LAYER
    part, role = Part.OTHER, "projector"
    return (
        norm(at + before, "projector_norm", normed, bias=bias),
        linear(at + first, part, role, sizes.merged, sizes.merged, bias=True),
        linear(at + second, part, role, sizes.merged, sizes.output, bias=True),
    )


def _block(config: Config, style: QwenVision, sizes: _Sizes) -> Block:
    """Return the block: fused query, key and value, all with biases."""
    hidden = sizes.hidden
    heads, head_dim = head_count(config, hidden, "num_heads", "num_attention_heads")
    gated = len(style.names) > len(("up", "down"))
    bias = style.norm is NormKind.LAYER
    part = Part.ATTENTION
    modules = (
        linear("attn.qkv", part, "qkv", hidden, 3 * hidden, bias=True),
        linear("attn.proj", part, "attention_output", hidden, hidden, bias=True),
        norm("norm1", "input_norm", hidden, bias=bias),
        *feed_forward_modules(
            "mlp.", style.names, hidden, sizes.size, gated=gated, biases=(True, True)
        ),
        norm("norm2", "pre_feed_forward_norm", hidden, bias=bias),
    )
    return Block(
        name="attention",
        modules=modules,
        attention=Attention(
            heads=heads,
            kv_heads=heads,
            head_dim=head_dim,
            value_head_dim=head_dim,
            rotary_dim=head_dim,
            fused_qkv=True,
            causal=False,
        ),
        feed_forward=FeedForward(
            intermediate_size=sizes.size,
            gated=gated,
            activation=config.word("hidden_act", default="silu"),
        ),
        norm=style.norm,
    )
