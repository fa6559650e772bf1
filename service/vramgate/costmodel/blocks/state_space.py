"""State-space, linear-attention, recurrent and convolutional mixers: a stated approximation of what they keep.

The projections in and out, and the convolution of LFM2, are exact. Between them stands one kernel that keeps its
inputs and the tensors listed in ``KEPT_PER_TOKEN``; backward makes the gradients of its inputs, and one tensor of
the inner width more. Sources, by name: mamba_ssm 2.2 ``MambaInnerFn`` (checkpoint level 1) and
``MambaSplitConv1dScanCombinedFn``; flash-linear-attention 0.3 ``ChunkGatedDeltaRuleFunction`` with its causal
convolution; transformers 5.24 ``MiniMaxLightningAttention``, ``RwkvSelfAttention`` (its CUDA kernel) and
``RecurrentGemmaRglru``. Without these kernels the Python scans of transformers keep every step's state: for Mamba
about 14 × inner_size × state_size bytes a token (traced), which is not modelled.
"""

from vramgate.costmodel.architecture import Attention, AttentionKind
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.norm_operations import vector_gradient
from vramgate.costmodel.operations import FP32, multiply, split
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Count

Weights = dict[str, Weight]

INPUT_ROLES = ("mixer_in", "query", "key", "value", "qkv", "output_gate")
"""Projections from the stream that a mixer reads, each perhaps several times."""
OUTPUT_ROLES = ("mixer_out", "attention_output")
INNER_PARAMETERS = ("mixer_conv", "mixer_parameter", "mixer_norm", "mixer_x", "mixer_dt")
"""Weights inside the kernel: their gradients come when it runs backward."""
LINEAR_CHUNK = 64
"""Tokens of a chunk of the gated delta rule, whose matrix per head is kept."""
KEPT_INNER = {
    AttentionKind.STATE_SPACE: 2,
    AttentionKind.LINEAR: 5,
    AttentionKind.RECURRENT: 6,
}
"""Tensors of the inner width kept beside the kernel's inputs.

State space: the scan's output and the gated norm's input. Linear: convolved queries, keys and values, output and its
norm's input. Recurrent: the gates and the state of every token, half of them in fp32."""


def is_sequence_mixer(shape: Attention) -> bool:
    """Return whether a mixer is none of the attentions."""
    return shape.kind in KEPT_INNER or shape.kind is AttentionKind.CONVOLUTION


def state_space_mixer(
    tape: Tape, setting: Setting, shape: Attention, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return the mixer's output after its projection; ``hidden`` stays the caller's."""
    if shape.kind is AttentionKind.CONVOLUTION:
        inner = _short_convolution(tape, weights, hidden)
    else:
        inner = _scan(tape, setting, shape, weights, hidden)
    output = next(weights[role] for role in OUTPUT_ROLES if role in weights)
    out = linear(tape, inner, output)
    tape.drop(inner)
    return out


def _short_convolution(tape: Tape, weights: Weights, hidden: Tensor) -> Tensor:
    """Return LFM2's mix: ``C * conv(B * x)``, the three from one projection."""
    both = linear(tape, hidden, weights["mixer_in"])
    third = both.elements // 3
    before, after, x = split(tape, both, (third, third, third))
    tape.drop(both)
    gated = multiply(tape, before, x)
    convolved = _kernel(tape, [gated], 0 * third, third, _parameters(weights))
    tape.drop(gated)
    out = multiply(tape, after, convolved)
    tape.drop(before, after, x, convolved)
    return out


def _scan(
    tape: Tape, setting: Setting, shape: Attention, weights: Weights, hidden: Tensor
) -> Tensor:
    inputs = [
        linear(tape, hidden, weight)
        for role, weight in weights.items()
        if role.split("#")[0] in INPUT_ROLES
    ]
    tokens = setting.tokens
    inner = tokens * shape.inner_size
    kept = KEPT_INNER.get(shape.kind, 1) * inner + tokens * _narrow_width(shape, weights)
    out = _kernel(tape, inputs, kept, inner, _parameters(weights))
    tape.drop(*inputs)
    return out


def _narrow_width(shape: Attention, weights: Weights) -> Count:
    """Return numbers a token kept beside those of the inner width: Mamba's dt, B and C; a chunk's matrix per head."""
    if shape.kind is AttentionKind.LINEAR:
        return shape.heads * LINEAR_CHUNK
    narrow = weights.get("mixer_x")
    return 0 if narrow is None else narrow.out_features


def _parameters(weights: Weights) -> list[Weight]:
    return [w for role, w in weights.items() if role.split("#")[0] in INNER_PARAMETERS]


def _kernel(
    tape: Tape, inputs: list[Tensor], kept: Count, out_elements: Count, parameters: list[Weight]
) -> Tensor:
    """Return the output of one kernel that keeps ``inputs`` and ``kept`` numbers more."""
    trains = any(weight.trainable for weight in parameters)
    requires_grad = trains or any(x.requires_grad for x in inputs)
    width = inputs[0].width
    for parameter in parameters:
        vector_gradient(tape, parameter)
    more = tape.new(kept, width, requires_grad=False)
    out = tape.new(out_elements, width, requires_grad=requires_grad)
    tape.reach()
    if out.requires_grad:
        for x in (*inputs, more):
            tape.save(x)
        tape.record_saving(_kernel_backward, out, inputs, more)
    tape.drop(more)
    return out


def _kernel_backward(tape: Tape, out: Tensor, inputs: list[Tensor], more: Tensor) -> None:
    gradient = tape.take(out)
    tape.spike(out.elements * FP32)
    made = [tape.new_gradient(x.elements * x.width) for x in inputs]
    tape.release(gradient)
    tape.drop(*inputs, more)
    for x, x_gradient in zip(inputs, made, strict=True):
        if x.requires_grad:
            tape.give(x, x_gradient)
        else:
            tape.release(x_gradient)
