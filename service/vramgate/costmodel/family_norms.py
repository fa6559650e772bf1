"""Norms that single families write in Python, with what each keeps; the common ones are in ``operations``.

Source: the modeling files of transformers 5.24 named below, and exact traces of one model of each.
"""

from vramgate.costmodel.norm_operations import layer_norm_kernel
from vramgate.costmodel.operations import FP32, cast
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight


def rms_norm_fp32_product(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return OLMo 2's RMSNorm (gpt-oss's too): normalised and weighted in fp32, then cast back."""
    wide = cast(tape, x, FP32)
    tape.spike(wide.size)
    kept, normalised = _inverse(tape, wide, weight), _temporary(tape, wide)
    scaled = tape.new(x.elements, FP32, requires_grad=x.requires_grad or weight.trainable)
    tape.reach()
    if scaled.requires_grad:
        if weight.trainable:
            tape.save(normalised)
        if wide.requires_grad:
            tape.save(wide)
            tape.save(kept)
        tape.record_saving(_wide_norm_backward, scaled, (wide, kept), normalised, weight)
    tape.drop(normalised, kept, wide)
    out = cast(tape, scaled, x.width)
    tape.drop(scaled)
    return out


def python_layer_norm(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return Cohere's LayerNorm without bias: fp32, the centred input made twice and kept twice."""
    wide = cast(tape, x, FP32)
    first, second = _temporary(tape, wide), _temporary(tape, wide)
    tape.spike(wide.size)
    kept, normalised = _inverse(tape, wide, weight), _temporary(tape, wide)
    factor = tape.new(weight.elements, FP32, requires_grad=False)
    scaled = tape.new(x.elements, FP32, requires_grad=x.requires_grad or weight.trainable)
    tape.reach()
    if scaled.requires_grad:
        if weight.trainable:
            tape.save(normalised)
        saved: tuple[Tensor, ...] = ()
        if wide.requires_grad:
            saved = (first, second, kept, factor)
            for tensor in saved:
                tape.save(tensor)
        tape.record_saving(_python_layer_norm_backward, scaled, wide, saved, normalised, weight)
    tape.drop(first, second, normalised, kept, factor, wide)
    out = cast(tape, scaled, x.width)
    tape.drop(scaled)
    return out


