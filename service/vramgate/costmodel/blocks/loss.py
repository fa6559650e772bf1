"""The loss: from the last hidden state to a number, and what it keeps of the vocabulary's width.

Standard: whole logits, in fp32, by the rules of the transformers version. Fused: a kernel that writes the gradient
over the logits. Fused linear: the logits are never whole. Chunked: whole hidden states, logits by slices.
Source: ``loss_utils.ForCausalLMLoss`` (4.46 on), the models' own losses before; Liger kernel 0.8.5; traces.
"""

from vramgate.costmodel.architecture import ModelClass
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.operations import FP32, activation, cast, scale, soft_cap
from vramgate.costmodel.products import unpacked_bytes
from vramgate.costmodel.tape import CAST, DEQUANTIZED, GRADIENT, LOGITS, Tape, Tensor
from vramgate.costmodel.weights import ACCELERATE_FRAMEWORKS, Weight
from vramgate.units import Bytes, Count, ceil_div, next_power_of_two, smallest

SHIFT_COPY_UNTIL = (4, 48)
"""Up to here the logits are shifted by slicing, which copies them where the batch has several rows."""
REBINDS_UNTIL = (4, 45)
"""Up to here ``logits = logits.float()`` lets the 16-bit logits die before the loss."""
OWN_LOSS_UNTIL = {"gpt2": (4, 47), "gpt_bigcode": (4, 47), "gpt_neox": (4, 48)}
"""Families that computed their loss on the logits in their own format, up to this version."""
CONVERTS_OUTPUTS = ACCELERATE_FRAMEWORKS - {"transformers"}
"""Frameworks whose autocast wrapper also converts the model's outputs, logits included, to fp32 (accelerate); the
traces of transformers ran under autocast alone."""
IN_OWN_FORMAT = frozenset(
    {ModelClass.MASKED, ModelClass.IMAGE_CLASSIFIER, ModelClass.ENCODER_DECODER}
)
"""Models whose losses read the logits in their own format, in every version."""


def standard_loss(tape: Tape, setting: Setting, logits: Tensor) -> Tensor:
    """Return the cross-entropy of whole logits; ``logits`` is let go."""
    if setting.architecture.logits_softcap:
        logits = soft_cap(tape, logits)
    own = _reads_own_format(setting)
    wide = cast(tape, logits, logits.width if own else FP32)
    rebinds = setting.transformers <= REBINDS_UNTIL and not own
    if rebinds:
        tape.drop(logits)
    copied = _shift_copy(tape, setting, wide)
    loss = cross_entropy(tape, wide, casts_for_nll=own and tape.autocast)
    tape.drop(
        copied
    )  # a name of the model's function, which returns before its outputs are converted
    if own:
        _convert_outputs(tape, setting, wide)
    tape.drop(wide)
    if not rebinds:
        tape.drop(logits)
    return loss


def _reads_own_format(setting: Setting) -> bool:
    if setting.architecture.model_class in IN_OWN_FORMAT:
        return True
    return _had_own_loss(setting)


def _had_own_loss(setting: Setting) -> bool:
    last = OWN_LOSS_UNTIL.get(setting.model_type)
    return last is not None and setting.transformers <= last


def _shift_copy(tape: Tape, setting: Setting, wide: Tensor) -> Tensor:
    """Return the copy of the logits without each row's last token: nothing for one row, which is a view."""
    copies = 0 if setting.one_row or setting.transformers > SHIFT_COPY_UNTIL else 1
    return tape.new(wide.elements * copies, wide.width, requires_grad=False)


def cross_entropy(tape: Tape, logits: Tensor, *, casts_for_nll: bool = False) -> Tensor:
    """Return cross-entropy in two kernels: the log-softmax is saved, two gradients of its size follow in backward.

    ``casts_for_nll``: autocast raises the second kernel alone to fp32.
    """
    log_probabilities = activation(tape, logits, saves_output=True)
    if casts_for_nll:
        narrow = log_probabilities
        log_probabilities = cast(tape, narrow, FP32)
        tape.drop(narrow)
    loss = tape.new(1, FP32, requires_grad=logits.requires_grad)
    if loss.requires_grad:
        tape.save(log_probabilities)
        tape.record_saving(_nll_backward, loss, log_probabilities)
    tape.drop(log_probabilities)
    return loss


def _nll_backward(tape: Tape, loss: Tensor, log_probabilities: Tensor) -> None:
    gradient = tape.take(loss)
    made = tape.new_gradient(log_probabilities.size)
    tape.release(gradient)
    tape.drop(log_probabilities)
    tape.give(log_probabilities, made)


