"""T5's relative position bias: heads × queries × keys, made by a stack's first block and added in every block.

What lives across blocks (the bias itself in forward, its gradient in backward) belongs to no block: see
``held_bias_bytes``. Source: transformers 5.24 ``modeling_t5`` and exact traces of T5-large and Flan-T5-large.
"""

from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.kernels import Scores
from vramgate.costmodel.norm_operations import vector_gradient
from vramgate.costmodel.operations import MASK
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes, Count

ADDS_RELATIVE_BIAS = frozenset({"t5", "mt5"})
"""Families with a learned bias per head and distance."""
BUCKET_BYTES = 8
"""Bytes of a bucket's index, kept by the bias's embedding (int64)."""
BUCKET_TEMPORARIES = 4
"""Index-sized int64 tensors alive at once while buckets are computed."""


def held_bias_bytes(setting: Setting, *, heads: Count) -> Bytes:
    """Return the bytes of a stack's bias, which lives across its blocks.

    In forward it is there from the stack's first block to its last; in backward its gradient, as large, from the
    last block's to the first's where the bias trains. With checkpointing it is an input of every block and stays
    from forward to the first block's backward, and so does as much again in a decoder: the zeros of its
    cross-attention.
    """
    return heads * setting.sequence * setting.sequence * setting.stream_width


def make_bias(tape: Tape, setting: Setting, weight: Weight | None) -> None:
    """Count what the first block of a stack needs for the bias: the buckets' indices, which are kept."""
    if weight is None:
        return
    square = setting.sequence * setting.sequence
    indices = tape.new(square, BUCKET_BYTES, requires_grad=False)
    tape.spike(BUCKET_TEMPORARIES * indices.size)
    if weight.trainable and tape.recording:
        tape.save(indices)
        tape.record_saving(_let_go, indices)
        vector_gradient(tape, weight)
    tape.drop(indices)


def layer_bias(
    tape: Tape, setting: Setting, scores: Scores, *, masked: bool, trains: bool
) -> Tensor:
    """Return one layer's copy of the bias for a fused kernel; a causal layer masks it first.

    The mask is kept where the bias ``trains``. An encoder's padding makes a bias for every row of the batch.
    """
    elements = scores.heads * scores.queries * scores.keys
    if not masked:
        rows = scores.batch if setting.padded else 1
        return tape.new(rows * elements, setting.compute_width, requires_grad=False)
    square = tape.new(scores.queries * scores.keys, MASK, requires_grad=False)
    filled = tape.new(elements, setting.compute_width, requires_grad=False)
    bias = tape.new(elements, setting.compute_width, requires_grad=False)
    if trains and tape.recording:
        tape.save(square)
        tape.record_saving(_let_go, square)
    tape.drop(filled, square)
    return bias


def shared_zeros(
    tape: Tape, setting: Setting, scores: Scores, *, first_block: bool
) -> Tensor | None:
    """Return the zeros T5 adds to a cross-attention's scores: the first block's count, the others keep the same.

    With padding every block adds its own mask to them, for every row of the batch.
    """
    if setting.model_type not in ADDS_RELATIVE_BIAS:
        return None
    elements = scores.heads * scores.queries * scores.keys
    if setting.padded:
        return tape.new(scores.batch * elements, setting.compute_width, requires_grad=False)
    if first_block:
        return tape.new(elements, setting.compute_width, requires_grad=False)
    return tape.new(0 * elements, setting.compute_width, requires_grad=False)


def _let_go(tape: Tape, tensor: Tensor) -> None:
    tape.drop(tensor)
