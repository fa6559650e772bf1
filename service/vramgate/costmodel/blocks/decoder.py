"""One transformer block: how its norms, its attention and its feed-forward are put together."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from vramgate.costmodel.architecture import Attention, AttentionKind, Block, BlockLayout
from vramgate.costmodel.blocks.attention import attention
from vramgate.costmodel.blocks.cross_attention import cross_attention, stand_in_memory
from vramgate.costmodel.blocks.experts import dense_and_experts, mixture_of_experts
from vramgate.costmodel.blocks.feed_forward import feed_forward
from vramgate.costmodel.blocks.latent_attention import latent_attention
from vramgate.costmodel.blocks.norms import norm
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.blocks.side_weights import leave_side_gradients
from vramgate.costmodel.blocks.state_space import is_sequence_mixer, state_space_mixer
from vramgate.costmodel.norm_operations import vector_gradient
from vramgate.costmodel.operations import (
    add,
    dropout,
    gather_sequence,
    keep_with,
    multiply,
    scatter_sequence,
)
from vramgate.costmodel.recomputation import recompute
from vramgate.costmodel.tape import ACTIVATION, Tape, Tensor
from vramgate.costmodel.weights import Weight

Weights = dict[str, Weight]
Body = Callable[[Tape, Setting, Block, Weights, Tensor], Tensor]
"""One half of a block between its norms."""

NO_DROPOUT_AFTER_ATTENTION = frozenset({"distilbert"})
"""Families that drop out after the feed-forward only."""


def block(
    tape: Tape,
    setting: Setting,
    shape: Block,
    weights: Weights,
    stream: Tensor,
    memory: Tensor | None = None,
) -> Tensor:
    """Return the residual stream after one block; the incoming stream stays the caller's.

    ``memory``: an encoder's output, for a block with cross-attention. It stays the caller's; backward adds to its
    gradient. Without one, a memory as long as the stream stands in, whose bytes are not counted.
    """
    crossed = None
    if shape.cross_attention is not None and "cross_key" in weights:
        if memory is None:
            memory = stand_in_memory(setting, weights, stream)
        crossed = partial(cross_attention, memory=memory)
    leave_side_gradients(tape, weights)
    vector_gradient(tape, weights.get("embedding_norm"))
    run = _LAYOUTS.get(shape.layout, _sequential)
    out = run(tape, setting, shape, weights, stream, crossed)
    tape.end_block()
    return out


def _sequential(
    tape: Tape,
    setting: Setting,
    shape: Block,
    weights: Weights,
    stream: Tensor,
    crossed: Body | None,
) -> Tensor:
    """Run attention, then feed-forward, each added to the stream; between them cross-attention where there is any."""
    names = _NORMS[shape.layout]
    after_mixer = stream
    if shape.attention is None:
        tape.hold(stream)
    else:
        after_mixer = _half(tape, setting, shape, weights, stream, mixer, names[:2])
    if crossed is not None:
        before = after_mixer
        names_crossed = ("cross_norm", None)
        after_mixer = _half(tape, setting, shape, weights, before, crossed, names_crossed)
        tape.drop(before)
    if shape.feed_forward is None and shape.experts is None:
        return after_mixer
    out = _half(tape, setting, shape, weights, after_mixer, transform, names[2:])
    tape.drop(after_mixer)
    return out


_NORMS: dict[BlockLayout, tuple[str | None, ...]] = {
    BlockLayout.PRE_NORM: ("input_norm", None, "pre_feed_forward_norm", None),
    BlockLayout.SANDWICH: (
        "input_norm",
        "post_attention_norm",
        "pre_feed_forward_norm",
        "post_feed_forward_norm",
    ),
    BlockLayout.OUTPUT_NORM: (None, "post_attention_norm", None, "post_feed_forward_norm"),
}
"""Roles of the norms before and after the attention, before and after the feed-forward."""


def _half(
    tape: Tape,
    setting: Setting,
    shape: Block,
    weights: Weights,
    stream: Tensor,
    body: Body,
    names: tuple[str | None, ...],
) -> Tensor:
    """Return the stream after one half of a block: norm, body, norm, dropout, residual, as far as there are any."""
    before, after = names
    hidden = stream
    own_norm = None if before is None else weights.get(before)
    if own_norm is not None:
        hidden = norm(tape, setting, shape.norm, stream, own_norm)
        if "layernorm" in setting.recomputes:
            tape.discard(hidden)
    made = body(tape, setting, shape, weights, hidden)
    if own_norm is not None:
        tape.drop(hidden)
    made = _scaled(tape, weights.get(LAYER_SCALES.get(before or "", "")), made)
    if after is not None:
        normed = norm(tape, setting, shape.norm, made, weights[after])
        tape.drop(made)
        made = normed
    dropped = dropout(tape, made, shape.residual_dropout)
    tape.drop(made)
    out = add(tape, stream, dropped)
    tape.drop(dropped)
    return out


def _mixer(tape: Tape, setting: Setting, shape: Block, weights: Weights, hidden: Tensor) -> Tensor:
    """Return what mixes the tokens of one block."""
    if shape.attention is None:
        tape.hold(hidden)
        return hidden
    if shape.attention.kind is AttentionKind.LATENT:
        return latent_attention(tape, setting, shape.attention, weights, hidden)
    if is_sequence_mixer(shape.attention):
        return state_space_mixer(tape, setting, shape.attention, weights, hidden)
    if "mixer_in" in weights:
        return _both_mixers(tape, setting, shape.attention, weights, hidden)
    return attention(tape, setting, shape.attention, weights, hidden)


def _transform(
    tape: Tape, setting: Setting, shape: Block, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return the feed-forward half of one block: dense, a mixture of experts, or (Gemma 4) the sum of both."""
    if shape.experts is not None:
        if shape.feed_forward is None or "down" not in weights:
            return mixture_of_experts(tape, setting, shape.experts, weights, hidden)
        return dense_and_experts(tape, setting, shape, weights, hidden)
    if shape.feed_forward is None:
        tape.hold(hidden)
        return hidden
    return feed_forward(tape, setting, shape.feed_forward, weights, hidden)


