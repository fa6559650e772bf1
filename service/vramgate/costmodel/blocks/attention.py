"""One block's attention: projections, positions, what ``mixing`` does with the heads, and the output projection.

The rules that changed with a version of transformers are named here, each with its first or last version.
Source: traces of eleven versions (4.45 to 5.24) and their modeling code.
"""

from vramgate.costmodel.architecture import Attention, Position
from vramgate.costmodel.blocks.mixing import mixed_heads
from vramgate.costmodel.blocks.norms import head_norm
from vramgate.costmodel.blocks.projections import (
    GATED_OUTPUT,
    Heads,
    compressed_heads,
    copies_heads,
    gated_output,
    narrowed_output,
    other_layers_heads,
    split_gate,
)
from vramgate.costmodel.blocks.relative_bias import make_bias
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.kernels import (
    fused_rotate,
    repeat_heads,
    rotate,
)
from vramgate.costmodel.operations import (
    FP32,
    activation,
    cast,
    concatenate,
    keep_with,
    scale,
    split,
)
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight

LAYER_TABLES_UNTIL = {"mistral": (4, 47), "mixtral": (4, 47), "gemma2": (4, 46)}
"""Families whose attention layers computed rotary tables of their own, up to this version."""
FP32_ROTARY = frozenset(
    {
        "baichuan",
        "cohere",
        "cohere2",
        "cohere2_moe",
        "ernie4_5",
        "ernie4_5_moe",
        "modernbert",
        "qwen",
    }
)
"""Families that rotate in fp32 and cast back."""
ROTATES_BEFORE_TRANSPOSE = frozenset({"gptj", "codegen"})
"""Families that rotate while heads still follow tokens, so that a kernel's output follows tokens too."""
CONCATENATED_ROTARY = frozenset({"phi3"})
"""Families whose rotary code splits and concatenates heads even where all of a head is rotated."""
CLIPS_PROJECTION = frozenset({"dbrx"})
"""Families that clamp the fused projection, which keeps it beside the clamped copy."""
VALUE_IS_VIEW = frozenset({"litgpt"})
"""Frameworks that project queries, keys and values at once: values, kept as a view, keep the whole product."""


def attention(
    tape: Tape, setting: Setting, shape: Attention, weights: dict[str, Weight], hidden: Tensor
) -> Tensor:
    """Return the attention's output after its projection; ``hidden`` stays the caller's."""
    heads, gate = _projected(tape, setting, shape, weights, hidden)
    if shape.position is Position.ROTARY and shape.rotary_dim:
        _rotated(tape, setting, shape, heads)
    if shape.position is Position.RELATIVE:
        heads.bias_trains = weights["attention_output"].trainable
        make_bias(tape, setting, weights.get("relative_bias"))
    mixed = mixed_heads(tape, setting, shape, heads, weights)
    if gate is not None:
        mixed = gated_output(tape, mixed, gate)
    mixed = narrowed_output(tape, setting, weights.get("output_down"), mixed)
    out = linear(tape, mixed, weights["attention_output"])
    tape.drop(mixed)
    return out


def _projected(
    tape: Tape, setting: Setting, shape: Attention, weights: dict[str, Weight], hidden: Tensor
) -> tuple[Heads, Tensor | None]:
    """Return the heads, and the gate of the attention's output where the family has one."""
    if "qkv" in weights:
        return _fused_heads(tape, setting, shape, weights["qkv"], hidden), None
    if "kv_down" in weights:
        return compressed_heads(tape, setting, weights, hidden), None
    query = linear(tape, hidden, weights["query"], transposed_gradient=_query_is_copied(shape))
    gate = None
    if setting.model_type in GATED_OUTPUT:
        query, gate = split_gate(tape, query)
    query = _head_norm(tape, setting, weights.get("query_norm"), query)
    key, value = _keys_and_values(tape, setting, shape, weights, hidden, query)
    if setting.model_type == "opt":
        scaled = scale(tape, query)
        tape.drop(query)
        query = scaled
    return Heads(query=query, key=key, value=value, query_is_packed=False), gate


