"""What the step itself holds that people forget."""

from collections.abc import Iterator

from vramgate.costmodel.architecture import Position
from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Packing,
)
from vramgate.jobs.method import ADAPTER_KINDS
from vramgate.jobs.rules.case import Case

_VARIABLE_LENGTH = frozenset(
    {
        AttentionImplementation.FLASH_2,
        AttentionImplementation.FLASH_3,
        AttentionImplementation.FLEX,
    }
)


def pure_fp16(case: Case) -> Iterator[EstimateWarning]:
    """fp16 weights without a master copy overflow, and torch's GradScaler refuses them."""
    precision, kind = case.job.precision, case.job.method.kind
    if (
        precision.weights is Dtype.FP16
        and not precision.master_weights
        and kind not in ADAPTER_KINDS
    ):
        yield EstimateWarning(
            code="pure_fp16",
            message="fp16 weights train without an fp32 copy: small updates are lost and torch's GradScaler"
            " refuses fp16 gradients. The usual choices are fp16-mixed and bf16.",
        )


def beyond_trained_length(case: Case) -> Iterator[EstimateWarning]:
    """Rotary models run beyond their positions, but were not trained to."""
    longest = case.job.architecture.max_position_embeddings
    length = int(case.job.sequence_length)
    rotary = any(
        block.attention is not None and block.attention.position is Position.ROTARY
        for block in case.job.architecture.decoder.blocks
    )
    if rotary and longest and length > longest:
        yield EstimateWarning(
            code="beyond_positions",
            message=f"sequence_length {length:,} is beyond the {longest:,} positions of the model's config;"
            " the memory is as estimated, the quality is not.",
        )


def padding_free_attention(case: Case) -> Iterator[EstimateWarning]:
    """Rows joined without padding need an attention that knows their borders."""
    knows_borders = case.job.attention in _VARIABLE_LENGTH
    if case.job.packing is Packing.PADDING_FREE and not knows_borders:
        yield EstimateWarning(
            code="padding_free_needs_flash",
            message=f"padding_free with {case.job.attention.value}: TRL and ms-swift need flash attention;"
            " other code attends across rows or builds a full mask.",
        )


def offloaded_checkpoints(case: Case) -> Iterator[EstimateWarning]:
    """Offloaded checkpoints live in host memory."""
    checkpointing = case.job.checkpointing
    if checkpointing.mode is CheckpointMode.FULL and checkpointing.offload:
        yield EstimateWarning(
            code="offloaded_checkpoints",
            message="Checkpoints are held in pinned host memory: see host_bytes for what a node needs.",
        )
