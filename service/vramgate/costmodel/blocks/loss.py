"""The loss: from the last hidden state to a number, and what it keeps of the vocabulary's width.

Standard: whole logits, in fp32, by the rules of the transformers version. Fused: a kernel that writes the gradient
over the logits. Fused linear: the logits are never whole. Chunked: whole hidden states, logits by slices.
Source: ``loss_utils.ForCausalLMLoss`` (4.46 on), the models' own losses before; Liger kernel 0.8.5; traces.
"""

from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.operations import FP32, activation, cast, scale
from vramgate.costmodel.tape import Tape, Tensor

SHIFT_COPY_UNTIL = (4, 48)
"""Up to here the logits are shifted by slicing, which copies them where the batch has several rows."""
REBINDS_UNTIL = (4, 45)
"""Up to here ``logits = logits.float()`` lets the 16-bit logits die before the loss."""
OWN_LOSS_UNTIL = (4, 47)
"""Up to here GPT-2 computed its loss on the logits in their own format."""
OWN_LOSS = frozenset({"gpt2"})


def standard_loss(tape: Tape, setting: Setting, logits: Tensor) -> Tensor:
    """Return the cross-entropy of whole logits; ``logits`` stays the caller's."""
    if setting.architecture.logits_softcap:
        logits = _soft_capped(tape, logits)
    else:
        tape.hold(logits)
    own = setting.model_type in OWN_LOSS and setting.transformers <= OWN_LOSS_UNTIL
    wide = cast(tape, logits, logits.width if own else FP32)
    shifted = wide
    if setting.transformers <= SHIFT_COPY_UNTIL:
        shifted = _shift_copy(tape, setting, wide)
    loss = cross_entropy(tape, shifted)
    if shifted is not wide:
        tape.drop(shifted)
    tape.drop(wide, logits)
    return loss


def _soft_capped(tape: Tape, logits: Tensor) -> Tensor:
    """Return Gemma 2's capped logits: the tanh keeps its output."""
    divided = scale(tape, logits)
    capped = activation(tape, divided, saves_output=True)
    tape.drop(divided)
    out = scale(tape, capped)
    tape.drop(capped)
    return out


def _shift_copy(tape: Tape, setting: Setting, wide: Tensor) -> Tensor:
    """Return the logits without each row's last token: a copy where rows are several, a view of one row."""
    several = setting.batch > 1
    copied = tape.new(wide.elements * several, wide.width, requires_grad=wide.requires_grad)
    shifted = tape.view(wide, wide.elements)
    if wide.requires_grad:
        tape.record(_shift_backward, shifted, wide)
    tape.drop(copied)
    return shifted


def _shift_backward(tape: Tape, shifted: Tensor, wide: Tensor) -> None:
    tape.give(wide, tape.take(shifted))


def cross_entropy(tape: Tape, logits: Tensor) -> Tensor:
    """Return cross-entropy in two kernels: the log-softmax is saved, two gradients of its size follow in backward."""
    log_probabilities = activation(tape, logits, saves_output=True)
    loss = tape.new(1, FP32, requires_grad=logits.requires_grad)
    if loss.requires_grad:
        tape.save(log_probabilities)
        tape.record(_nll_backward, loss, log_probabilities)
    tape.drop(log_probabilities)
    return loss


def _nll_backward(tape: Tape, loss: Tensor, log_probabilities: Tensor) -> None:
    gradient = tape.take(loss)
    made = tape.new_gradient(log_probabilities.size)
    tape.release(gradient)
    tape.drop(log_probabilities)
    tape.give(log_probabilities, made)


def fused_loss(tape: Tape, setting: Setting, logits: Tensor) -> Tensor:
    """Return the cross-entropy of a kernel that keeps the fp32 logits and writes their gradient over them."""
    wide = cast(tape, logits, FP32)
    loss = tape.new(1, FP32, requires_grad=logits.requires_grad)
    if loss.requires_grad:
        tape.save(wide)
        tape.record(_overwritten_backward, loss, wide)
    tape.drop(wide)
    return loss


def _overwritten_backward(tape: Tape, loss: Tensor, wide: Tensor) -> None:
    tape.release(tape.take(loss))
    tape.drop(wide)
    tape.give(wide, tape.new_gradient(wide.size))
