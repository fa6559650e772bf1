"""The operations a block is written with: what each allocates, saves and needs in backward.

Each function mirrors one framework operation (or one kernel) and was read off exact traces; see ``tape``. Elements
and sizes may be arrays. Nothing here knows a model.
"""

from vramgate.costmodel.tape import CAST, DEQUANTIZED, Gradient, Tape, Tensor
from vramgate.costmodel.weights import Adapter, Weight
from vramgate.units import Bytes, Count

FP32 = 4
BF16 = 2
MASK = 1
"""Bytes of a boolean, as dropout keeps its mask."""


# -- element-wise ------------------------------------------------------------------------------------------------


def cast(tape: Tape, x: Tensor, width: int) -> Tensor:
    """Return ``x`` in a number format of ``width`` bytes; ``x`` itself (held once more) where it has it already."""
    if x.width == width:
        tape.hold(x)
        return x
    out = tape.new(x.elements, width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.record(_cast_backward, out, x)
    return out


def _cast_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(x.size)
    tape.release(gradient)
    tape.give(x, made)


def add(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a + b`` in the wider format; the gradient passes on unchanged, cast for the narrower side."""
    width = max(a.width, b.width)
    out = tape.new(a.elements, width, requires_grad=a.requires_grad or b.requires_grad)
    if out.requires_grad:
        tape.record(_add_backward, out, a, b)
    return out


def _add_backward(tape: Tape, out: Tensor, a: Tensor, b: Tensor) -> None:
    gradient = tape.take(out)
    for side in (a, b):
        if not side.requires_grad:
            continue
        if side.width == out.width:
            gradient.owners += 1
            tape.give(side, gradient)
        else:
            tape.give(side, tape.new_gradient(side.size))
    tape.release(gradient)


def scale(tape: Tape, x: Tensor) -> Tensor:
    """Return ``x`` times a number; nothing is saved."""
    out = tape.new(x.elements, x.width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.record(_cast_backward, out, x)
    return out


def multiply(tape: Tape, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a * b`` of two tensors of one shape; each side is saved for the other's gradient."""
    width = max(a.width, b.width)
    tape.reach()
    out = tape.new(a.elements, width, requires_grad=a.requires_grad or b.requires_grad)
    if out.requires_grad:
        if a.requires_grad:
            tape.save(b)
        if b.requires_grad:
            tape.save(a)
        tape.record_saving(_multiply_backward, out, a, b)
    return out


def _multiply_backward(tape: Tape, out: Tensor, a: Tensor, b: Tensor) -> None:
    gradient = tape.take(out)
    made = []
    for side in (b, a):
        if side.requires_grad:
            if side.width != out.width:
                tape.allocate(out.size)
            made.append((side, tape.new_gradient(side.elements * side.width)))
            if side.width != out.width:
                tape.free(out.size)
    tape.release(gradient)
    if a.requires_grad:
        tape.drop(b)
    if b.requires_grad:
        tape.drop(a)
    for side, side_gradient in made:
        tape.give(side, side_gradient)


def power(tape: Tape, x: Tensor) -> Tensor:
    """Return ``x`` to a whole power; it saves ``x``. Autocast runs it in fp32."""
    source = cast(tape, x, FP32 if tape.autocast else x.width)
    out = tape.new(source.elements, source.width, requires_grad=source.requires_grad)
    if out.requires_grad:
        tape.save(source)
        tape.record_saving(_power_backward, out, source)
    tape.drop(source)
    return out


def _power_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    tape.allocate(2 * x.size)  # the lower power, and that times the exponent
    made = tape.new_gradient(x.size)
    tape.free(2 * x.size)
    tape.release(gradient)
    tape.drop(x)
    tape.give(x, made)


def batched_product(
    tape: Tape,
    a: Tensor,
    b: Tensor,
    elements: Count,
) -> Tensor:
    """Return a batched matrix product of two activations; each is saved for the other's gradient."""
    width = tape.compute_width if tape.autocast else max(a.width, b.width)
    left, right = cast(tape, a, width), cast(tape, b, width)
    tape.reach()
    out = tape.new(elements, width, requires_grad=left.requires_grad or right.requires_grad)
    if out.requires_grad:
        if left.requires_grad:
            tape.save(right)
        if right.requires_grad:
            tape.save(left)
        tape.record_saving(_batched_product_backward, out, left, right)
    tape.drop(left, right)
    return out


def _batched_product_backward(tape: Tape, out: Tensor, a: Tensor, b: Tensor) -> None:
    gradient = tape.take(out)
    made = [
        (side, tape.new_gradient(side.elements * side.width, is_view=True))
        for side in (b, a)
        if side.requires_grad
    ]
    tape.release(gradient)
    if a.requires_grad:
        tape.drop(b)
    if b.requires_grad:
        tape.drop(a)
    for side, side_gradient in made:
        tape.give(side, side_gradient)


def copy(tape: Tape, x: Tensor) -> Tensor:
    """Return a contiguous copy of ``x``; the gradient comes back as a view."""
    out = tape.new(x.elements, x.width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.record(_pass_backward, out, x)
    return out


def _pass_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    tape.give(x, tape.take(out))


def activation(tape: Tape, x: Tensor, *, saves_output: bool = False) -> Tensor:
    """Return a fused activation of ``x`` (SiLU, GELU); it saves its input, or its output (ReLU, tanh, sigmoid)."""
    tape.reach()
    out = tape.new(x.elements, x.width, requires_grad=x.requires_grad)
    if out.requires_grad:
        kept = out if saves_output else x
        tape.save(kept)
        tape.record_saving(_saved_unary_backward, out, x, kept)
    return out


def _saved_unary_backward(tape: Tape, out: Tensor, x: Tensor, kept: Tensor) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(x.size)
    tape.release(gradient)
    tape.drop(kept)
    tape.give(x, made)


def fused_gate(tape: Tape, gate: Tensor, up: Tensor) -> Tensor:
    """Return ``act(gate) * up`` by a fused kernel (Liger): it keeps the two inputs and overwrites them in backward."""
    out = tape.new(gate.elements, gate.width, requires_grad=gate.requires_grad or up.requires_grad)
    if out.requires_grad:
        tape.save(gate)
        tape.save(up)
        tape.record_saving(_fused_gate_backward, out, gate, up)
    return out


def _fused_gate_backward(tape: Tape, out: Tensor, gate: Tensor, up: Tensor) -> None:
    gradient = tape.take(out)
    tape.release(gradient)
    for side in (up, gate):  # the saved input becomes its gradient: no byte more or less
        tape.drop(side)
        if side.requires_grad:
            tape.give(side, tape.new_gradient(side.size))


def bloom_gelu(tape: Tape, x: Tensor) -> Tensor:
    """Return BLOOM's GELU, an autograd function in Python: it saves its input and does the rest in temporaries."""
    tape.spike(4 * x.size)
    out = tape.new(x.elements, x.width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.save(x)
        tape.record_saving(_bloom_gelu_backward, out, x)
    return out


def _bloom_gelu_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    tape.spike(5 * x.size)
    made = tape.new_gradient(x.size)
    tape.release(gradient)
    tape.drop(x)
    tape.give(x, made)


def dropout(tape: Tape, x: Tensor, probability: float) -> Tensor:
    """Return ``x`` with dropout: a new tensor and a one-byte mask; the tensor itself where the probability is 0."""
    if probability == 0.0:
        tape.hold(x)
        return x
    out = tape.new(x.elements, x.width, requires_grad=x.requires_grad)
    mask = tape.new(x.elements, MASK, requires_grad=False)
    tape.reach()
    if out.requires_grad:
        tape.save(mask)
        tape.record_saving(_saved_unary_backward, out, x, mask)
    tape.drop(mask)
    return out


def keep_with(tape: Tape, kept: Tensor, *others: Tensor) -> None:
    """Keep ``others`` for backward because ``kept`` is a view of the storage they are in."""
    if kept.requires_grad or any(other.requires_grad for other in others):
        for other in others:
            tape.save(other)
        tape.record(_let_go, *others)


def _let_go(tape: Tape, *others: Tensor) -> None:
    tape.drop(*others)


# -- views ------------------------------------------------------------------------------------------------------


def split(tape: Tape, x: Tensor, sizes: tuple[Count, ...]) -> list[Tensor]:
    """Return views of ``x`` of ``sizes`` elements; saving one saves all of ``x``, their gradients are put together."""
    views = [tape.view(x, size) for size in sizes]
    if x.requires_grad:
        tape.record(_split_backward, x, views)
    return views


def _split_backward(tape: Tape, x: Tensor, views: list[Tensor]) -> None:
    made = tape.new_gradient(x.elements * x.width)
    for view in views:
        if view.gradient is not None:
            tape.release(tape.take(view))
    tape.give(x, made)


def concatenate(tape: Tape, *parts: Tensor) -> Tensor:
    """Return ``parts`` in one tensor; their gradients are views of its gradient."""
    elements = sum(part.elements for part in parts)
    out = tape.new(
        elements,
        max(part.width for part in parts),
        requires_grad=any(part.requires_grad for part in parts),
    )
    if out.requires_grad:
        tape.record(_concatenate_backward, out, parts)
    return out


def _concatenate_backward(tape: Tape, out: Tensor, parts: tuple[Tensor, ...]) -> None:
    gradient = tape.take(out)
    for part in parts:
        if part.requires_grad:
            gradient.owners += 1
            tape.give(part, gradient)
    tape.release(gradient)


# -- sequence parallelism -----------------------------------------------------------------------------------------


def gather_sequence(tape: Tape, x: Tensor, ranks: Count, *, keeps_shard: bool) -> Tensor:
    """Return the whole sequence put together from the ranks of a tensor-parallel group.

    ``keeps_shard``: what a product saves of it is the rank's shard, gathered again in backward (Megatron).
    """
    out = tape.new(x.elements * ranks, x.width, requires_grad=x.requires_grad)
    if keeps_shard:
        out.shard = x
    if out.requires_grad:
        tape.record(_cast_backward, out, x)
    return out


def scatter_sequence(tape: Tape, x: Tensor, ranks: Count) -> Tensor:
    """Return the rank's shard of a sum over the group (reduce-scatter)."""
    out = tape.new(x.elements // ranks, x.width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.record(_cast_backward, out, x)
    return out


# -- matrix products with a weight --------------------------------------------------------------------------------


def cast_weight(tape: Tape, weight: Weight, width: int) -> Tensor:
    """Return autocast's copy of a weight: cached until autocast ends where the weight trains, made anew where not."""
    cached = tape.casts.get(id(weight))
    if cached is not None:
        tape.hold(cached)
        return cached
    out = tape.new(weight.elements, width, requires_grad=weight.trainable, category=CAST)
    if weight.trainable:
        tape.casts[id(weight)] = out
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
    if source.requires_grad and weight.has_bias:  # addmm makes the input's gradient first, mm the weight's
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

    The input is not saved (bitsandbytes ``MatMul4Bit``; AutoGPTQ's Triton kernel unpacks likewise).
    """
    width = tape.compute_width
    source = cast(tape, x, width)
    if tape.saves_quantized_inputs:
        keep_with(tape, source, source)
        tape.quantized_inputs[id(source)] = source.size
    _dequantize(tape, weight, width)
    rows = x.elements // weight.in_features
    tape.reach()
    out = tape.new(rows * weight.out_features, width, requires_grad=x.requires_grad)
    tape.free(weight.module.weight * width, DEQUANTIZED)
    if out.requires_grad:
        tape.record_saving(_quantized_linear_backward, out, source, weight)
    tape.drop(source)
    if x.width == width:
        return out
    back = cast(tape, out, x.width)
    tape.drop(out)
    return back


def unpacked_bytes(tape: Tape, weight: Weight) -> Bytes:
    """Return the bytes alive when a quantised weight is unpacked for a product, 0 where it is not quantised."""
    if weight.quantization is None:
        return 0
    copies = 2 if tape.saves_quantized_inputs else 1
    return weight.absmax_bytes + copies * weight.module.weight * tape.compute_width


def _dequantize(tape: Tape, weight: Weight, width: int) -> None:
    """Unpack the weight for a product; before bitsandbytes 0.43.2 to fp16 first, then to the compute format."""
    tape.allocate(weight.absmax_bytes, DEQUANTIZED)
    whole = weight.module.weight * width
    if tape.saves_quantized_inputs:
        tape.allocate(whole, DEQUANTIZED)
    tape.allocate(whole, DEQUANTIZED)
    if tape.saves_quantized_inputs:
        tape.free(whole, DEQUANTIZED)
    tape.free(weight.absmax_bytes, DEQUANTIZED)


def _quantized_linear_backward(tape: Tape, out: Tensor, source: Tensor, weight: Weight) -> None:
    gradient = tape.take(out)
    _dequantize(tape, weight, out.width)
    made = tape.new_gradient(source.size, is_view=True)
    tape.free(weight.module.weight * out.width, DEQUANTIZED)
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

    The norm takes an identity matrix through the adapter, and the merged weight, three times its size at its worst; no
    graph is kept. With dropout, the base runs once more on what dropout left. Source: peft ``lora/dora.py``.
    """
    adapter = weight.adapter
    if adapter is None:
        return high
    width = x.width
    merged = weight.elements * width
    tape.spike(weight.in_features**2 * width + 3 * merged)
    if tape.recording:
        tape.record(_keep_magnitude_gradient, adapter)
    again = base
    if adapter.dropout == 0.0:
        tape.hold(again)
    else:
        again = _base_linear(tape, x, weight, transposed_gradient=False)
    base_part = _times_vector(tape, again)
    tape.drop(again)
    weighted = _times_vector(tape, high)
    adapter_part = scale(tape, weighted)
    tape.drop(weighted)
    total = add(tape, base_part, adapter_part)
    tape.drop(base_part, adapter_part)
    return total


def _keep_magnitude_gradient(tape: Tape, adapter: Adapter) -> None:
    size = adapter.magnitude_elements * adapter.a.width
    tape.allocate(size)
    tape.keep_parameter_gradient(size)


def _times_vector(tape: Tape, x: Tensor) -> Tensor:
    """Return ``x`` times a vector that trains, for whose gradient ``x`` is saved."""
    out = tape.new(x.elements, x.width, requires_grad=True)
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


# -- norms --------------------------------------------------------------------------------------------------------


def rms_norm(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` through an RMSNorm written in Python, as the model code of Llama and its kin has it.

    Kept: the input in fp32, the inverse root mean square, and (where the norm's weight trains) the normalised input.
    """
    rows = x.elements // weight.in_features
    wide = cast(tape, x, FP32)
    tape.spike(wide.size)  # the square
    inverse = tape.new(rows, FP32, requires_grad=False)
    normalised = tape.new(x.elements, FP32, requires_grad=False)
    narrow = normalised
    if x.width != FP32:
        narrow = tape.new(x.elements, x.width, requires_grad=False)
    requires_grad = x.requires_grad or weight.trainable
    out = tape.new(
        x.elements, max(narrow.width, weight.width), requires_grad=requires_grad
    )
    tape.reach()
    if out.requires_grad:
        if wide.requires_grad:
            tape.save(wide)
            tape.save(inverse)
        if weight.trainable:
            tape.save(narrow)
        tape.record_saving(_rms_norm_backward, out, wide, inverse, narrow, weight)
    if narrow is not normalised:
        tape.drop(normalised)
    tape.drop(narrow, inverse, wide)
    return out


def _rms_norm_backward(
    tape: Tape, out: Tensor, wide: Tensor, inverse: Tensor, narrow: Tensor, weight: Weight
) -> None:
    gradient = tape.take(out)
    inner = narrow.size
    if weight.trainable:
        tape.allocate(out.size)
    if wide.requires_grad:
        tape.allocate(out.size)
        if out.width != narrow.width:
            tape.allocate(inner)
            tape.free(out.size)
    if weight.trainable:
        _keep_vector_gradient(tape, weight)
        tape.free(out.size)
        tape.drop(narrow)
    tape.release(gradient)
    if not wide.requires_grad:
        return
    if narrow.width != FP32:
        tape.allocate(wide.size)
        tape.free(inner)
    _normalise_backward(tape, wide, inverse)


def _keep_vector_gradient(tape: Tape, weight: Weight) -> None:
    size = weight.elements * weight.width
    tape.allocate(size)
    tape.keep_parameter_gradient(size)


def _normalise_backward(tape: Tape, wide: Tensor, inverse: Tensor) -> None:
    """Run ``x * rsqrt(mean(x**2))`` backward in fp32; one gradient of the output is alive when it starts.

    The powers of the chain rule are separate kernels: five tensors of the input's size are alive at its worst.
    """
    size = wide.size
    direct = tape.new_gradient(size)  # gradient * inverse
    tape.allocate(size)  # gradient * x, summed to a column
    tape.free(2 * size)
    tape.give(wide, direct)
    tape.drop(inverse)
    tape.allocate(size)  # the mean's gradient, spread over the row
    tape.allocate(size)  # x to the power of one
    tape.allocate(size)  # times two
    through_mean = tape.new_gradient(size)
    tape.free(3 * size)
    tape.drop(wide)
    tape.give(wide, through_mean)


def rms_norm_plus_one(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` through Gemma's RMSNorm: fp32 all through, multiplied by one plus the weight, then cast back."""
    rows = x.elements // weight.in_features
    wide = cast(tape, x, FP32)
    tape.spike(wide.size)
    inverse = tape.new(rows, FP32, requires_grad=False)
    normalised = tape.new(x.elements, FP32, requires_grad=False)
    factor = tape.new(weight.elements, FP32, requires_grad=False)
    scaled = tape.new(x.elements, FP32, requires_grad=x.requires_grad or weight.trainable)
    tape.reach()
    if scaled.requires_grad:
        if wide.requires_grad:
            tape.save(wide)
            tape.save(inverse)
            tape.save(factor)
        if weight.trainable:
            tape.save(normalised)
        tape.record_saving(_rms_norm_plus_one_backward, scaled, wide, inverse, normalised, factor, weight)
    tape.drop(normalised, inverse, factor, wide)
    out = cast(tape, scaled, x.width)
    tape.drop(scaled)
    return out


def _rms_norm_plus_one_backward(
    tape: Tape,
    scaled: Tensor,
    wide: Tensor,
    inverse: Tensor,
    normalised: Tensor,
    factor: Tensor,
    weight: Weight,
) -> None:
    gradient = tape.take(scaled)
    if wide.requires_grad:
        tape.allocate(scaled.size)
    if weight.trainable:
        tape.spike(scaled.size)
        _keep_vector_gradient(tape, weight)
        tape.drop(normalised)
    tape.release(gradient)
    if wide.requires_grad:
        tape.drop(factor)
        _normalise_backward(tape, wide, inverse)


def fused_rms_norm(tape: Tape, x: Tensor, weight: Weight, *, in_place: bool) -> Tensor:
    """Return ``x`` through a fused RMSNorm kernel (Liger): it keeps its input as it is and one number a row.

    ``in_place``: the gradient of the output is overwritten with the input's.
    """
    rows = x.elements // weight.in_features
    out = tape.new(x.elements, x.width, requires_grad=x.requires_grad or weight.trainable)
    inverse = tape.new(rows, FP32, requires_grad=False)
    tape.reach()
    if out.requires_grad:
        tape.save(x)
        tape.save(inverse)
        tape.record_saving(_fused_rms_norm_backward, out, x, inverse, weight, in_place)
    tape.drop(inverse)
    return out


def _fused_rms_norm_backward(
    tape: Tape,
    out: Tensor,
    x: Tensor,
    inverse: Tensor,
    weight: Weight,
    in_place: bool,  # noqa: FBT001
) -> None:
    gradient = tape.take(out)
    if weight.trainable:
        _keep_vector_gradient(tape, weight)
    if in_place and gradient.owners == 1:
        made = gradient
    else:
        made = tape.new_gradient(x.size)
        tape.release(gradient)
    tape.drop(x, inverse)
    if x.requires_grad:
        tape.give(x, made)
    else:
        tape.release(made)


def layer_norm(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` through LayerNorm: it keeps its input, the mean and the inverse deviation (fp32, one of each a row).

    Autocast runs it in fp32.
    """
    source = cast(tape, x, FP32 if tape.autocast else x.width)
    out = layer_norm_kernel(tape, source, weight)
    tape.drop(source)
    return out


def layer_norm_kernel(tape: Tape, source: Tensor, weight: Weight) -> Tensor:
    """Return PyTorch's LayerNorm of ``source`` in its own format; a weight of no elements has no gradient."""
    rows = source.elements // weight.in_features
    out = tape.new(
        source.elements, source.width, requires_grad=source.requires_grad or weight.trainable
    )
    statistics = tape.new(2 * rows, FP32, requires_grad=False)
    tape.reach()
    if out.requires_grad:
        tape.save(source)
        tape.save(statistics)
        tape.record_saving(_layer_norm_backward, out, source, statistics, weight)
    tape.drop(statistics)
    return out


def _layer_norm_backward(
    tape: Tape, out: Tensor, source: Tensor, statistics: Tensor, weight: Weight
) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(source.size) if source.requires_grad else None
    if weight.trainable:
        size = weight.parameters * weight.width
        tape.allocate(size)
        tape.keep_parameter_gradient(size)
    tape.release(gradient)
    tape.drop(source, statistics)
    if made is not None:
        tape.give(source, made)


def vector_gradient(tape: Tape, weight: Weight | None) -> None:
    """Let a small parameter that trains (a scale, a sink, a bias) leave its gradient when backward comes here."""
    if weight is not None and weight.trainable and tape.recording:
        tape.record(_keep_whole_gradient, weight)


def _keep_whole_gradient(tape: Tape, weight: Weight) -> None:
    size = weight.parameters * weight.width
    tape.allocate(size)
    tape.keep_parameter_gradient(size)
