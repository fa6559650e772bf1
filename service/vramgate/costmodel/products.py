"""Matrix products with a weight: plain, quantised, adapted. What each allocates, saves and needs in backward.

Read off exact traces, like ``operations``. Adapters follow peft ``lora/layer.py``, DoRA ``lora/dora.py``.
"""

from vramgate.costmodel.operations import add, cast, dropout, keep_with, scale
from vramgate.costmodel.quantization import BITSANDBYTES_FOUR_BIT, UNPACKS_IN_PYTORCH
from vramgate.costmodel.tape import CAST, DEQUANTIZED, Gradient, Tape, Tensor
from vramgate.costmodel.weights import Adapter, Weight
from vramgate.units import Bytes


def cast_weight(tape: Tape, weight: Weight, width: int) -> Tensor:
    """Return autocast's copy of a weight: cached until autocast ends where the weight trains, made anew where not."""
    cached = tape.casts.get(weight)
    if cached is not None:
        tape.hold(cached)
        return cached
    out = tape.new(weight.elements, width, requires_grad=weight.trainable, category=CAST)
    if weight.trainable:
        tape.casts[weight] = out
        tape.hold(out)
        if out.requires_grad:
            tape.record_saving(_cast_weight_backward, out, weight)
    return out


def _cast_weight_backward(tape: Tape, out: Tensor, weight: Weight) -> None:
    gradient = tape.take(out)
    size = weight.elements * weight.width
    tape.allocate(size)
    tape.release(gradient)
    tape.keep_parameter_gradient(size)


def linear(tape: Tape, x: Tensor, weight: Weight, *, transposed_gradient: bool = False) -> Tensor:
    """Return ``x`` through a linear layer and its adapter.

    ``transposed_gradient``: the output's gradient arrives in another layout and is copied first (the heads of
    queries, keys and values).
    """
    base = _base_linear(tape, x, weight, transposed_gradient=transposed_gradient)
    return base if weight.adapter is None else adapt(tape, x, base, weight)


def _base_linear(tape: Tape, x: Tensor, weight: Weight, *, transposed_gradient: bool) -> Tensor:
    if weight.quantization is not None:
        return _quantized_linear(tape, x, weight)
    width = tape.compute_width if tape.autocast else x.width
    kept_weight = cast_weight(tape, weight, width) if weight.width != width else None
    source = cast(tape, x, width)
    rows = x.elements // weight.in_features
    requires_grad = x.requires_grad or weight.trainable
    tape.reach()
    out = tape.new(rows * weight.out_features, width, requires_grad=requires_grad)
    tape.products.append(out.size)
    if out.requires_grad:
        if weight.trainable:
            tape.save(source)
        if kept_weight is not None and source.requires_grad:
            tape.save(kept_weight)
        tape.record_saving(_linear_backward, out, source, weight, kept_weight, transposed_gradient)
    tape.drop(source)
    if kept_weight is not None:
        tape.drop(kept_weight)
    return out


def _linear_backward(
    tape: Tape,
    out: Tensor,
    source: Tensor,
    weight: Weight,
    kept_weight: Tensor | None,
    transposed_gradient: bool,  # noqa: FBT001
) -> None:
    gradient = tape.take(out)
    if transposed_gradient:
        copied = tape.new_gradient(out.size)
        tape.release(gradient)
        gradient = copied
    made: Gradient | None = None
    made_weight: Gradient | None = None
    if (
        source.requires_grad and weight.has_bias
    ):  # addmm makes the input's gradient first, mm the weight's
        made = tape.new_gradient(source.size, is_view=True)
    if weight.trainable:
        made_weight = tape.new_gradient(weight.elements * out.width)
        if weight.has_bias:
            tape.allocate(weight.bias_elements * weight.width)
            tape.keep_parameter_gradient(weight.bias_elements * weight.width)
    if source.requires_grad and made is None:
        made = tape.new_gradient(source.size, is_view=True)
    tape.release(gradient)
    if weight.trainable:
        tape.release_saved(source)
    if kept_weight is not None and source.requires_grad:
        tape.drop(kept_weight)
    if made_weight is not None:
        if kept_weight is not None:
            tape.give(kept_weight, made_weight)
        else:
            tape.keep_parameter_gradient(made_weight.size)
    if made is not None:
        tape.give(source, made)


