"""Which normalisation a weight's model runs: Python, one PyTorch kernel, or a fused one."""

from vramgate.costmodel.architecture import NormKind
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.family_norms import (
    layer_norm_in_compute,
    layer_norm_in_fp32,
    layer_norm_plus_one,
    python_layer_norm,
    rms_norm_fp32_product,
    t5_norm,
)
from vramgate.costmodel.norm_operations import (
    fused_rms_norm,
    layer_norm,
    rms_norm,
    rms_norm_plus_one,
)
from vramgate.costmodel.tape import Tape, Tensor
from vramgate.costmodel.weights import Weight

WEIGHTED_IN_FP32 = frozenset({"olmo2", "olmo3", "gpt_oss"})
"""Families whose RMSNorm multiplies by its weight before it casts back."""
SQUARES_A_COPY = frozenset({"t5", "mt5"})
"""Families whose RMSNorm takes the mean square of an fp32 copy and scales the input itself."""
LAYER_NORM_IN_PYTHON = frozenset({"cohere", "cohere2"})
LAYER_NORM_ON_FP32 = frozenset({"olmo"})
LAYER_NORM_PLUS_ONE = frozenset({"nemotron"})
LOW_PRECISION_LAYER_NORM = frozenset({"composer"})
"""Frameworks whose LayerNorm runs in autocast's format (llm-foundry ``LPLayerNorm``, its default)."""


def norm(tape: Tape, setting: Setting, kind: NormKind, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` normalised; ``x`` stays the caller's."""
    if kind is NormKind.LAYER:
        return _layer_norm_of(tape, setting, x, weight)
    if kind is NormKind.RMS_PLUS_ONE:
        if "rms_norm" in setting.fused_kernels:
            return fused_rms_norm(tape, x, weight, in_place=False)
        return rms_norm_plus_one(tape, x, weight)
    return rms_norm_of(tape, setting, x, weight)


def head_norm(tape: Tape, setting: Setting, x: Tensor, weight: Weight) -> Tensor:
    """Return queries or keys normalised, by the kind of norm the model has everywhere."""
    return norm(tape, setting, setting.architecture.final_norm, x, weight)


def _layer_norm_of(tape: Tape, setting: Setting, x: Tensor, weight: Weight) -> Tensor:
    if setting.model_type in LAYER_NORM_IN_PYTHON:
        return python_layer_norm(tape, x, weight)
    if setting.model_type in LAYER_NORM_ON_FP32:
        return layer_norm_in_fp32(tape, x, weight)
    if setting.model_type in LAYER_NORM_PLUS_ONE:
        return layer_norm_plus_one(tape, x, weight)
    if setting.software.framework in LOW_PRECISION_LAYER_NORM:
        return layer_norm_in_compute(tape, x, weight)
    return layer_norm(tape, x, weight)


def rms_norm_of(tape: Tape, setting: Setting, x: Tensor, weight: Weight) -> Tensor:
    """Return ``x`` through an RMSNorm, fused where the run fuses them."""
    if "rms_norm" in setting.fused_kernels:
        return fused_rms_norm(tape, x, weight, in_place=True)
    if setting.model_type in WEIGHTED_IN_FP32:
        return rms_norm_fp32_product(tape, x, weight)
    if setting.model_type in SQUARES_A_COPY:
        return t5_norm(tape, x, weight)
    return rms_norm(tape, x, weight)
