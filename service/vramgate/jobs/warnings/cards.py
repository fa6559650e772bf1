"""Cards that cannot do what the job asks of them."""

from collections.abc import Iterator

from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.costmodel.job import AttentionImplementation, Dtype
from vramgate.jobs.rules.case import Case
from vramgate.jobs.vocabulary import LinearFormat

_FLASH = frozenset({AttentionImplementation.FLASH_2, AttentionImplementation.FLASH_3})
_AMPERE = (8, 0)
_ADA = (8, 9)
_HOPPER = (9, 0)
_BLACKWELL = (10, 0)


def card_without_bf16(case: Case) -> Iterator[EstimateWarning]:
    """V100 and T4 have no bf16; every Ampere card has, GeForce included."""
    device, precision = case.job.hardware.device, case.job.precision
    if device is None or device.bf16_native:
        return
    if Dtype.BF16 in {precision.weights, precision.compute}:
        yield EstimateWarning(
            code="no_bf16",
            message=f"{device.name} has no bf16: torch emulates it, slowly, and trainers refuse it. Write"
            ' fp16 instead ("fp16-mixed"); the bytes are the same.',
        )


def card_without_format(case: Case) -> Iterator[EstimateWarning]:
    """fp8 needs Ada or Hopper, block-scaled formats need Blackwell."""
    device, linear = case.job.hardware.device, case.job.precision.linear
    if device is None or device.compute_capability is None or linear is None:
        return
    scaled = linear in {LinearFormat.MXFP8, LinearFormat.NVFP4}
    needed = _BLACKWELL if scaled else _AMPERE if linear == LinearFormat.INT8 else _ADA
    if device.compute_capability < needed:
        yield EstimateWarning(
            code="no_low_precision",
            message=f"{device.name} (compute capability {device.compute_capability[0]}."
            f"{device.compute_capability[1]}) has no {linear} products; they need"
            f" {needed[0]}.{needed[1]}.",
        )


def flash_attention_card(case: Case) -> Iterator[EstimateWarning]:
    """FlashAttention-2 needs Ampere, FlashAttention-3 Hopper (flash-attn README)."""
    device, attention = case.job.hardware.device, case.job.attention
    if device is None or device.compute_capability is None or attention not in _FLASH:
        return
    needed = _HOPPER if attention is AttentionImplementation.FLASH_3 else _AMPERE
    if device.compute_capability < needed and case.said.attention is not None:
        yield EstimateWarning(
            code="no_flash_attention",
            message=f"{attention.value} does not run on {device.name}; write attention sdpa, which takes a"
            " memory-efficient kernel there.",
        )
