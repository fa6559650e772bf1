"""Both ends of a model: the embedding before the blocks, the head and the loss behind them."""

from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.operations import FP32, activation, cast, copy
from vramgate.costmodel.tape import LOGITS, Tape, Tensor
from vramgate.units import Count

LABEL_BYTES = 8
"""Labels and token ids are int64."""
SHIFT_COPY = (4, 48)
"""Up to this version of transformers the logits were shifted by slicing, which copies them where rows are several."""
REBINDS_LOGITS = (4, 45)
"""Up to this version the fp32 logits took the bf16 logits' name, which let them die before the loss."""
UPCAST_BY_MODEL = (4, 47)
"""Up to this version GPT-2 and its kin computed the loss on the logits as they were."""


def causal_loss(tape: Tape, setting: Setting, logits: Tensor) -> Tensor:
    """Return the mean cross-entropy of next-token prediction, as transformers computes it from whole logits.

    The fp32 copy, the log-probabilities (saved) and, in backward, their gradients are each as large as the logits.
    """
    wide = cast(tape, logits, FP32)
    return cross_entropy(tape, wide)


def cross_entropy(tape: Tape, logits: Tensor) -> Tensor:
    """Return cross-entropy: the log-softmax is saved; its gradient and the logits' are made in backward."""
    probabilities = activation(tape, logits, saves_output=True)
    loss = nll_loss(tape, probabilities)
    tape.drop(probabilities)
    return loss


def nll_loss(tape: Tape, log_probabilities: Tensor) -> Tensor:
    """Return the negative log-likelihood: it saves the log-probabilities and makes a gradient as large as they are."""
    loss = tape.new(1, FP32, requires_grad=log_probabilities.requires_grad)
    if loss.requires_grad:
        tape.save(log_probabilities)
        tape.record(_nll_backward, loss, log_probabilities)
    return loss


def _nll_backward(tape: Tape, loss: Tensor, log_probabilities: Tensor) -> None:
    gradient = tape.take(loss)
    made = tape.new_gradient(log_probabilities.size)
    tape.release(gradient)
    tape.drop(log_probabilities)
    tape.give(log_probabilities, made)
