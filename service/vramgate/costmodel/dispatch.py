"""Operations that send tokens to experts and bring them back: gather, grouped product, weighting, sum.

They mirror ``grouped_mm_experts_forward`` of transformers 5 op by op, read off exact traces; see ``operations``.
"""

from vramgate.costmodel.operations import FP32, cast
from vramgate.costmodel.tape import CAST, Tape, Tensor
from vramgate.costmodel.weights import Adapter, Weight
from vramgate.units import Count

INDEX = 8
"""Bytes of an index (int64)."""


def kept_index(tape: Tape, elements: Count) -> Tensor:
    """Return a new index tensor; it requires no gradient."""
    return tape.new(elements, INDEX, requires_grad=False)


def top_scores(tape: Tape, scores: Tensor, elements: Count) -> Tensor:
    """Return the highest scores of each row; their indices are saved, the gradient is scattered over all scores."""
    out = tape.new(elements, scores.width, requires_grad=scores.requires_grad)
    indices = kept_index(tape, elements)
    if out.requires_grad:
        tape.save(indices)
        tape.record_saving(_top_scores_backward, out, scores, indices)
    tape.drop(indices)
    return out


def _top_scores_backward(tape: Tape, out: Tensor, scores: Tensor, indices: Tensor) -> None:
    gradient = tape.take(out)
    tape.allocate(scores.size)  # zeros, which the scatter copies
    made = tape.new_gradient(scores.size)
    tape.free(scores.size)
    tape.release(gradient)
    tape.drop(indices)
    tape.give(scores, made)


def normalise_scores(tape: Tape, scores: Tensor, rows: Count) -> Tensor:
    """Return scores divided in place by their row sum: the sum and the old scores are saved."""
    total = tape.new(rows, scores.width, requires_grad=False)
    old = tape.new(scores.elements, scores.width, requires_grad=False)
    out = tape.view(scores, scores.elements)
    if out.requires_grad:
        tape.save(total)
        tape.save(old)
        tape.record_saving(_normalise_backward, out, scores, (total, old))
    tape.drop(total, old)
    return out


def _normalise_backward(tape: Tape, out: Tensor, scores: Tensor, kept: tuple[Tensor, ...]) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(scores.size)
    tape.spike(2 * scores.size)
    tape.release(gradient)
    tape.drop(*kept)
    tape.give(scores, made)


def pick(tape: Tape, x: Tensor, elements: Count, indices: Count) -> Tensor:
    """Return rows of ``x`` by ``indices`` indices; backward puts them into zeros, out of place."""
    out = tape.new(elements, x.width, requires_grad=x.requires_grad)
    kept = kept_index(tape, indices)
    if out.requires_grad:
        tape.save(kept)
        tape.record_saving(_pick_backward, out, x, kept)
    tape.drop(kept)
    return out


def _pick_backward(tape: Tape, out: Tensor, x: Tensor, kept: Tensor) -> None:
    gradient = tape.take(out)
    size = x.elements * x.width
    tape.allocate(size)
    made = tape.new_gradient(size)
    tape.free(size)
    tape.release(gradient)
    tape.drop(kept)
    tape.give(x, made)


def grouped_product(tape: Tape, x: Tensor, weight: Weight, rows: Count) -> Tensor:
    """Return each row of ``x`` through its expert's weight: one product for all experts, in the weight's format.

    ``grouped_mm`` is no operation of autocast. Backward makes the weights' gradient first, whole.
    """
    source = cast(tape, x, weight.width)
    merged = None
    if weight.adapter is not None:
        merged = _merge_adapter(tape, weight, weight.adapter)
    trains = weight.trainable or merged is not None
    bias = tape.new(rows * _bias_width(weight), weight.width, requires_grad=False)
    tape.reach()
    out = tape.new(
        rows * weight.out_features, weight.width, requires_grad=x.requires_grad or trains
    )
    if out.requires_grad:
        if trains:
            tape.save(source)
        if merged is not None:
            tape.save(merged)
        tape.record_saving(_grouped_product_backward, out, source, weight, merged)
    tape.drop(source, bias)
    if merged is not None:
        tape.drop(merged)
    return out


def _bias_width(weight: Weight) -> Count:
    return weight.out_features if weight.has_bias else 0


def _grouped_product_backward(
    tape: Tape, out: Tensor, source: Tensor, weight: Weight, merged: Tensor | None
) -> None:
    gradient = tape.take(out)
    if weight.trainable and weight.has_bias:
        size = weight.bias_elements * weight.width
        tape.allocate(size)
        tape.keep_parameter_gradient(size)
    trains = weight.trainable or merged is not None
    made_weight = tape.new_gradient(weight.elements * weight.width) if trains else None
    made = tape.new_gradient(source.size, is_view=True) if source.requires_grad else None
    tape.release(gradient)
    if trains:
        tape.drop(source)
    if merged is not None and made_weight is not None:
        tape.drop(merged)
        tape.give(merged, made_weight)
    elif made_weight is not None:
        tape.keep_parameter_gradient(made_weight.size)
    if made is not None:
        tape.give(source, made)


