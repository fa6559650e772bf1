"""The norms of most families: RMSNorm in Python and fused, LayerNorm. Single families' own are in ``family_norms``.

Read off exact traces, like ``operations``.
"""

from vramgate.costmodel.operations import FP32, cast
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight


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
    out = tape.new(x.elements, max(narrow.width, weight.width), requires_grad=requires_grad)
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
        tape.record_saving(
            _rms_norm_plus_one_backward, scaled, wide, inverse, normalised, factor, weight
        )
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
