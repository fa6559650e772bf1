"""DeepSeek's multi-head latent attention: keys and values come from a narrow latent, positions from a part of a head.

Source: transformers 5.24 ``modeling_deepseek_v2`` and ``modeling_deepseek_v3``, and exact traces of both.
"""

from vramgate.costmodel.architecture import Attention
from vramgate.costmodel.blocks.mixing import mixed_heads
from vramgate.costmodel.blocks.norms import rms_norm_of
from vramgate.costmodel.blocks.projections import Heads
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.kernels import rotate
from vramgate.costmodel.operations import FP32, cast, concatenate, scale, split
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Count

COMPLEX_ROTARY = frozenset({"deepseek_v2"})
"""Families that rotate with complex numbers, in fp32."""


def latent_attention(
    tape: Tape, setting: Setting, shape: Attention, weights: dict[str, Weight], hidden: Tensor
) -> Tensor:
    """Return the attention's output after its projection; ``hidden`` stays the caller's."""
    query = _query(tape, setting, weights, hidden)
    latent, rotated_key, projected = _latent(tape, setting, shape, weights, hidden)
    parts = _split_query(tape, setting, shape, query)
    turned_query = _turned(tape, setting, parts[1])
    turned_key = _turned(tape, setting, rotated_key)
    queries = concatenate(tape, parts[0], turned_query)
    keys, values, expanded = _expanded(tape, setting, shape, weights["kv_up"], latent, turned_key)
    tape.drop(latent)
    heads = Heads(query=queries, key=keys, value=values, query_is_packed=True)
    if "mla_up_proj" in setting.recomputes:
        tape.discard(queries, keys, expanded)
    mixed = mixed_heads(tape, setting, shape, heads, weights)
    out = linear(tape, mixed, weights["attention_output"])
    tape.drop(mixed, expanded)
    # Names of the attention's function: they live until it returns.
    tape.drop(query, *parts, turned_query, turned_key, rotated_key, projected)
    return out


def _query(tape: Tape, setting: Setting, weights: dict[str, Weight], hidden: Tensor) -> Tensor:
    if "query" in weights:
        return linear(tape, hidden, weights["query"], transposed_gradient=True)
    narrow = linear(tape, hidden, weights["query_down"])
    normed = rms_norm_of(tape, setting, narrow, weights["q_latent_norm"])
    tape.drop(narrow)
    out = linear(tape, normed, weights["query_up"], transposed_gradient=True)
    tape.drop(normed)
    return out


def _latent(
    tape: Tape, setting: Setting, shape: Attention, weights: dict[str, Weight], hidden: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the normalised latent, the one key part that is rotated, and the product both are views of."""
    projected = linear(tape, hidden, weights["kv_down"])
    tokens = setting.tokens
    plain, rotary = split(
        tape, projected, (tokens * shape.kv_lora_rank, tokens * shape.rope_head_dim)
    )
    latent = rms_norm_of(tape, setting, plain, weights["kv_latent_norm"])
    tape.drop(plain)
    return latent, rotary, projected


def _split_query(tape: Tape, setting: Setting, shape: Attention, query: Tensor) -> list[Tensor]:
    rotary: Count = setting.tokens * shape.heads * shape.rope_head_dim
    return split(tape, query, (query.elements - rotary, rotary))


def _turned(tape: Tape, setting: Setting, x: Tensor) -> Tensor:
    """Return the rotated part of queries or keys."""
    if setting.model_type not in COMPLEX_ROTARY:
        return rotate(tape, x, setting.table_width)
    wide = cast(tape, x, FP32)
    product = scale(tape, wide)
    out = cast(tape, product, x.width)
    tape.drop(product, wide)
    return out


def _expanded(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    weight: Weight,
    latent: Tensor,
    turned_key: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return keys and values of all heads, and the product the values are a view of."""
    expanded = linear(tape, latent, weight, transposed_gradient=True)
    tokens = setting.tokens
    plain = tokens * shape.heads * (shape.head_dim - shape.rope_head_dim)
    key_part, values = split(tape, expanded, (plain, expanded.elements - plain))
    keys = _joined(tape, key_part, turned_key, shape.heads)
    tape.drop(key_part)
    return keys, values, expanded


def _joined(tape: Tape, plain: Tensor, rotary: Tensor, heads: Count) -> Tensor:
    """Return keys of a plain part per head and a rotary part that all heads share, copied into one new tensor."""
    width = max(plain.width, rotary.width)
    out = tape.new(
        plain.elements + heads * rotary.elements,
        width,
        requires_grad=plain.requires_grad or rotary.requires_grad,
    )
    if out.requires_grad:
        tape.record(_joined_backward, out, plain, rotary)
    return out


def _joined_backward(tape: Tape, out: Tensor, plain: Tensor, rotary: Tensor) -> None:
    gradient = tape.take(out)
    tape.allocate(out.size)  # the gradient without the part that was copied in last
    made = tape.new_gradient(rotary.size)
    tape.release(gradient)
    tape.give(rotary, made)
    made = tape.new_gradient(plain.elements * plain.width)
    tape.free(out.size)
    tape.give(plain, made)
