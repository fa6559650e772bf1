"""A mixture of experts: router, dispatch, the experts' products, and the sum that brings tokens back.

transformers 5 holds the experts of a layer as stacked parameters and multiplies them in one grouped product
(``grouped_mm``); transformers 4 holds a list of modules and runs them one by one (``blocks/listed_experts.py``).
Routing is taken as balanced: each expert gets tokens × experts_per_token / num_experts rows.
"""

from dataclasses import replace

from vramgate.costmodel.architecture import Block, Experts, FeedForward, NormKind
from vramgate.costmodel.blocks.feed_forward import activate, activation_code, feed_forward
from vramgate.costmodel.blocks.listed_experts import listed_experts
from vramgate.costmodel.blocks.norms import norm
from vramgate.costmodel.blocks.routing import (
    FP32_SCORES_IN_LISTS,
    KEEPS_FP32_SCORES,
    route,
)
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.dispatch import combine, grouped_product, pick, sum_of, weighted
from vramgate.costmodel.kernels import repeat_heads
from vramgate.costmodel.operations import FP32, activation, add, cast, copy, multiply, scale, split
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import STACKED_EXPERTS_SINCE, Adapter, Weight

Weights = dict[str, Weight]

STACKED_IN_EVERY_VERSION = frozenset(
    {
        "gpt_oss",
        "dbrx",
        "llama4",
        "llama4_text",
        "granitemoe",
        "granitemoehybrid",
        "granitemoeshared",
    }
)
"""Families whose experts were stacked parameters before transformers 5 too."""
SHARED_EXPERT_FIRST = frozenset(
    {"qwen2_moe", "qwen3_next", "qwen3_5_moe_text", "ernie4_5_moe", "llama4", "llama4_text"}
)
"""Families that run the shared expert before the routed ones."""
EVERY_TOKEN_TO_EVERY_EXPERT = frozenset({"llama4", "llama4_text"})
"""Families whose code sends every token to every expert, times a score that is zero for most."""
CLAMPED_GATE = frozenset({"gpt_oss"})
"""Families with the gate ``(up + 1) * gate * sigmoid(alpha * gate)`` of clamped halves, in single operations."""

SORTED_IDS = 12
"""Bytes of a row's expert id while experts run: int64 as sorted, int32 for the histogram."""


