"""Both ends of a model: the embedding before the blocks, the head behind them."""

from vramgate.costmodel.architecture import NormKind, Position
from vramgate.costmodel.blocks.attention import BOOLEAN_MASK_SINCE
from vramgate.costmodel.blocks.norms import norm
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.job import AttentionImplementation
from vramgate.costmodel.operations import FP32, add, dropout, scale
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes, Count

TOKEN_BYTES = 8
"""Token ids, labels and masks are int64."""


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
        if setting.transformers <= CAUSAL_BUFFERS_UNTIL.get(setting.model_type, (0, 0)):
            return 0 * square
        rows = setting.batch if setting.padded else 1
        return rows * square * setting.table_width
    if setting.attention is AttentionImplementation.SDPA and setting.padded:
        width = 1 if setting.transformers >= BOOLEAN_MASK_SINCE else setting.table_width
        return setting.batch * square * width
    return 0 * square


def embedding(
    tape: Tape, setting: Setting, weights: dict[str, Weight], *, input_requires_grad: bool
) -> Tensor:
    """Return the residual stream before the first block.

    ``input_requires_grad``: a hook makes the embedding's output require a gradient though its weight is frozen
    (``enable_input_require_grads``).
    """
    architecture = setting.architecture
    elements = setting.tokens * architecture.hidden_size
    weight = weights["embedding"]
    requires_grad = weight.trainable or input_requires_grad
    stream = tape.new(elements, weight.width, requires_grad=requires_grad)
    tape.record_saving(_embedding_backward, stream, weight)
    for role in ("position_embedding", "token_type_embedding"):
        if role in weights:
            stream = _with_rows(tape, setting, stream, weights[role])
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
    return dropped


def _embedding_backward(tape: Tape, stream: Tensor, weight: Weight) -> None:
    gradient = tape.take(stream)
    if weight.trainable:
        size = weight.elements * weight.width
        tape.allocate(size)
        tape.keep_parameter_gradient(size)
    tape.release(gradient)


def _with_rows(tape: Tape, setting: Setting, stream: Tensor, weight: Weight) -> Tensor:
    """Return the stream plus one learned row a position; the rows are shared by the batch."""
    rows = tape.new(
        setting.sequence * weight.out_features, weight.width, requires_grad=weight.trainable
    )
    if rows.requires_grad:
        tape.record_saving(_embedding_backward, rows, weight)
    out = add(tape, stream, rows)
    tape.drop(stream, rows)
    return out


def last_hidden(
    tape: Tape, setting: Setting, weights: dict[str, Weight], stream: Tensor
) -> Tensor:
    """Return the last hidden state: the stream after the final norm, where there is one."""
    architecture = setting.architecture
    if architecture.final_norm is NormKind.NONE or "final_norm" not in weights:
        return stream
    hidden = norm(tape, setting, architecture.final_norm, stream, weights["final_norm"])
    tape.drop(stream)
    return hidden


def output_weight(weights: dict[str, Weight]) -> Weight:
    """Return the weight of the output layer as a linear layer, tied or not."""
    found = weights.get("head")
    if found is not None:
        return found
    tied = weights["embedding"]
    return Weight(
        module=tied.module,
        in_features=tied.module.out_features,
        out_features=tied.module.in_features,
        elements=tied.elements,
        bias_elements=0,
        width=tied.width,
        rest_width=tied.rest_width,
        trainable=tied.trainable,
        stored_bytes=0,
    )
