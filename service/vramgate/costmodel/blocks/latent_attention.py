"""DeepSeek's multi-head latent attention."""

from vramgate.costmodel.architecture import Attention
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight


def latent_attention(
    tape: Tape, setting: Setting, shape: Attention, weights: dict[str, Weight], hidden: Tensor
) -> Tensor:
    """Return the attention's output."""
    raise NotImplementedError
