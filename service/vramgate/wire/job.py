"""JobIn: the job as it arrives, and JobOut: as it was understood; of each, what a launch says of one.

Every field is optional except ``model``: what is missing gets its framework's default in
``vramgate.jobs``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import ConfigDict, Field

from vramgate.costmodel.job import AttentionImplementation, Loss, Packing, Task
from vramgate.jobs.description import JobDescription, ModelDescription
from vramgate.jobs.vocabulary import FusedKernel
from vramgate.wire.job_parts import (
    CheckpointingField,
    CheckpointingIn,
    MethodField,
    MethodIn,
    ModelIn,
    OptimizerField,
    OptimizerIn,
    PrecisionField,
    PrecisionIn,
    WireIn,
)
from vramgate.wire.machine_parts import BucketsIn, HardwareIn, ParallelismIn, ShardingIn, SoftwareIn
from vramgate.wire.numbers import MAX_BATCH, MAX_STEPS, MAX_TOKENS, WHOLE, Flag


class JobPartIn(WireIn):
    """What is said of a job so far."""

    model: ModelIn | None = None
    method: MethodField | None = None
    task: Task | None = None
    precision: PrecisionField | None = None
    optimizer: OptimizerField | None = None
    micro_batch_size: Annotated[int, Field(ge=1, le=MAX_BATCH), WHOLE] | None = None
    sequence_length: Annotated[int, Field(ge=1, le=MAX_TOKENS), WHOLE] | None = None
    gradient_accumulation_steps: Annotated[int, Field(ge=1, le=MAX_STEPS), WHOLE] | None = None
    packing: Packing | None = None
    activation_checkpointing: CheckpointingField | None = None
    attention: AttentionImplementation | None = None
    loss: Loss | None = None
    fused_kernels: Annotated[tuple[FusedKernel, ...], Field(max_length=16)] | None = None
    compile: Flag | None = None
    parallelism: ParallelismIn | None = None
    sharding: ShardingIn | None = None
    hardware: HardwareIn | None = None
    software: SoftwareIn | None = None

    def to_domain(self) -> JobDescription:
        """Return what was said as a domain value; what was not said stays None."""
        return JobDescription(
            model=self.model.to_domain() if self.model else _NOTHING.model,
            method=self.method.to_domain() if self.method else _NOTHING.method,
            task=self.task,
            precision=self.precision.to_domain() if self.precision else _NOTHING.precision,
            optimizer=self.optimizer.to_domain() if self.optimizer else _NOTHING.optimizer,
            micro_batch_size=self.micro_batch_size,
            sequence_length=self.sequence_length,
            gradient_accumulation_steps=self.gradient_accumulation_steps,
            packing=self.packing,
            activation_checkpointing=(
                self.activation_checkpointing.to_domain()
                if self.activation_checkpointing
                else _NOTHING.activation_checkpointing
            ),
            attention=self.attention,
            loss=self.loss,
            fused_kernels=self.fused_kernels,
            compile=self.compile,
            parallelism=self.parallelism.to_domain() if self.parallelism else _NOTHING.parallelism,
            sharding=self.sharding.to_domain() if self.sharding else _NOTHING.sharding,
            hardware=self.hardware.to_domain() if self.hardware else _NOTHING.hardware,
            software=self.software.to_domain() if self.software else _NOTHING.software,
        )


class JobIn(JobPartIn):
    """One training run. Only ``model`` must be given; what is left out takes its framework's default."""

    model: ModelIn


_NOTHING = JobDescription(model=ModelDescription())


class JobPartOut(JobPartIn):
    """What was read of a job, short forms written out."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_serialization_defaults_required=True
    )

    method: MethodIn | None = None
    precision: PrecisionIn | None = None
    optimizer: OptimizerIn | None = None
    activation_checkpointing: CheckpointingIn | None = None

    @classmethod
    def from_domain(cls, job: JobDescription) -> Self:
        """Return the wire shape of a description; its values were validated on their way in."""
        return _written(cls, job)


class JobOut(JobPartOut):
    """The job as it was understood: every field filled, short forms written out.

    It is a valid ``JobIn``: sent again it gives the same job, whatever defaults change meanwhile.
    """

    model: ModelIn


_Shape = TypeVar("_Shape", bound=WireIn)


def _written(shape: type[_Shape], value: object) -> _Shape:
    """Return a domain value in its wire shape, part by part."""
    fields = {name: getattr(value, name) for name in shape.model_fields}
    for name in fields.keys() & _PARTS.keys():
        fields[name] = _written(_PARTS[name], fields[name])
    construct: Any = shape.model_construct
    written: _Shape = construct(**fields)
    return written


_PARTS: Mapping[str, type[WireIn]] = {
    "model": ModelIn,
    "method": MethodIn,
    "precision": PrecisionIn,
    "optimizer": OptimizerIn,
    "activation_checkpointing": CheckpointingIn,
    "parallelism": ParallelismIn,
    "sharding": ShardingIn,
    "buckets": BucketsIn,
    "hardware": HardwareIn,
    "software": SoftwareIn,
}