def t5_norm(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return T5's RMSNorm: the mean square of an fp32 copy, which is kept, and the input times its root, kept too.

    The product is fp32 and cast to the weight's format where that is 16 bits wide.
    """
    wide = cast(tape, x, FP32)
    tape.spike(wide.size)
    kept, normalised = _inverse(tape, wide, weight), _temporary(tape, wide)
    narrow = cast(tape, normalised, min(weight.width, FP32))
    tape.drop(normalised)
    out = tape.new(x.elements, narrow.width, requires_grad=x.requires_grad or weight.trainable)
    tape.reach()
    if out.requires_grad:
        if weight.trainable:
            tape.save(narrow)
        saved: tuple[Tensor, ...] = ()
        if x.requires_grad:
            saved = (x, wide, kept)
            for tensor in saved:
                tape.save(tensor)
        tape.record_saving(_t5_norm_backward, out, x, wide, saved, narrow, weight)
    tape.drop(narrow, kept, wide)
    return out


def layer_norm_in_fp32(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return OLMo's LayerNorm: PyTorch's kernel on an fp32 copy, cast back."""
    wide = cast(tape, x, FP32)
    normed = layer_norm_kernel(tape, wide, weight)
    tape.drop(wide)
    out = cast(tape, normed, x.width)
    tape.drop(normed)
    return out


def layer_norm_in_compute(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return a LayerNorm that casts its input to autocast's format and leaves autocast."""
    source = cast(tape, x, tape.compute_width if tape.autocast else x.width)
    out = layer_norm_kernel(tape, source, weight)
    tape.drop(source)
    return out


def layer_norm_plus_one(tape: Tape, x: Tensor, weight: Weight) -> Tensor:
    """Return Nemotron's LayerNorm: in autocast's format, which PyTorch's own leaves; the weight plus one is kept."""
    width = tape.compute_width if tape.autocast else x.width
    source = cast(tape, x, width)
    factor = tape.new(weight.parameters, width, requires_grad=False)
    out = layer_norm_kernel(tape, source, weight)
    if out.requires_grad:
        tape.save(factor)
        tape.record_saving(_let_go, factor)
    tape.drop(source, factor)
    return out


def _let_go(tape: Tape, tensor: Tensor) -> None:
    tape.drop(tensor)


def _temporary(tape: Tape, like: Tensor) -> Tensor:
    return tape.new(like.elements, FP32, requires_grad=False)


def _inverse(tape: Tape, wide: Tensor, weight: Weight) -> Tensor:
    """Return one inverse root a row."""
    return tape.new(wide.elements // weight.in_features, FP32, requires_grad=False)


def _weight_gradient(tape: Tape, weight: Weight) -> None:
    size = weight.parameters * weight.width
    tape.allocate(size)
    tape.keep_parameter_gradient(size)


def _weighting_backward(
    tape: Tape, out: Tensor, normalised: Tensor, weight: Weight, *, needs_input: bool
) -> None:
    """Run ``normalised * weight`` backward; the input's side stays allocated, in the output's format."""
    gradient = tape.take(out)
    if needs_input:
        tape.allocate(out.size)
    if weight.trainable:
        tape.spike(out.size)
        _weight_gradient(tape, weight)
        tape.drop(normalised)
    tape.release(gradient)


def _wide_norm_backward(
    tape: Tape,
    scaled: Tensor,
    saved: tuple[Tensor, Tensor],
    normalised: Tensor,
    weight: Weight,
) -> None:
    wide, inverse = saved
    _weighting_backward(tape, scaled, normalised, weight, needs_input=wide.requires_grad)
    if wide.requires_grad:
        _through_mean(tape, wide, inverse)
        tape.drop(wide)


def _through_mean(tape: Tape, wide: Tensor, inverse: Tensor) -> None:
    """Run ``x * rsqrt(mean(x**2))`` backward: the direct way, then through the mean with five tensors alive."""
    size = wide.size
    direct = tape.new_gradient(size)
    tape.allocate(size)
    tape.free(2 * size)
    tape.give(wide, direct)
    tape.drop(inverse)
    tape.allocate(3 * size)
    through = tape.new_gradient(size)
    tape.free(3 * size)
    tape.give(wide, through)


def _python_layer_norm_backward(
    tape: Tape,
    scaled: Tensor,
    wide: Tensor,
    saved: tuple[Tensor, ...],
    normalised: Tensor,
    weight: Weight,
) -> None:
    _weighting_backward(tape, scaled, normalised, weight, needs_input=wide.requires_grad)
    if not wide.requires_grad:
        return
    first, second, inverse, factor = saved
    tape.drop(factor)
    size = wide.size
    direct = tape.new_gradient(size)  # through the second centring: passes on to the input
    tape.allocate(size)
    tape.free(2 * size)
    tape.drop(second, inverse)
    tape.give(wide, direct)
    tape.allocate(3 * size)
    through = tape.new_gradient(size)
    tape.free(3 * size)
    tape.drop(first)
    tape.spike(size)  # the mean's share, spread over the row
    tape.give(wide, through)


def _t5_norm_backward(
    tape: Tape,
    out: Tensor,
    x: Tensor,
    wide: Tensor,
    saved: tuple[Tensor, ...],
    narrow: Tensor,
    weight: Weight,
) -> None:
    _weighting_backward(tape, out, narrow, weight, needs_input=x.requires_grad)
    if not x.requires_grad:
        return
    _, kept_wide, inverse = saved
    size = wide.size
    if out.width != FP32:
        tape.allocate(size)
        tape.free(out.size)
    tape.allocate(2 * size)  # times the root, and times the input, summed to a column
    direct = tape.new_gradient(x.elements * x.width) if x.width != FP32 else None
    tape.drop(x, inverse)
    if direct is None:
        tape.free(2 * size)
        direct = tape.new_gradient(size)
        tape.free(size)
    else:
        tape.free(3 * size)
    tape.give(x, direct)
    tape.allocate(3 * size)
    through = tape.new_gradient(size)
    tape.free(3 * size)
    tape.drop(kept_wide)
    tape.give(wide, through)
