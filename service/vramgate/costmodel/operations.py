"""The operations a block is written with: what each allocates, saves and needs in backward.

Each function mirrors one framework operation (or one kernel) and was read off exact traces; see ``tape``. Elements
and sizes may be arrays. Nothing here knows a model.
"""

from vramgate.costmodel.tape import Tape, Tensor
from vramgate.units import Count

FP32 = 4
BF16 = 2
MASK = 1
"""Bytes of a boolean, as dropout keeps its mask."""


# -- element-wise ------------------------------------------------------------------------------------------------


def computed(tape: Tape, x: Tensor, elements: Count, width: int) -> Tensor:
    """Return a tensor that one kernel makes of ``x`` and saves nothing for; so does its backward."""
    out = tape.new(elements, width, requires_grad=x.requires_grad)
    if out.requires_grad:
        tape.record(_computed_backward, out, x)
    return out


def _computed_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    made = tape.new_gradient(x.size)
    tape.release(gradient)
    tape.give(x, made)


def cast(tape: Tape, x: Tensor, width: int) -> Tensor:
    """Return ``x`` in a number format of ``width`` bytes; ``x`` itself (held once more) where it has it already."""
    if x.width == width:
        tape.hold(x)
        return x
    return computed(tape, x, x.elements, width)


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
    return computed(tape, x, x.elements, x.width)


def soft_cap(tape: Tape, x: Tensor) -> Tensor:
    """Return ``tanh(x / cap) * cap``: the tanh keeps its output; ``x`` is let go."""
    divided = scale(tape, x)
    tape.drop(x)
    capped = activation(tape, divided, saves_output=True)
    tape.drop(divided)
    out = scale(tape, capped)
    tape.drop(capped)
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
    out = computed(tape, x, x.elements * ranks, x.width)
    if keeps_shard:
        out.shard = x
    return out


def scatter_sequence(tape: Tape, x: Tensor, ranks: Count) -> Tensor:
    """Return the rank's shard of a sum over the group (reduce-scatter)."""
    return computed(tape, x, x.elements // ranks, x.width)