def mixture_of_experts(
    tape: Tape, setting: Setting, shape: Experts, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return the mixture's output; ``hidden`` stays the caller's."""
    if shape.shared is None:
        return _routed(tape, setting, shape, weights, hidden)
    if setting.model_type in SHARED_EXPERT_FIRST:
        shared = _shared(tape, setting, shape.shared, weights, hidden)
        routed = _routed(tape, setting, shape, weights, hidden)
    else:
        routed = _routed(tape, setting, shape, weights, hidden)
        shared = _shared(tape, setting, shape.shared, weights, hidden)
    gated = _gated_share(tape, weights, hidden, shared)
    out = add(tape, routed, gated)
    tape.drop(routed, gated)
    return out


def dense_and_experts(
    tape: Tape, setting: Setting, block: Block, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return Gemma 4's sum of a dense feed-forward and a mixture, each with norms of its own."""
    if block.feed_forward is None or block.experts is None:
        tape.hold(hidden)
        return hidden
    kind = block.norm
    dense = feed_forward(tape, setting, block.feed_forward, weights, hidden)
    dense = _normed(tape, setting, kind, weights.get("dense_post_norm"), dense)
    tape.hold(hidden)
    inputs = _normed(tape, setting, kind, weights.get("experts_pre_norm"), hidden)
    mixture = mixture_of_experts(tape, setting, block.experts, weights, inputs)
    tape.drop(inputs)
    mixture = _normed(tape, setting, kind, weights.get("experts_post_norm"), mixture)
    out = add(tape, dense, mixture)
    tape.drop(dense, mixture)
    return out


def _normed(
    tape: Tape, setting: Setting, kind: NormKind, weight: Weight | None, x: Tensor
) -> Tensor:
    """Return ``x`` normalised where there is a norm; ``x`` is let go."""
    if weight is None:
        return x
    out = norm(tape, setting, kind, x, weight)
    tape.drop(x)
    return out


def _shared(
    tape: Tape, setting: Setting, shape: FeedForward, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return the shared experts' output: a dense feed-forward of its own."""
    own = {
        role.removeprefix("shared_"): weight
        for role, weight in weights.items()
        if role.startswith("shared_")
    }
    return feed_forward(tape, setting, shape, own, hidden)


def _gated_share(tape: Tape, weights: Weights, hidden: Tensor, shared: Tensor) -> Tensor:
    """Return Qwen's shared output times a sigmoid of one number a token; ``shared`` is let go."""
    weight = weights.get("shared_gate_scalar")
    if weight is None:
        return shared
    logit = linear(tape, hidden, weight)
    gate = activation(tape, logit, saves_output=True)
    tape.drop(logit)
    out = weighted(tape, shared, gate)
    tape.drop(gate, shared)
    return out


def _routed(
    tape: Tape, setting: Setting, shape: Experts, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return what the routed experts make of each token, in the format of ``hidden``."""
    stacked = (
        setting.transformers >= STACKED_EXPERTS_SINCE
        or setting.model_type in STACKED_IN_EVERY_VERSION
    )
    if setting.model_type in EVERY_TOKEN_TO_EVERY_EXPERT:
        return _every_expert(tape, setting, shape, weights, hidden)
    scores = route(
        tape,
        setting,
        shape,
        weights["router"],
        hidden,
        fp32_scores=KEEPS_FP32_SCORES if stacked else FP32_SCORES_IN_LISTS,
    )
    inner = _narrowed(tape, weights.get("latent_in"), hidden)
    if stacked:
        made = _grouped_experts(tape, setting, shape, weights, inner, scores)
    else:
        made = listed_experts(tape, setting, shape, weights, inner, scores)
    tape.drop(inner)
    tape.leave_to_block(scores)
    out = _narrowed(tape, weights.get("latent_out"), made)
    tape.drop(made)
    return out


def _narrowed(tape: Tape, weight: Weight | None, x: Tensor) -> Tensor:
    """Return ``x`` through a projection around the experts (Nemotron's latent), where there is one."""
    if weight is None:
        tape.hold(x)
        return x
    return linear(tape, x, weight)


def _grouped_experts(
    tape: Tape,
    setting: Setting,
    shape: Experts,
    weights: Weights,
    hidden: Tensor,
    scores: Tensor,
) -> Tensor:
    """Return the weighted sum over each token's experts, all of them multiplied at once."""
    up, down = _stacked_up(weights), weights["expert_down"]
    rows = scores.elements
    sorted_ids = rows * SORTED_IDS
    tape.allocate(sorted_ids)
    chosen = pick(tape, hidden, rows * up.in_features, rows)
    ordered = pick(tape, scores, rows, rows)
    inner = grouped_product(tape, chosen, up, rows)
    activated = _gated(tape, setting, shape, inner)
    if "moe_act" in setting.recomputes:
        tape.discard(activated)
    tape.drop(inner)
    made = grouped_product(tape, activated, down, rows)
    tape.drop(activated)
    product = weighted(tape, made, ordered)
    tape.drop(made)
    total = combine(tape, product, hidden.elements, rows)
    out = cast(tape, total, hidden.width)
    tape.drop(total, chosen, ordered)
    tape.free(sorted_ids)
    return out


def _stacked_up(weights: Weights) -> Weight:
    """Return the first weight of the experts: gate and up in one parameter where both are there."""
    fused = weights.get("expert_gate_up")
    if fused is not None:
        return fused
    up = weights["expert_up"]
    gate = weights.get("expert_gate")
    if gate is None:
        return up
    return replace(
        up,
        out_features=gate.out_features + up.out_features,
        elements=gate.elements + up.elements,
        bias_elements=gate.bias_elements + up.bias_elements,
        stored_bytes=gate.stored_bytes + up.stored_bytes,
        adapter=_fused_adapter(gate, up),
    )


def _gated(tape: Tape, setting: Setting, shape: Experts, inner: Tensor) -> Tensor:
    """Return the experts' activation of the first product."""
    if not shape.gated:
        return activate(tape, activation_code(setting, shape.activation), inner)
    half = inner.elements // 2
    gate, up = split(tape, inner, (half, half))
    if setting.model_type in CLAMPED_GATE:
        out = _clamped_gate(tape, gate, up)
    else:
        activated = activate(tape, activation_code(setting, shape.activation), gate)
        out = multiply(tape, activated, up)
        tape.drop(activated)
    tape.drop(gate, up)
    return out


def _clamped_gate(tape: Tape, gate: Tensor, up: Tensor) -> Tensor:
    """Return gpt-oss's gate: both halves clamped, ``(up + 1) * gate * sigmoid(alpha * gate)``."""
    low_gate = activation(tape, gate)
    low_up = activation(tape, up)
    scaled = scale(tape, low_gate)
    sigmoid = activation(tape, scaled, saves_output=True)
    tape.drop(scaled)
    glu = multiply(tape, low_gate, sigmoid)
    tape.drop(sigmoid)
    shifted = copy(tape, low_up)  # plus one
    out = multiply(tape, shifted, glu)
    tape.drop(low_gate, low_up, glu, shifted)
    return out


def _fused_adapter(gate: Weight, up: Weight) -> Adapter | None:
    if gate.adapter is None or up.adapter is None:
        return None
    return replace(
        up.adapter,
        a=replace(up.adapter.a, elements=gate.adapter.a.elements + up.adapter.a.elements),
        b=replace(up.adapter.b, elements=gate.adapter.b.elements + up.adapter.b.elements),
    )


def _every_expert(
    tape: Tape, setting: Setting, shape: Experts, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return Llama 4's routed part: all tokens repeated for every expert, one batched product."""
    router, down = weights["router"], weights["expert_down"]
    rows = hidden.elements // router.in_features * shape.num_experts
    logits = linear(tape, hidden, router)
    tape.leave_to_block(logits)
    wide = cast(tape, logits, FP32)
    scores = activation(tape, wide, saves_output=True)
    narrow = cast(tape, scores, hidden.width)
    tape.drop(wide, scores)
    repeated = repeat_heads(tape, hidden, shape.num_experts)
    inputs = weighted(tape, repeated, narrow)
    tape.drop(repeated, narrow)
    inner = grouped_product(tape, inputs, _stacked_up(weights), rows)
    tape.drop(inputs)
    activated = _gated(tape, setting, shape, inner)
    tape.drop(inner)
    made = grouped_product(tape, activated, down, rows)
    tape.drop(activated)
    out = sum_of(tape, made, hidden.elements)
    tape.drop(made)
    return out