def _merge_adapter(tape: Tape, weight: Weight, adapter: Adapter) -> Tensor:
    """Return the experts' weights with their LoRA added, a copy of all of them (peft ``ParamWrapper``).

    peft registers the sum as a parametrisation, which computes it once more and throws it away.
    """
    cast_to = adapter.a.width != weight.width
    elements = (adapter.a.elements + adapter.b.elements) * (1 if cast_to else 0)
    factors = tape.new(elements, weight.width, requires_grad=False, category=CAST)
    tape.spike(weight.elements * weight.width)
    merged = tape.new(weight.elements, weight.width, requires_grad=True)
    if merged.requires_grad:
        tape.save(factors)
        tape.record_saving(_merge_adapter_backward, merged, factors, adapter)
    tape.drop(factors)
    return merged


def _merge_adapter_backward(tape: Tape, merged: Tensor, factors: Tensor, adapter: Adapter) -> None:
    gradient = tape.take(merged)
    tape.allocate(factors.size)
    tape.drop(factors)
    tape.release(gradient)
    size = adapter.a.elements * adapter.a.width + adapter.b.elements * adapter.b.width
    tape.allocate(size)
    tape.keep_parameter_gradient(size)
    tape.free(factors.size)


def weighted(tape: Tape, x: Tensor, scores: Tensor) -> Tensor:
    """Return each row of ``x`` times its score; fp32 scores raise the product to fp32."""
    width = max(x.width, scores.width)
    tape.reach()
    out = tape.new(x.elements, width, requires_grad=x.requires_grad or scores.requires_grad)
    if out.requires_grad:
        if scores.requires_grad:
            tape.save(x)
        if x.requires_grad:
            tape.save(scores)
        tape.record_saving(_weighted_backward, out, x, scores)
    return out


def _weighted_backward(tape: Tape, out: Tensor, x: Tensor, scores: Tensor) -> None:
    gradient = tape.take(out)
    made = None
    tape.allocate(out.size if x.requires_grad else 0)
    tape.allocate(out.size if scores.requires_grad else 0)
    if x.requires_grad:
        if x.width != out.width:
            tape.allocate(x.size)
            tape.free(out.size)
        tape.free(x.size)
        made = tape.new_gradient(x.size)
    if scores.requires_grad:
        made_scores = tape.new_gradient(scores.elements * scores.width)
        tape.free(out.size)
        tape.give(scores, made_scores)
    tape.release(gradient)
    if scores.requires_grad:
        tape.drop(x)
    if x.requires_grad:
        tape.drop(scores)
    if made is not None:
        tape.give(x, made)


def combine(tape: Tape, x: Tensor, elements: Count, picks: Count) -> Tensor:
    """Return the sum of each token's rows of ``x``, which is sorted by expert; ``x`` is let go.

    The rows are put back in the tokens' order first. Backward spreads the gradient over the rows and sorts it
    again: three tensors of the rows' size.
    """
    order = kept_index(tape, picks)
    tape.spike(order.size)
    ordered = tape.new(x.elements, x.width, requires_grad=x.requires_grad)
    if ordered.requires_grad:
        tape.save(order)
    tape.drop(x)
    width = FP32 if tape.autocast else x.width  # autocast raises a sum
    if width != x.width:
        tape.spike(x.elements * width)
    out = tape.new(elements, width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.record_saving(_combine_backward, out, x, order)
    tape.drop(ordered, order)
    return out


def _combine_backward(tape: Tape, out: Tensor, x: Tensor, order: Tensor) -> None:
    gradient = tape.take(out)
    tape.allocate(x.size)  # the gradient, spread over the rows
    tape.release(gradient)
    tape.allocate(x.size)  # zeros
    made = tape.new_gradient(x.size)
    tape.free(2 * x.size)
    tape.drop(order)
    tape.give(x, made)


def add_rows(tape: Tape, total: Tensor, x: Tensor, rows: Count) -> Tensor:
    """Return ``total`` with the rows of ``x`` added in place at ``rows`` indices; backward picks them out again."""
    out = tape.view(total, total.elements)
    out.requires_grad = tape.recording and (total.requires_grad or x.requires_grad)
    if out.requires_grad:
        indices = tape.new_saved(rows, INDEX)
        tape.record_saving(_add_rows_backward, out, total, x, indices)
    return out


def _add_rows_backward(tape: Tape, out: Tensor, total: Tensor, x: Tensor, indices: Tensor) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(x.size)
    tape.drop(indices)
    tape.give(x, made)
    if total.requires_grad:
        tape.give(total, gradient)
    else:
        tape.release(gradient)


def sum_of(tape: Tape, x: Tensor, elements: Count) -> Tensor:
    """Return ``x`` summed to ``elements`` numbers; the gradient is spread out again."""
    out = tape.new(elements, x.width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.record(_sum_backward, out, x)
    return out


def _sum_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(x.size)
    tape.release(gradient)
    tape.give(x, made)
