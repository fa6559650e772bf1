"""A mixture of experts: router, dispatch, the experts' products, and the sum that brings tokens back."""

from vramgate.costmodel.architecture import Experts
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight


def mixture_of_experts(
    tape: Tape, setting: Setting, shape: Experts, weights: dict[str, Weight], hidden: Tensor
) -> Tensor:
    """Return the mixture's output."""
    raise NotImplementedError
