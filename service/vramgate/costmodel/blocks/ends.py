"""Both ends of a model: the embedding before the blocks, the head behind them."""

from dataclasses import replace

from vramgate.costmodel.architecture import Block, ModelArchitecture, NormKind, Position
from vramgate.costmodel.blocks.encoder_ends import (
    first_token,
    image_input_bytes,
    looked_up,
    looked_up_backward,
    masked_head,
    patches_embedded,
    with_token_types,
)
from vramgate.costmodel.blocks.mixing import ALWAYS_MASKED, BOOLEAN_MASK_SINCE
from vramgate.costmodel.blocks.norms import norm
from vramgate.costmodel.blocks.relative_bias import ADDS_RELATIVE_BIAS
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.job import AttentionImplementation
from vramgate.costmodel.operations import FP32, add, dropout, scale
from vramgate.costmodel.products import linear
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes, Count

TOKEN_BYTES = 8
"""Token ids, labels and masks are int64."""
VISION = "vision"
"""The name of the last stack of a model that reads images alone."""


CAUSAL_BUFFERS_UNTIL = {"gpt2": (5, 0)}
"""Families whose attention layers registered a boolean causal mask over all positions, up to this version."""


def buffer_bytes(setting: Setting) -> Bytes:
    """Return bytes of the buffers a model carries beside its parameters."""
    architecture = setting.architecture
    size = FP32 * architecture.buffer_elements
    if setting.transformers <= CAUSAL_BUFFERS_UNTIL.get(setting.model_type, (0, 0)):
        positions = architecture.max_position_embeddings or 0
        size += architecture.num_hidden_layers * positions * positions
    return size


def input_bytes(setting: Setting) -> Bytes:
    """Return the bytes of a micro-batch's token ids and labels, and of its mask where it has one."""
    patch = next((m for m in setting.architecture.outside if m.role == "patch_embedding"), None)
    if patch is not None and setting.architecture.decoder.name == VISION:
        return image_input_bytes(setting, patch)
    tensors = 3 if setting.padded else 2
    return tensors * TOKEN_BYTES * setting.tokens


def rotary_table_bytes(setting: Setting) -> Bytes:
    """Return the bytes of the cos and sin tables all layers share."""
    widest: Count = 0
    for block in setting.architecture.decoder.blocks:
        shape = block.attention
        if shape is not None and shape.position is Position.ROTARY:
            widest = max(widest, shape.rotary_dim)
    return 2 * setting.sequence * widest * setting.table_width


def shared_mask_bytes(setting: Setting) -> Bytes:
    """Return the bytes of the one mask all layers share: length × length, a row of the batch each where padded."""
    square = setting.sequence * setting.sequence
    if setting.attention is AttentionImplementation.EAGER:
        if not (setting.padded or any(_is_causal(block) for block in _all_blocks(setting))):
            return 0 * square
        if setting.transformers <= CAUSAL_BUFFERS_UNTIL.get(setting.model_type, (0, 0)):
            return 0 * square
        rows = setting.batch if setting.padded else 1
        return rows * square * setting.table_width
    if setting.attention is AttentionImplementation.SDPA and _adds_alibi(setting):
        heads = _all_blocks(setting)[0].attention
        return setting.batch * square * setting.table_width * (heads.heads if heads else 1)
    if setting.attention is AttentionImplementation.SDPA and setting.padded:
        width = 1 if setting.transformers >= BOOLEAN_MASK_SINCE else setting.table_width
        return setting.batch * square * width
    return 0 * square


def _all_blocks(setting: Setting) -> tuple[Block, ...]:
    return setting.architecture.decoder.blocks


def _adds_alibi(setting: Setting) -> bool:
    """Return whether all layers share one bias per head, as Falcon's with ALiBi do."""
    return setting.model_type in ALWAYS_MASKED and any(
        block.attention is not None and block.attention.position is Position.ALIBI
        for block in _all_blocks(setting)
    )


def _is_causal(block: Block) -> bool:
    return block.attention is not None and block.attention.causal