def fused_loss(tape: Tape, setting: Setting, logits: Tensor) -> Tensor:
    """Return the cross-entropy of a kernel that keeps the fp32 logits and writes their gradient over them.

    Where transformers still shifts the logits by slicing, the kernel works on the copy, and the gradient of the slice
    is made beside it.
    """
    if setting.architecture.logits_softcap:
        logits = soft_cap(tape, logits)
    own = _had_own_loss(setting)
    wide = cast(tape, logits, logits.width if own else FP32)
    rebinds = setting.transformers <= REBINDS_UNTIL and not own
    if rebinds:
        tape.drop(logits)
    copies = not setting.one_row and setting.transformers <= SHIFT_COPY_UNTIL
    shifted = scale(tape, wide) if copies else wide
    loss = tape.new(1, FP32, requires_grad=wide.requires_grad)
    if loss.requires_grad:
        tape.save(shifted)
        tape.record_saving(_overwritten_backward, loss, shifted)
    if own:
        _convert_outputs(tape, setting, logits)
    if copies:
        tape.drop(shifted)
    tape.drop(wide)
    if not rebinds:
        tape.drop(logits)
    return loss


def _convert_outputs(tape: Tape, setting: Setting, logits: Tensor) -> None:
    """Make the fp32 copy of the logits that the autocast wrapper returns; nobody keeps it."""
    if tape.autocast and setting.software.framework in CONVERTS_OUTPUTS:
        tape.spike(logits.elements * FP32, LOGITS)


def _overwritten_backward(tape: Tape, loss: Tensor, wide: Tensor) -> None:
    tape.release(tape.take(loss))
    tape.drop(wide)
    tape.give(wide, tape.new_gradient(wide.size))


FP32_CHUNKS = frozenset({"litgpt"})
"""Frameworks whose chunked head hands fp32 logits to the loss (Fabric converts the outputs)."""
CHUNK_ROWS = {"litgpt": 128}
"""Rows of one sequence a chunk has (litgpt ``lm_head_chunk_size``)."""
CHUNKS = 8
"""Chunks of torchtune's ``CEWithChunkedOutputLoss`` and torchtitan's ``ChunkedLossWrapper``."""


