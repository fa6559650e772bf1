"""Attention between the projections: rotary positions and the kernels, with what each saves.

Kernels: flash (FlashAttention 2/3 and the flash path of ``scaled_dot_product_attention``), memory-efficient, math,
and eager code in Python. Source: traces of torch 2.13; PyTorch ``sdp_utils``.
"""

from dataclasses import dataclass
from enum import StrEnum

from vramgate.costmodel.operations import (
    FP32,
    activation,
    add,
    batched_product,
    cast,
    computed,
    copy,
    dropout,
    scale,
    soft_cap,
)
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.units import Bytes, Count, round_up


class Kernel(StrEnum):
    """What computes the attention."""

    FLASH = "flash"
    EFFICIENT = "efficient"
    MATH = "math"
    EAGER = "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The size of one attention: query rows and keys a row attends to."""

    batch: Count
    queries: Count
    keys: Count
    heads: Count
    kv_heads: Count

    @property
    def elements(self) -> Count:
        """Elements of the score matrices of all heads."""
        return self.batch * self.heads * self.queries * self.keys


def rotate(tape: Tape, x: Tensor, table_width: int) -> Tensor:
    """Return ``x`` with rotary positions: ``x * cos + rotate_half(x) * sin``; only the shared tables are saved.

    ``table_width``: bytes of an element of cos and sin; a wider table promotes the result.
    """
    width = max(x.width, table_width)
    promoted = x.elements * width
    tape.allocate(promoted)  # x * cos
    tape.allocate(x.size // 2)  # the negated half
    tape.allocate(x.size)  # both halves put together
    tape.free(x.size // 2)
    tape.allocate(promoted)  # … * sin
    tape.free(x.size)
    out = tape.new(x.elements, width, requires_grad=x.requires_grad)
    tape.free(2 * promoted)
    if out.requires_grad:
        tape.record_saving(_rotate_backward, out, x)
    return out


def _rotate_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    _narrowed(tape, out, x)  # gradient * sin
    tape.allocate(x.size // 2)
    made = tape.new_gradient(x.size)
    tape.free(x.size // 2)
    tape.spike(x.size)
    tape.free(x.size)
    _narrowed(tape, out, x)  # gradient * cos, added in place
    tape.release(gradient)
    tape.free(x.size)
    tape.give(x, made)


def _narrowed(tape: Tape, out: Tensor, x: Tensor) -> None:
    """Allocate a product in the output's format and leave it in the input's."""
    tape.allocate(out.size)
    if out.width != x.width:
        tape.allocate(x.size)
        tape.free(out.size)


def fused_rotate(tape: Tape, x: Tensor) -> Tensor:
    """Return ``x`` rotated by a fused kernel in place on a transposed copy (Liger); nothing is saved."""
    return computed(tape, x, x.elements, x.width)


def repeat_heads(tape: Tape, x: Tensor, times: Count) -> Tensor:
    """Return keys or values copied to the full head count (``repeat_kv``); the gradient is summed back."""
    return computed(tape, x, x.elements * times, x.width)


def fused_attention(
    tape: Tape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scores: Scores,
    out_elements: Count,
    kernel: Kernel,
    bias: Tensor | None = None,
    bias_gradient: Bytes = 0,
    travelling: Bytes = 0,
) -> Tensor:
    """Return the output of a fused kernel; it saves query, key, value, output and the log-sum-exp of each row.

    ``bias_gradient``: bytes of the gradient made for a bias that trains, and added into the one that is there.
    ``travelling``: bytes of keys and values that come from other ranks while the kernel runs, either way.
    """
    tape.allocate(travelling)
    requires_grad = query.requires_grad or key.requires_grad or value.requires_grad
    out = tape.new(out_elements, query.width, requires_grad=requires_grad)
    rows = scores.queries if kernel is Kernel.FLASH else round_up(scores.queries, 32)
    log_sum = tape.new(scores.batch * scores.heads * rows, FP32, requires_grad=False)
    tape.reach()
    tape.attention_bytes = out.size + log_sum.size
    if out.requires_grad:
        kept = [query, key, value, out, log_sum]
        if bias is not None:
            kept.append(bias)
        for tensor in kept:
            tape.save(tensor)
        sides = (query, key, value)
        tape.record_saving(_fused_attention_backward, out, sides, kept, bias_gradient, travelling)
    tape.free(travelling)
    tape.drop(log_sum)
    return out


def _fused_attention_backward(
    tape: Tape,
    out: Tensor,
    sides: tuple[Tensor, Tensor, Tensor],
    kept: list[Tensor],
    bias_gradient: Bytes,
    travelling: Bytes,
) -> None:
    gradient = tape.take(out)
    tape.allocate(travelling)
    made = [tape.new_gradient(side.elements * side.width) for side in sides]
    tape.allocate(bias_gradient)
    tape.free(travelling)
    tape.release(gradient)
    tape.drop(*kept)
    tape.spike(bias_gradient)  # through the causal mask
    tape.free(bias_gradient)
    for side, side_gradient in zip(sides, made, strict=True):
        if side.requires_grad:
            tape.give(side, side_gradient)
        else:
            tape.release(side_gradient)


def eager_attention(
    tape: Tape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scores: Scores,
    out_elements: Count,
    mask_width: int | None,
    softmax_fp32: bool,
    softcap: bool,
    scales: bool,
    dropout_probability: float,
    probability_width: int | None = None,
    clamps: bool = False,
) -> Tensor:
    """Return attention written in Python: every step of the score matrix is a tensor of its own.

    ``mask_width``: bytes of an element of the additive mask, None where there is none; ``softmax_fp32``: the model
    code asks for the softmax in fp32 and casts back; ``clamps``: it cuts masked scores off below, which keeps them.
    """
    logits = batched_product(tape, query, key, scores.elements)
    if scales:  # with ALiBi the product, its scaling and its bias are one kernel
        products = logits
        logits = scale(tape, products)
        tape.drop(products)
    if softcap:
        logits = soft_cap(tape, logits)
    if mask_width is not None:
        mask = Tensor(scores.elements, mask_width, 0, requires_grad=False)
        masked = add(tape, logits, mask)
        tape.drop(logits)
        logits = masked
    if clamps:
        clamped = activation(tape, logits)
        tape.drop(logits)
        logits = clamped
    width = logits.width
    wide = cast(tape, logits, FP32 if softmax_fp32 or tape.autocast else width)
    probabilities = activation(tape, wide, saves_output=True)
    tape.drop(wide)
    asked = query.width if probability_width is None else probability_width
    narrow = cast(tape, probabilities, asked if softmax_fp32 else probabilities.width)
    tape.drop(probabilities, logits)
    dropped = dropout(tape, narrow, dropout_probability)
    tape.drop(narrow)
    mixed = batched_product(tape, dropped, value, out_elements)
    tape.leave_to_block(dropped)  # the layer returns its attention weights
    out = copy(tape, mixed)
    tape.drop(mixed)
    return out


def math_attention(
    tape: Tape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scores: Scores,
    out_elements: Count,
    one_row: bool,
) -> Tensor:
    """Return the math path of ``scaled_dot_product_attention``: in fp32, the softmax saved whole.

    Keys and values are copied to the full head count where there are fewer of them. Autocast is off inside.
    """
    width = query.width
    autocast, tape.autocast = tape.autocast, False
    wide = [cast(tape, side, FP32) for side in (query, key, value)]
    groups = scores.heads // scores.kv_heads
    if scores.kv_heads not in {scores.heads, 1}:
        for index in (1, 2):
            repeated = repeat_heads(tape, wide[index], groups)
            tape.drop(wide[index])
            wide[index] = repeated
    scaled_query = scale(tape, wide[0])
    scaled_key = scale(tape, wide[1])
    tape.drop(wide[0], wide[1])
    if (
        scores.kv_heads == 1 and not one_row
    ):  # one head, expanded and copied for the batched product
        narrow_key, narrow_value = scaled_key, wide[2]
        scaled_key = repeat_heads(tape, narrow_key, scores.heads)
        wide[2] = repeat_heads(tape, narrow_value, scores.heads)
        tape.drop(narrow_key, narrow_value)
    products = batched_product(tape, scaled_query, scaled_key, scores.elements)
    tape.drop(scaled_query, scaled_key)
    probabilities = activation(tape, products, saves_output=True)
    tape.drop(products)
    mixed = batched_product(tape, probabilities, wide[2], out_elements)
    tape.drop(probabilities, wide[2])
    narrow = cast(tape, mixed, width)
    tape.drop(mixed)
    out = copy(tape, narrow)
    tape.drop(narrow)
    tape.autocast = autocast
    return out
