"""Which normalisation a weight's model runs: Python, one PyTorch kernel, or a fused one."""

from vramgate.costmodel.architecture import NormKind
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.operations import (
    fused_rms_norm,
    layer_norm,
    rms_norm,
    rms_norm_plus_one,
)
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight


def norm(tape: Tape, setting: Setting, kind: NormKind, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` normalised; ``x`` stays the caller's."""
    if kind is NormKind.LAYER:
        return layer_norm(tape, x, weight)
    if kind is NormKind.RMS_PLUS_ONE:
        if "rms_norm" in setting.fused_kernels:
            return fused_rms_norm(tape, x, weight, in_place=False)
        return rms_norm_plus_one(tape, x, weight)
    return rms_norm_of(tape, setting, x, weight)


def rms_norm_of(tape: Tape, setting: Setting, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` through an RMSNorm, fused where the run fuses them."""
    if "rms_norm" in setting.fused_kernels:
        return fused_rms_norm(tape, x, weight, in_place=True)
    return rms_norm(tape, x, weight)
