"""One block's feed-forward: gated (SwiGLU, GeGLU) or two linear layers around an activation."""

from vramgate.costmodel.architecture import FeedForward
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.operations import (
    FP32,
    MASK,
    activation,
    add,
    bloom_gelu,
    cast,
    copy,
    dropout,
    fused_gate,
    keep_with,
    multiply,
    power,
    scale,
    split,
)
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight

SAVES_OUTPUT = frozenset({"relu", "tanh", "sigmoid"})
TANH_IN_PYTHON = frozenset({"gelu_new", "gelu_fast"})
"""Activations written as a chain of operations around a tanh."""
OWN_MODELS = frozenset({"litgpt", "torchtitan", "torchtune", "megatron", "composer"})
"""Frameworks with models of their own: one kernel an activation."""
ONE_KERNEL = "gelu"
SQUARED = frozenset({"relu2", "squared_relu"})


def feed_forward(
    tape: Tape, setting: Setting, shape: FeedForward, weights: dict[str, Weight], hidden: Tensor
) -> Tensor:
    """Return the feed-forward's output; ``hidden`` stays the caller's."""
    if not shape.gated:
        inner = linear(tape, hidden, weights["up"])
        activated = activate(tape, activation_code(setting, shape.activation), inner)
        tape.drop(inner)
    else:
        activated = _gated(tape, setting, shape, weights, hidden)
    dropped = dropout(tape, activated, shape.dropout)
    tape.drop(activated)
    out = linear(tape, dropped, weights["down"])
    tape.drop(dropped)
    return out


def _gated(
    tape: Tape, setting: Setting, shape: FeedForward, weights: dict[str, Weight], hidden: Tensor
) -> Tensor:
    fused = "swiglu" in setting.fused_kernels
    if "gate_up" in weights:
        both = linear(tape, hidden, weights["gate_up"])
        half = both.elements // 2
        gate, up = split(tape, both, (half, half))
        tape.drop(both)
        activated = activate(tape, activation_code(setting, shape.activation), gate)
    else:
        gate = linear(tape, hidden, weights["gate"])
        activated = (
            gate if fused else activate(tape, activation_code(setting, shape.activation), gate)
        )
        up = linear(tape, hidden, weights["up"])
    if fused and activated is gate:
        out = fused_gate(tape, gate, up)
        tape.drop(gate, up)
        return out
    out = multiply(tape, activated, up)
    tape.drop(activated, up, gate)
    return out


def activation_code(setting: Setting, name: str) -> str:
    """Return which activation code runs: frameworks with models of their own call one kernel."""
    if setting.software.framework in OWN_MODELS and name not in SAVES_OUTPUT:
        return ONE_KERNEL
    return name


def activate(tape: Tape, name: str, x: Tensor) -> Tensor:
    """Return an activation of ``x`` by the name transformers' ``ACT2FN`` gives it."""
    if name in TANH_IN_PYTHON:
        return gelu_by_tanh(tape, x)
    if name == "bloom_gelu":
        return bloom_gelu(tape, x)
    if name in SQUARED:
        relu = activation(tape, x, saves_output=True)
        out = power(tape, relu)
        tape.drop(relu)
        return out
    if name == "xielu":
        return xielu(tape, x)
    if name == "quick_gelu":
        scaled = scale(tape, x)
        gate = activation(tape, scaled, saves_output=True)
        tape.drop(scaled)
        out = multiply(tape, x, gate)
        tape.drop(gate)
        return out
    return activation(tape, x, saves_output=name in SAVES_OUTPUT)


def xielu(tape: Tape, x: Tensor) -> Tensor:
    """Return Apertus's xIELU in single operations: a mask and three tensors of its size are kept beside ``x``.

    Autocast raises the exponential, and what follows it, to fp32. Read off an exact trace; backward is approximate.
    """
    width = FP32 if tape.autocast else x.width
    kept = [tape.new(x.elements, MASK, requires_grad=False)]
    kept += [tape.new(x.elements, width, requires_grad=False) for _ in range(3)]
    out = tape.new(x.elements, width, requires_grad=x.requires_grad)
    keep_with(tape, out, x, *kept)
    if out.requires_grad:
        tape.record(_xielu_backward, out, x)
    tape.drop(*kept)
    narrow = cast(tape, out, x.width)
    tape.drop(out)
    return narrow


def _xielu_backward(tape: Tape, out: Tensor, x: Tensor) -> None:
    gradient = tape.take(out)
    tape.spike(2 * out.size)
    made = tape.new_gradient(x.size)
    tape.release(gradient)
    tape.give(x, made)


def gelu_by_tanh(tape: Tape, x: Tensor) -> Tensor:
    """Return ``0.5 x (1 + tanh(c (x + 0.044715 x³)))`` in separate operations (``NewGELUActivation``).

    Autocast raises the cube, and with it the rest of the chain, to fp32.
    """
    half = scale(tape, x)
    cube = power(tape, x)
    scaled = scale(tape, cube)
    tape.drop(cube)
    inner = add(tape, x, scaled)
    tape.drop(scaled)
    argument = scale(tape, inner)
    tape.drop(inner)
    tanh = activation(tape, argument, saves_output=True)
    tape.drop(argument)
    one_plus = copy(tape, tanh)  # plus one: a new tensor, the gradient passes on
    tape.drop(tanh)
    out = multiply(tape, half, one_plus)
    tape.drop(half, one_plus)
    return out