def _keys_and_values(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    weights: dict[str, Weight],
    hidden: Tensor,
    query: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return keys and values: projected, an earlier layer's, or values that are the keys."""
    if "key" not in weights:
        key, value = (other_layers_heads(setting, shape, query) for _ in range(2))
        tape.hold(key)
        tape.hold(value)
        return key, value
    key = linear(tape, hidden, weights["key"], transposed_gradient=_query_is_copied(shape))
    normed = _head_norm(tape, setting, weights.get("key_norm"), key)
    if "value" not in weights:
        tape.hold(normed)
        return normed, normed
    return normed, linear(tape, hidden, weights["value"])


def _fused_heads(
    tape: Tape, setting: Setting, shape: Attention, weight: Weight, hidden: Tensor
) -> Heads:
    """Return views of one product for queries, keys and values."""
    tokens = setting.tokens
    fused = linear(tape, hidden, weight)
    if setting.model_type in CLIPS_PROJECTION:
        clipped = activation(tape, fused)
        tape.drop(fused)
        fused = clipped
    sizes = (tokens * shape.query_size, tokens * shape.key_size, tokens * shape.value_size)
    query, key, value = split(tape, fused, sizes)
    tape.drop(fused)
    if copies_heads(setting, shape):
        times = 1 if shape.kv_heads == 1 else shape.heads // shape.kv_heads
        views = key, value
        key, value = (repeat_heads(tape, view, times) for view in views)
        tape.drop(*views)
    return Heads(query=query, key=key, value=value, query_is_packed=False)


def _query_is_copied(shape: Attention) -> bool:
    """Return whether the gradient of queries and keys comes back heads-first (through the rotary code)."""
    return shape.position is Position.ROTARY


def _head_norm(tape: Tape, setting: Setting, weight: Weight | None, x: Tensor) -> Tensor:
    if weight is None:
        return x
    out = head_norm(tape, setting, x, weight)
    tape.drop(x)
    return out


def _rotated(tape: Tape, setting: Setting, shape: Attention, heads: Heads) -> None:
    """Rotate queries and keys; the old ones live until both are done."""
    partial = shape.rotary_dim < shape.head_dim or setting.model_type in CONCATENATED_ROTARY
    width = setting.table_width
    if setting.transformers <= LAYER_TABLES_UNTIL.get(setting.model_type, (0, 0)):
        width = heads.value.width
        _keep_own_tables(tape, setting, shape, heads)
    fused = "rope" in setting.fused_kernels
    old = (heads.query, heads.key)
    turned = []
    for x in old:
        if fused:
            turned.append(fused_rotate(tape, x))
        elif setting.model_type in FP32_ROTARY:
            turned.append(_rotated_wide(tape, x))
        elif partial:
            turned.append(_rotated_part(tape, shape, x, width))
        else:
            turned.append(rotate(tape, x, width))
    if setting.software.framework in VALUE_IS_VIEW and shape.heads == shape.kv_heads:
        keep_with(tape, heads.value, *old)
    tape.drop(*old)
    heads.query, heads.key = turned
    follows_tokens = fused or setting.model_type in ROTATES_BEFORE_TRANSPOSE
    heads.query_is_packed = partial and not follows_tokens


def _rotated_wide(tape: Tape, x: Tensor) -> Tensor:
    """Rotate an fp32 copy and cast it back."""
    wide = cast(tape, x, FP32)
    turned = rotate(tape, wide, FP32)
    out = cast(tape, turned, x.width)
    tape.drop(wide, turned)
    return out


def _keep_own_tables(tape: Tape, setting: Setting, shape: Attention, heads: Heads) -> None:
    """Keep the cos and sin that this layer computes for itself."""
    elements = 2 * setting.sequence * shape.rotary_dim
    tables = tape.new(elements, heads.value.width, requires_grad=False)
    if heads.query.requires_grad or heads.key.requires_grad:
        tape.save(tables)
    tape.drop(tables)


def _rotated_part(tape: Tape, shape: Attention, x: Tensor, table_width: int) -> Tensor:
    """Rotate the first ``rotary_dim`` of every head and put the rest behind it again."""
    front = x.elements // shape.head_dim * shape.rotary_dim
    rotary, rest = split(tape, x, (front, x.elements - front))
    turned = rotate(tape, rotary, table_width)
    out = concatenate(tape, turned, rest)
    tape.drop(turned, rotary, rest)
    return out
