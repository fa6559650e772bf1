"""Attention of a decoder to its encoder's output: T5, BART and their kin, Whisper.

The memory (the encoder's output) is made outside the block: every decoder block projects it to keys and values and
adds to its gradient. Source: transformers 5.24 ``modeling_t5``, ``modeling_bart``; exact traces.
"""

from vramgate.costmodel.architecture import Attention, Block
from vramgate.costmodel.blocks.mixing import kernel_of, softmax_in_own_format
from vramgate.costmodel.blocks.norms import head_norm
from vramgate.costmodel.blocks.relative_bias import ADDS_RELATIVE_BIAS, shared_zeros
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.kernels import (
    Kernel,
    Scores,
    eager_attention,
    fused_attention,
    math_attention,
)
from vramgate.costmodel.operations import cast
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import ACTIVATION, Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Count

Weights = dict[str, Weight]


def stand_in_memory(setting: Setting, weights: Weights, stream: Tensor) -> Tensor:
    """Return an encoder's output as long as the decoder's input, whose bytes count elsewhere."""
    width = weights["cross_key"].in_features
    return Tensor(
        setting.tokens * width, stream.width, ACTIVATION, requires_grad=stream.requires_grad
    )


def cross_attention(
    tape: Tape,
    setting: Setting,
    block: Block,
    weights: Weights,
    hidden: Tensor,
    memory: Tensor,
) -> Tensor:
    """Return the cross-attention's output after its projection; ``hidden`` and ``memory`` stay the caller's."""
    shape = block.cross_attention
    if shape is None:
        tape.hold(hidden)
        return hidden
    query = linear(tape, hidden, weights["cross_query"])
    key = linear(tape, memory, weights["cross_key"])
    if (
        block.attention is None
    ):  # Llama 3.2's cross-attention layers have no self-attention, but norms of their own
        query = _normed(tape, setting, weights.get("query_norm"), query)
        key = _normed(tape, setting, weights.get("key_norm"), key)
    value = linear(tape, memory, weights["cross_value"])
    scores = _scores(setting, shape, memory, weights["cross_key"])
    first = "relative_bias" in weights
    mixed = _mixed(tape, setting, shape, [query, key, value], scores, first_block=first)
    out = linear(tape, mixed, weights["cross_output"])
    tape.drop(mixed)
    return out


def _normed(tape: Tape, setting: Setting, weight: Weight | None, x: Tensor) -> Tensor:
    """Return queries or keys normalised, where they are; ``x`` is let go."""
    if weight is None:
        return x
    out = head_norm(tape, setting, x, weight)
    tape.drop(x)
    return out


def _scores(setting: Setting, shape: Attention, memory: Tensor, key: Weight) -> Scores:
    """Return the size of the attention: as many keys a row as the memory has tokens a row."""
    return Scores(
        batch=setting.batch,
        queries=setting.sequence,
        keys=memory.elements // key.in_features // setting.batch,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
    )


def _mixed(
    tape: Tape,
    setting: Setting,
    shape: Attention,
    sides: list[Tensor],
    scores: Scores,
    *,
    first_block: bool,
) -> Tensor:
    """Return the heads' mix; ``sides`` are let go."""
    out_elements: Count = setting.tokens * shape.heads * shape.value_head_dim
    width = setting.compute_width if setting.autocast else sides[0].width
    kernel = _kernel(setting, shape, width)
    if kernel is Kernel.EAGER:
        out = eager_attention(
            tape,
            *sides,
            scores=scores,
            out_elements=out_elements,
            mask_width=_mask_width(setting),
            softmax_fp32=not softmax_in_own_format(setting),
            softcap=False,
            scales=True,
            dropout_probability=shape.dropout,
        )
        tape.drop(*sides)
        return out
    narrow = [cast(tape, side, width) for side in sides]
    tape.drop(*sides)
    if kernel is Kernel.MATH:
        out = math_attention(
            tape, *narrow, scores=scores, out_elements=out_elements, one_row=setting.one_row
        )
    else:
        bias = shared_zeros(tape, setting, scores, first_block=first_block)
        out = fused_attention(
            tape, *narrow, scores=scores, out_elements=out_elements, kernel=kernel, bias=bias
        )
        if bias is not None:
            tape.drop(bias)
    tape.drop(*narrow)
    return out


def _mask_width(setting: Setting) -> int | None:
    """Return bytes of an element of what is added to the scores, None where nothing is."""
    if setting.model_type in ADDS_RELATIVE_BIAS or setting.padded:
        return setting.table_width
    return None


def _kernel(setting: Setting, shape: Attention, width: int) -> Kernel:
    """Return the kernel of the cross-attention: T5's zero bias refuses flash."""
    kernel = kernel_of(setting, shape, width)
    if kernel is Kernel.FLASH and setting.model_type in ADDS_RELATIVE_BIAS:
        return Kernel.EFFICIENT
    return kernel