def embedding(
    tape: Tape, setting: Setting, weights: dict[str, Weight], *, input_requires_grad: bool
) -> Tensor:
    """Return the residual stream before the first block.

    ``input_requires_grad``: a hook makes the embedding's output require a gradient though its weight is frozen
    (``enable_input_require_grads``).
    """
    architecture = setting.architecture
    if architecture.decoder.name == VISION:
        return patches_embedded(tape, setting, weights)
    weight = weights.get("embedding")
    if weight is None:  # what a model's own front makes of sound or images
        return tape.new(
            setting.tokens * architecture.hidden_size,
            setting.stream_width,
            requires_grad=input_requires_grad,
        )
    elements = setting.tokens * weight.out_features
    requires_grad = weight.trainable or input_requires_grad
    stream = tape.new(elements, weight.width, requires_grad=requires_grad)
    if stream.requires_grad:
        tape.record_saving(looked_up_backward, stream, weight)
    if "token_type_embedding" in weights:
        return _projected(tape, weights, with_token_types(tape, setting, weights, stream))
    if "position_embedding" in weights:
        stream = _with_positions(tape, setting, stream, weights["position_embedding"])
    if architecture.embedding_scaled:
        scaled = scale(tape, stream)
        tape.drop(stream)
        stream = scaled
    if architecture.embedding_norm is not NormKind.NONE:
        normed = norm(tape, setting, architecture.embedding_norm, stream, weights["embedding_norm"])
        tape.drop(stream)
        stream = normed
    dropped = dropout(tape, stream, architecture.embedding_dropout)
    tape.drop(stream)
    return _projected(tape, weights, dropped)


def _projected(tape: Tape, weights: dict[str, Weight], stream: Tensor) -> Tensor:
    """Return the embedding at the blocks' width, where its own is another; ``stream`` is let go."""
    weight = weights.get("embedding_project_in")
    if weight is None:
        return stream
    out = linear(tape, stream, weight)
    tape.drop(stream)
    return out


def _with_positions(tape: Tape, setting: Setting, stream: Tensor, weight: Weight) -> Tensor:
    """Return the stream plus one learned row a position; the rows are shared by the batch."""
    rows = looked_up(tape, weight, setting.sequence)
    out = add(tape, stream, rows)
    tape.drop(stream, rows)
    return out


def last_hidden(tape: Tape, setting: Setting, weights: dict[str, Weight], stream: Tensor) -> Tensor:
    """Return what the output layer reads: the stream after the final norm and what a head has before its last layer.

    ``stream`` is let go.
    """
    architecture = setting.architecture
    hidden = stream
    if architecture.final_norm is not NormKind.NONE and "final_norm" in weights:
        hidden = norm(tape, setting, architecture.final_norm, stream, weights["final_norm"])
        tape.drop(stream)
    if architecture.head_dense and "head_dense" in weights:
        return masked_head(tape, setting, weights, hidden)
    if architecture.decoder.name == VISION:
        return first_token(tape, setting, hidden, architecture.hidden_size)
    if setting.model_type in ADDS_RELATIVE_BIAS:
        return _dropped_out_and_scaled(tape, architecture, hidden)
    return hidden


def _dropped_out_and_scaled(tape: Tape, architecture: ModelArchitecture, hidden: Tensor) -> Tensor:
    """Return T5's last hidden state: dropout behind the norm, and a scale where the output layer is the embedding."""
    dropped = dropout(tape, hidden, architecture.embedding_dropout)
    tape.drop(hidden)
    if not architecture.tie_word_embeddings:
        return dropped
    out = scale(tape, dropped)
    tape.drop(dropped)
    return out


def output_weight(weights: dict[str, Weight]) -> Weight:
    """Return the weight of the output layer as a linear layer, tied or not."""
    found = weights.get("head")
    if found is not None:
        return found
    pooler = weights.get("pooler")
    if "embedding" not in weights and pooler is not None:
        return pooler
    tied = weights["embedding"]
    bias = weights.get("head_bias")
    bias_elements = 0 if bias is None else bias.module.parameters
    return Weight(
        module=replace(tied.module, bias=bias_elements),
        in_features=tied.module.out_features,
        out_features=tied.module.in_features,
        elements=tied.elements,
        bias_elements=bias_elements,
        width=tied.width,
        rest_width=tied.rest_width,
        trainable=tied.trainable,
        stored_bytes=0,
    )
