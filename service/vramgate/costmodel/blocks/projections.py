"""Heads on their way to an attention's kernel, and the projections that only some families have.

Source: transformers 5.24 ``modeling_gemma3n`` and ``modeling_gemma4`` (keys shared between layers, values that are
the keys), ``modeling_qwen3_next`` (a gate beside the queries), ``modeling_deepseek_v4`` (one latent for both).
"""

from dataclasses import dataclass

from vramgate.costmodel.architecture import Attention
from vramgate.costmodel.blocks.norms import rms_norm_of
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.dispatch import grouped_product
from vramgate.costmodel.operations import activation, multiply, split
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import ACTIVATION, Tape, Tensor
from vramgate.costmodel.weights import Weight

Weights = dict[str, Weight]

GATED_OUTPUT = frozenset(
    {"qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"}
)
"""Families whose query projection carries a gate for the attention's output, as wide as the queries."""
COPIES_GROUPED_HEADS = frozenset({"falcon"})
"""Families that index keys and values, where fewer than queries, out of the fused projection, which copies them."""
COPIES_HEADS = frozenset({"codegen"})
"""Families that reshape heads out of a projection split for other hardware, which copies them."""


@dataclass(slots=True, kw_only=True)
class Heads:
    """Queries, keys and values on their way to the kernel."""

    query: Tensor
    key: Tensor
    value: Tensor
    query_is_packed: bool
    """The queries were put together by ``cat``: heads before tokens, and the kernel's output follows."""
    bias_trains: bool = False
    """A learned bias is added to the scores and gets a gradient."""


def compressed_heads(tape: Tape, setting: Setting, weights: Weights, hidden: Tensor) -> Heads:
    """Return DeepSeek V4's heads: queries from a latent, and one latent head that is key and value."""
    narrow = linear(tape, hidden, weights["query_down"])
    normed = rms_norm_of(tape, setting, narrow, weights["q_latent_norm"])
    tape.drop(narrow)
    query = linear(tape, normed, weights["query_up"], transposed_gradient=True)
    tape.drop(normed)
    latent = linear(tape, hidden, weights["kv_down"])
    key = rms_norm_of(tape, setting, latent, weights["kv_latent_norm"])
    tape.drop(latent)
    tape.hold(key)
    return Heads(query=query, key=key, value=key, query_is_packed=False)


def other_layers_heads(setting: Setting, shape: Attention, query: Tensor) -> Tensor:
    """Return keys or values that an earlier layer made; their bytes count there."""
    elements = setting.tokens * shape.key_size
    return Tensor(elements, query.width, ACTIVATION, requires_grad=query.requires_grad)


def split_gate(tape: Tape, query: Tensor) -> tuple[Tensor, Tensor]:
    """Return the queries and the output's gate, two views of one product; ``query`` is let go."""
    half = query.elements // 2
    queries, gate = split(tape, query, (half, half))
    tape.drop(query)
    return queries, gate


def gated_output(tape: Tape, mixed: Tensor, gate: Tensor) -> Tensor:
    """Return the heads' mix times the sigmoid of its gate; both are let go."""
    opened = activation(tape, gate, saves_output=True)
    out = multiply(tape, mixed, opened)
    tape.drop(mixed, gate, opened)
    return out


def narrowed_output(tape: Tape, setting: Setting, weight: Weight | None, mixed: Tensor) -> Tensor:
    """Return the heads' mix through DeepSeek V4's grouped projection, where there is one; ``mixed`` is let go."""
    if weight is None:
        return mixed
    out = grouped_product(tape, mixed, weight, setting.tokens)
    tape.drop(mixed)
    return out


def copies_heads(setting: Setting, shape: Attention) -> bool:
    """Return whether keys and values are copied out of the fused projection."""
    grouped = shape.kv_heads != shape.heads
    return setting.model_type in COPIES_HEADS or (
        grouped and setting.model_type in COPIES_GROUPED_HEADS
    )