def chunked_loss(tape: Tape, setting: Setting, logits: Tensor, weight: Weight) -> Tensor:
    """Return the cross-entropy of logits made by slices: whole in 16 bits, raised to fp32 slice by slice.

    Every slice's log-softmax is saved, so that fp32 logits as a whole are kept after all; what is saved is the copies.
    A quantised head is unpacked for each slice, while the other slices wait.
    """
    if setting.architecture.logits_softcap:
        logits = soft_cap(tape, logits)
    framework = setting.software.framework
    wide = logits
    if framework in FP32_CHUNKS:
        wide = cast(tape, logits, FP32)
        tape.drop(logits)
    rows = setting.tokens // CHUNKS
    if framework in CHUNK_ROWS:
        rows = smallest(setting.tokens, setting.batch * CHUNK_ROWS[framework])
    chunk = rows * (wide.elements // setting.tokens)
    log_probabilities = tape.new(wide.elements, FP32, requires_grad=wide.requires_grad)
    tape.spike(chunk * FP32)
    loss = tape.new(1, FP32, requires_grad=wide.requires_grad)
    if loss.requires_grad:
        tape.save(log_probabilities)
        unpacked = unpacked_bytes(tape, weight) if framework in CHUNK_ROWS else 0
        tape.record_saving(_chunked_backward, loss, wide, log_probabilities, chunk, unpacked)
    tape.drop(log_probabilities)
    if framework in FP32_CHUNKS:
        tape.leave_to_block(wide)  # the list of chunks is a name of the training loop
    else:
        tape.drop(wide)
    return loss


def _chunked_backward(
    tape: Tape,
    loss: Tensor,
    wide: Tensor,
    log_probabilities: Tensor,
    chunk: Count,
    unpacked: Bytes,
) -> None:
    tape.release(tape.take(loss))
    tape.spike(2 * chunk * FP32)
    tape.spike(unpacked, DEQUANTIZED)
    made = tape.new_gradient(wide.size)
    tape.drop(log_probabilities)
    tape.give(wide, made)


RECOMPUTED_ROWS = 256
"""Tokens a chunk has in TRL's ``chunked_nll`` (trl pull request 5575)."""
RECOMPUTED_LOGIT_BYTES = 14
"""Bytes alive for each logit of the chunk that runs: 2 + 4 + 4 for logits, their fp32 copy and log-softmax, 4 more in
backward."""


def recomputed_chunks_loss(tape: Tape, setting: Setting, hidden: Tensor, weight: Weight) -> Tensor:
    """Return the cross-entropy of chunks whose logits are made again in backward: whole logits are never there.

    ``hidden`` is kept and stays the caller's.
    """
    rows = smallest(setting.tokens, RECOMPUTED_ROWS)
    chunk = RECOMPUTED_LOGIT_BYTES * rows * weight.out_features
    tape.spike(chunk, LOGITS)
    loss = tape.new(1, FP32, requires_grad=hidden.requires_grad or weight.trainable)
    if loss.requires_grad:
        tape.save(hidden)
        tape.record_saving(_recomputed_chunks_backward, loss, hidden, weight, chunk)
    return loss


def _recomputed_chunks_backward(
    tape: Tape, loss: Tensor, hidden: Tensor, weight: Weight, chunk: Bytes
) -> None:
    tape.release(tape.take(loss))
    made = tape.new_gradient(hidden.size) if hidden.requires_grad else None
    if weight.trainable:
        size = weight.elements * weight.width
        tape.allocate(size)
        tape.keep_parameter_gradient(size)
    tape.spike(chunk, LOGITS)
    tape.release_saved(hidden)
    if made is not None:
        tape.give(hidden, made)


def parallel_loss(tape: Tape, logits: Tensor) -> Tensor:
    """Return the cross-entropy of logits split over the vocabulary, in PyTorch's ``loss_parallel``.

    It is written in single operations: shifted logits and their exponential in forward; zeros, the exponential, their
    sum and its product with the incoming gradient in backward. ``logits`` is let go.
    Source: ``torch/distributed/tensor/parallel/loss.py`` (2.13).
    """
    wide = cast(tape, logits, FP32)
    tape.allocate(wide.size, LOGITS)
    tape.spike(wide.size, LOGITS)
    log_probabilities = tape.new(wide.elements, FP32, requires_grad=wide.requires_grad)
    tape.free(wide.size, LOGITS)
    loss = tape.new(1, FP32, requires_grad=wide.requires_grad)
    if loss.requires_grad:
        tape.save(log_probabilities)
        tape.record_saving(_parallel_backward, loss, wide, log_probabilities)
    tape.drop(log_probabilities, wide, logits)
    return loss


def _parallel_backward(tape: Tape, loss: Tensor, wide: Tensor, log_probabilities: Tensor) -> None:
    tape.release(tape.take(loss))
    tape.allocate(2 * wide.size, LOGITS)
    tape.spike(wide.size, LOGITS)
    made = tape.new_gradient(wide.size)
    tape.free(2 * wide.size, LOGITS)
    tape.drop(log_probabilities)
    tape.give(wide, made)


def one_kernel_loss(tape: Tape, logits: Tensor) -> Tensor:
    """Return the cross-entropy of one kernel that reads the logits in their own format.

    The compiler makes such a one, and flash-attention has it: the logits are kept, their gradient is made beside them.
    """
    loss = tape.new(1, FP32, requires_grad=logits.requires_grad)
    if loss.requires_grad:
        tape.save(logits)
        tape.record_saving(_one_kernel_backward, loss, logits)
    tape.drop(logits)
    return loss


def _one_kernel_backward(tape: Tape, loss: Tensor, logits: Tensor) -> None:
    tape.release(tape.take(loss))
    made = tape.new_gradient(logits.size)
    tape.drop(logits)
    tape.give(logits, made)


def chunk_rows(tokens: Count, *, vocab_size: Count, hidden_size: Count) -> Count:
    """Return the rows of logits Liger's fused linear cross-entropy makes at a time.

    >>> chunk_rows(8192, vocab_size=128256, hidden_size=4096)
    256
    """
    pieces = ceil_div(vocab_size, hidden_size)
    return smallest(tokens, next_power_of_two(ceil_div(tokens, pieces)))


def fused_linear_loss(tape: Tape, setting: Setting, hidden: Tensor, weight: Weight) -> Tensor:
    """Return the loss straight from the hidden states: logits by chunks, both gradients made in forward.

    Kept are the hidden states' gradient and, where the head trains, the head's. Where autocast has to cast the head,
    every chunk casts its transpose and the cache holds one more copy.
    """
    vocabulary = weight.out_features
    rows = chunk_rows(setting.tokens, vocab_size=vocabulary, hidden_size=weight.in_features)
    in_place = hidden.width == weight.width and not (
        tape.autocast and hidden.width != tape.compute_width
    )
    gradient_in = tape.new(hidden.elements, hidden.width, requires_grad=False)
    head_gradient = weight.elements * weight.width if weight.trainable else 0
    tape.allocate(head_gradient, GRADIENT)
    losses = tape.new(setting.tokens, FP32, requires_grad=False)
    width = hidden.width if in_place else tape.compute_width
    logits = tape.new(rows * vocabulary, width, requires_grad=False, category=LOGITS)
    if not in_place:
        _cast_chunk(tape, rows, weight, width)
    tape.drop(logits, losses)
    loss = tape.new(1, FP32, requires_grad=hidden.requires_grad)
    if loss.requires_grad:
        tape.save(gradient_in)
        tape.record_saving(_fused_linear_backward, loss, hidden, gradient_in)
    tape.drop(gradient_in)
    return loss


def _cast_chunk(tape: Tape, rows: Count, weight: Weight, width: int) -> None:
    """Cast one chunk of hidden states and the head: the transpose for this chunk, the head itself for the cache."""
    tape.allocate(rows * weight.in_features * width)
    copies = 2 if weight.trainable else 1
    tape.spike(copies * weight.elements * width, CAST)
    tape.free(rows * weight.in_features * width)


def _fused_linear_backward(tape: Tape, loss: Tensor, hidden: Tensor, gradient_in: Tensor) -> None:
    tape.release(tape.take(loss))
    tape.drop(gradient_in)
    tape.give(hidden, tape.new_gradient(hidden.size))