KEEPS_SHARDS = frozenset({"megatron"})
"""Frameworks whose products save the sequence shard and gather it again in backward."""


def mixer(tape: Tape, setting: Setting, shape: Block, weights: Weights, hidden: Tensor) -> Tensor:
    """Return what mixes the tokens of one block, on the whole sequence."""
    return _on_whole_sequence(tape, setting, shape, weights, hidden, _mixer)


def transform(
    tape: Tape, setting: Setting, shape: Block, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return the feed-forward half of one block, on the whole sequence."""
    name = "mlp" if shape.experts is None else "moe"
    run = partial(_on_whole_sequence, tape, setting, shape, weights, hidden, _transform)
    return recompute(tape, (hidden,), run) if name in setting.recomputes else run()


def _both_mixers(
    tape: Tape, setting: Setting, shape: Attention, weights: Weights, hidden: Tensor
) -> Tensor:
    """Return Falcon-H1's sum of a state-space mixer and an attention over the same input."""
    own = {role: weight for role, weight in weights.items() if role.startswith("mixer_")}
    scanned = state_space_mixer(
        tape, setting, replace(shape, kind=AttentionKind.STATE_SPACE), own, hidden
    )
    attended = attention(tape, setting, shape, weights, hidden)
    out = add(tape, scanned, attended)
    tape.drop(scanned, attended)
    return out


def _on_whole_sequence(
    tape: Tape,
    setting: Setting,
    shape: Block,
    weights: Weights,
    hidden: Tensor,
    body: Body,
) -> Tensor:
    ranks = setting.sequence_ranks
    if ranks == 1:
        return body(tape, setting, shape, weights, hidden)
    if body is _transform and shape.experts is not None and setting.whole_experts:
        shard = replace(setting, tokens=setting.tokens // ranks, sequence=setting.sequence // ranks)
        return body(tape, shard, shape, weights, hidden)
    keeps_shard = setting.software.framework in KEEPS_SHARDS
    whole = gather_sequence(tape, hidden, ranks, keeps_shard=keeps_shard)
    made = body(tape, setting, shape, weights, whole)
    tape.drop(whole)
    out = scatter_sequence(tape, made, ranks)
    tape.drop(made)
    return out


def _post_norm(
    tape: Tape,
    setting: Setting,
    shape: Block,
    weights: Weights,
    stream: Tensor,
    crossed: Body | None,
) -> Tensor:
    """Run BERT's block: each part is added to its input and the sum is normalised."""
    parts: list[tuple[Body, str]] = [(mixer, "post_attention_norm")]
    if crossed is not None:
        parts.append((crossed, "cross_norm"))
    parts.append((transform, "post_feed_forward_norm"))
    hidden = stream
    for body, role in parts:
        made = body(tape, setting, shape, weights, hidden)
        dropped = dropout(tape, made, _dropout_after(setting, shape, body))
        tape.drop(made)
        total = add(tape, dropped, hidden)
        tape.drop(dropped)
        if hidden is not stream:
            tape.drop(hidden)
        hidden = norm(tape, setting, shape.norm, total, weights[role])
        tape.drop(total)
    return hidden


LAYER_SCALES = {"input_norm": "layer_scale", "pre_feed_forward_norm": "layer_scale#2"}
"""Roles of the learned scales behind the two halves of a block (DINOv2), by the norm before each."""


def _scaled(tape: Tape, weight: Weight | None, x: Tensor) -> Tensor:
    """Return ``x`` times a learned scale per channel, where there is one; ``x`` is let go."""
    if weight is None:
        return x
    scale = Tensor(x.elements, weight.width, ACTIVATION, requires_grad=False)
    tape.hold(scale)  # a parameter: counted with the weights
    vector_gradient(tape, weight)
    out = multiply(tape, x, scale)
    if weight.trainable:
        keep_with(tape, out, x)
    tape.drop(x)
    return out


def _dropout_after(setting: Setting, shape: Block, body: Body) -> float:
    if body is mixer and setting.model_type in NO_DROPOUT_AFTER_ATTENTION:
        return 0.0
    return shape.residual_dropout


def _parallel(
    tape: Tape,
    setting: Setting,
    shape: Block,
    weights: Weights,
    stream: Tensor,
    _crossed: Body | None,
) -> Tensor:
    """Run attention and feed-forward on the same stream and add both to it."""
    first = norm(tape, setting, shape.norm, stream, weights["input_norm"])
    mixed = mixer(tape, setting, shape, weights, first)
    dropped = dropout(tape, mixed, shape.residual_dropout)
    tape.drop(mixed)
    second = first
    if shape.parallel_norms > 1:
        tape.drop(first)
        second = norm(tape, setting, shape.norm, stream, weights["pre_feed_forward_norm"])
    transformed = transform(tape, setting, shape, weights, second)
    tape.drop(second)
    made = dropout(tape, transformed, shape.residual_dropout)
    tape.drop(transformed)
    both = add(tape, made, dropped)
    tape.drop(made, dropped)
    out = add(tape, both, stream)
    tape.drop(both)
    return out


_LAYOUTS = {BlockLayout.PARALLEL: _parallel, BlockLayout.POST_NORM: _post_norm}
