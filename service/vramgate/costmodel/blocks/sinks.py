"""Eager attention with a learned sink per head (gpt-oss): one more column of scores, dropped after the softmax.

Source: transformers 5.24 ``modeling_gpt_oss.eager_attention_forward`` and an exact trace.
"""

from vramgate.costmodel.kernels import Scores
from vramgate.costmodel.norm_operations import vector_gradient
from vramgate.costmodel.operations import activation, add, batched_product, copy, dropout, scale
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Count

INDEX_BYTES = 8


def eager_attention_with_sinks(
    tape: Tape,
    sides: list[Tensor],
    sinks: Weight,
    *,
    scores: Scores,
    out_elements: Count,
    mask_width: int,
    dropout_probability: float,
) -> Tensor:
    """Return attention whose softmax, in the scores' own format, has one column more than there are keys."""
    query, key, value = sides
    products = batched_product(tape, query, key, scores.elements)
    scaled = scale(tape, products)
    tape.drop(products)
    mask = Tensor(scores.elements, mask_width, 0, requires_grad=False)
    masked = add(tape, scaled, mask)
    tape.drop(scaled)
    rows = scores.batch * scores.heads * scores.queries
    combined = copy(tape, masked)
    vector_gradient(tape, sinks)
    largest = tape.new(rows, INDEX_BYTES, requires_grad=False)
    if combined.requires_grad:
        tape.save(largest)
        tape.record_saving(_let_go, largest)
    shifted = copy(tape, combined)
    tape.drop(combined, largest)
    probabilities = activation(tape, shifted, saves_output=True)
    tape.drop(masked)
    dropped = dropout(tape, probabilities, dropout_probability)
    tape.drop(probabilities)
    mixed = batched_product(tape, dropped, value, out_elements)
    tape.leave_to_block(dropped)
    out = copy(tape, mixed)
    tape.drop(mixed, shifted)
    return out


def _let_go(tape: Tape, tensor: Tensor) -> None:
    tape.drop(tensor)