def _quantized_linear(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` through a quantised layer: the weight is unpacked for the product, in forward and in backward.

    The input is not saved (bitsandbytes ``MatMul4Bit``; AutoGPTQ's Triton kernel unpacks likewise). Where a kernel
    unpacks in PyTorch and multiplies, autograd saves the unpacked weight instead.
    """
    width = tape.compute_width
    source = cast(tape, x, width)
    if _keeps_input(tape, weight):
        keep_with(tape, source, source)
        tape.quantized_inputs[source] = source.size
    unpacked = _unpack(tape, weight, width)
    rows = x.elements // weight.in_features
    tape.reach()
    out = tape.new(rows * weight.out_features, width, requires_grad=x.requires_grad)
    if out.requires_grad:
        kept = unpacked if _keeps_unpacked(tape, weight) else None
        if kept is not None:
            tape.save(kept)
        tape.record_saving(_quantized_linear_backward, out, source, weight, kept)
    tape.drop(unpacked, source)
    if x.width == width:
        return out
    back = cast(tape, out, x.width)
    tape.drop(out)
    return back


def _keeps_input(tape: Tape, weight: Weight) -> bool:
    return tape.saves_quantized_inputs and weight.quantization in BITSANDBYTES_FOUR_BIT


def _keeps_unpacked(tape: Tape, weight: Weight) -> bool:
    return tape.saves_unpacked_weights and weight.quantization in UNPACKS_IN_PYTORCH


def unpacked_bytes(tape: Tape, weight: Weight) -> Bytes:
    """Return the bytes alive when a quantised weight is unpacked for a product, 0 where it is not quantised."""
    if weight.quantization is None:
        return 0
    copies = 2 if _keeps_input(tape, weight) else 1
    return weight.absmax_bytes + copies * weight.module.weight * tape.compute_width


def _unpack(tape: Tape, weight: Weight, width: int) -> Tensor:
    """Return the weight unpacked; bitsandbytes before 0.43.2 makes it in fp16 first, then in the compute format."""
    tape.allocate(weight.absmax_bytes, DEQUANTIZED)
    whole = weight.module.weight * width
    fp16 = whole if _keeps_input(tape, weight) else 0
    tape.allocate(fp16, DEQUANTIZED)
    unpacked = tape.new(weight.module.weight, width, requires_grad=False, category=DEQUANTIZED)
    tape.free(fp16 + weight.absmax_bytes, DEQUANTIZED)
    return unpacked


def _quantized_linear_backward(
    tape: Tape, out: Tensor, source: Tensor, weight: Weight, kept: Tensor | None
) -> None:
    gradient = tape.take(out)
    unpacked = _unpack(tape, weight, out.width) if kept is None else kept
    made = tape.new_gradient(source.size, is_view=True)
    tape.drop(unpacked)
    tape.release(gradient)
    tape.give(source, made)


def adapt(tape: Tape, x: Tensor, base: Tensor, weight: Weight) -> Tensor:
    """Return ``base`` plus the adapter's output: ``B(A(dropout(x)))`` times the scaling, as peft computes it.

    Without autocast the input is cast to the adapter's format and the sum back to the base's; under autocast each
    product casts for itself.
    """
    adapter = weight.adapter
    if adapter is None:
        return base
    width = base.width
    copied = None
    if weight.quantization is not None:
        copied = scale(tape, base)  # peft's bnb layers clone the result
        tape.drop(base)
        base = copied
    source = x if tape.autocast and weight.quantization is not None else None
    if source is None:
        source = cast(tape, x, adapter.a.width)
    else:
        tape.hold(source)
    dropped = dropout(tape, source, adapter.dropout)
    low = _base_linear(tape, dropped, adapter.a, transposed_gradient=False)
    if not adapter.has_magnitude:
        tape.drop(dropped)
    high = _base_linear(tape, low, adapter.b, transposed_gradient=False)
    tape.drop(low)
    if adapter.has_magnitude:
        scaled = _dora(tape, dropped, base, high, weight)
        tape.drop(dropped)
    else:
        scaled = scale(tape, high)
    tape.drop(high)
    total = add(tape, base, scaled)
    tape.drop(scaled, base, source)
    out = cast(tape, total, width)
    tape.drop(total)
    return out


def _dora(tape: Tape, x: Tensor, base: Tensor, high: Tensor, weight: Weight) -> Tensor:
    """Return DoRA's share: base and adapter output, each times the magnitude over the norm of the merged weight.

    The norm of the merged weight leaves no graph. With dropout, the base runs once more on what dropout left.
    Source: peft ``lora/dora.py``.
    """
    adapter = weight.adapter
    if adapter is None:
        return high
    tape.spike(_norm_bytes(tape, x.width, weight))
    if tape.recording:
        tape.record(_keep_magnitude_gradient, adapter)
    again = base
    if adapter.dropout == 0.0:
        tape.hold(again)
    else:
        again = _base_again(tape, x, weight)
    base_part = _times_vector(tape, again)
    tape.drop(again)
    weighted = _times_vector(tape, high)
    adapter_part = scale(tape, weighted)
    tape.drop(weighted)
    total = add(tape, base_part, adapter_part)
    tape.drop(base_part, adapter_part)
    return total


def _norm_bytes(tape: Tape, width: int, weight: Weight) -> Bytes:
    """Return what the norm of the merged weight needs for a moment.

    An identity matrix goes through the adapter; then the weight in the input's format, the product, the product times
    the scaling and the sum of both are there at once.
    """
    low = tape.compute_width if tape.autocast else width
    identity = weight.in_features**2
    cast_identity = identity * low if low != width else 0
    own = weight.elements * width if weight.width != width else 0
    wide = weight.elements * max(width, low)
    merging = own + 2 * weight.elements * low + wide
    return identity * width + max(cast_identity + weight.elements * low, merging)


def _base_again(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return the base layer's output once more; autocast's copy of the weight, put into fp32 for it, is kept."""
    out = _base_linear(tape, x, weight, transposed_gradient=False)
    if tape.autocast and x.width != tape.compute_width:
        copied = tape.new(weight.elements, tape.compute_width, requires_grad=False)
        keep_with(tape, out, copied)
        tape.drop(copied)
    return out


def _keep_magnitude_gradient(tape: Tape, adapter: Adapter) -> None:
    size = adapter.magnitude_elements * adapter.a.width
    tape.allocate(size)
    tape.keep_parameter_gradient(size)


def _times_vector(tape: Tape, x: Tensor) -> Tensor:
    """Return ``x`` times a vector that trains, for whose gradient ``x`` is saved."""
    out = tape.new(x.elements, x.width, requires_grad=True)
    if out.requires_grad:
        tape.save(x)
        tape.record_saving(_times_vector_backward, out, x)
    return out


def _times_vector_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(x.size) if x.requires_grad else None
    tape.spike(x.size)  # the vector's gradient before it is summed
    tape.release(gradient)
    tape.drop(x)
    if made is not None:
        tape.give(x, made)
