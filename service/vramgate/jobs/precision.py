"""Number formats: the presets of the interface, and what a partly said precision implies."""

from collections.abc import Mapping
from enum import StrEnum

from vramgate.costmodel.job import Dtype
from vramgate.jobs.description import PrecisionDescription


class PrecisionPreset(StrEnum):
    """Named precisions; bytes a parameter of weights/gradients/master copy/Adam states."""

    FP32 = "fp32"  # 4/4/0/8
    BF16_MIXED = "bf16-mixed"  # 4/4/0/8 and the autocast weight cache
    FP16_MIXED = "fp16-mixed"
    BF16_MASTER = "bf16-master"  # 2/2/4/8, gradients 4 where the framework accumulates in fp32
    FP16_MASTER = "fp16-master"
    BF16_TRUE = "bf16-true"  # 2/2/0/4
    FP16_TRUE = "fp16-true"


def _mixed(compute: Dtype) -> PrecisionDescription:
    return PrecisionDescription(
        weights=Dtype.FP32,
        compute=compute,
        autocast=True,
        gradients=Dtype.FP32,
        master_weights=False,
        optimizer_states=Dtype.FP32,
    )


def _master(dtype: Dtype) -> PrecisionDescription:
    # Gradients stay open: the framework decides whether it accumulates them in fp32.
    return PrecisionDescription(
        weights=dtype,
        compute=dtype,
        autocast=False,
        master_weights=True,
        optimizer_states=Dtype.FP32,
    )


def _pure(dtype: Dtype) -> PrecisionDescription:
    return PrecisionDescription(
        weights=dtype,
        compute=dtype,
        autocast=False,
        gradients=dtype,
        master_weights=False,
        optimizer_states=dtype,
    )


_PRESETS: Mapping[PrecisionPreset, PrecisionDescription] = {
    PrecisionPreset.FP32: _pure(Dtype.FP32),
    PrecisionPreset.BF16_MIXED: _mixed(Dtype.BF16),
    PrecisionPreset.FP16_MIXED: _mixed(Dtype.FP16),
    PrecisionPreset.BF16_MASTER: _master(Dtype.BF16),
    PrecisionPreset.FP16_MASTER: _master(Dtype.FP16),
    PrecisionPreset.BF16_TRUE: _pure(Dtype.BF16),
    PrecisionPreset.FP16_TRUE: _pure(Dtype.FP16),
}


def preset_description(preset: PrecisionPreset) -> PrecisionDescription:
    """Return the number formats that a preset stands for.

    >>> preset_description(PrecisionPreset.BF16_TRUE).optimizer_states
    <Dtype.BF16: 'bf16'>
    """
    return _PRESETS[preset]
