"""Segments of single blocks, for tests that add up what a block keeps by hand."""

from typing import Any

from vramgate.costmodel.architecture import Block, ModelArchitecture
from vramgate.costmodel.families import architecture_from_config
from vramgate.costmodel.job import (
    AttentionImplementation,
    Checkpointing,
    CheckpointMode,
    Dtype,
    Hardware,
    Loss,
    Method,
    MethodKind,
    Optimizer,
    Packing,
    Parallelism,
    Precision,
    Sharding,
    Software,
    Task,
    TrainingJob,
)
from vramgate.costmodel.segments import Segment, block_segment, checkpointed_segment
from vramgate.costmodel.setting import setting_of
from vramgate.costmodel.tape import CAST
from vramgate.costmodel.weights import held_weights

BF16 = Precision(
    weights=Dtype.BF16,
    compute=Dtype.BF16,
    autocast=False,
    gradients=Dtype.BF16,
    master_weights=False,
    optimizer_states=Dtype.BF16,
)
AUTOCAST = Precision(
    weights=Dtype.FP32,
    compute=Dtype.BF16,
    autocast=True,
    gradients=Dtype.FP32,
    master_weights=False,
    optimizer_states=Dtype.FP32,
)
LORA = Method(kind=MethodKind.LORA, rank=16, target_modules="all-linear", adapter_dtype=Dtype.FP32)


def a_block_job(config: dict[str, Any] | ModelArchitecture, **overrides: Any) -> TrainingJob:  # noqa: ANN401
    """Return a full fine-tuning in bf16 with sdpa, one row of 2 048 tokens; any field can be overridden."""
    architecture = config if isinstance(config, ModelArchitecture) else None
    if architecture is None:
        architecture = architecture_from_config(config)  # type: ignore[arg-type]
    fields: dict[str, Any] = {
        "architecture": architecture,
        "method": Method(),
        "task": Task.SFT,
        "precision": BF16,
        "optimizer": Optimizer(),
        "micro_batch_size": 1,
        "sequence_length": 2048,
        "gradient_accumulation_steps": 1,
        "packing": Packing.PACKED,
        "checkpointing": Checkpointing(),
        "attention": AttentionImplementation.SDPA,
        "loss": Loss.STANDARD,
        "fused_kernels": frozenset(),
        "compile": False,
        "parallelism": Parallelism(),
        "sharding": Sharding(),
        "hardware": Hardware(device=None),
        "software": Software(),
    }
    return TrainingJob(**{**fields, **overrides})


def segment_of(
    job: TrainingJob, block: Block, hidden_size: int, *, requires_grad: bool = True
) -> Segment:
    """Return the segment of one block of a job, checkpointed where the job says so."""
    weights = held_weights(block.modules, job, in_block=True)
    setting = setting_of(job)
    if job.checkpointing.mode is CheckpointMode.FULL:
        return checkpointed_segment(
            setting,
            block,
            weights,
            hidden_size,
            requires_grad=requires_grad,
            reentrant=job.checkpointing.reentrant,
            accumulating=False,
        )
    return block_segment(
        setting, block, weights, hidden_size, requires_grad=requires_grad, accumulating=False
    )


def kept_by_last_block(job: TrainingJob, stack: int = -1) -> int:
    """Return the bytes a stack's last kind of block keeps, autocast's weight copies left out."""
    part = job.architecture.stacks[stack]
    segment = segment_of(job, part.blocks[-1], part.hidden_size)
    return int(sum(size for index, size in enumerate(segment.kept) if index != CAST))
