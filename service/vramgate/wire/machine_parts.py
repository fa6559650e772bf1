"""The parts of a job that say where it runs: parallelism, sharding, hardware, software."""

from typing import Annotated

from pydantic import Field

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.description import (
    BucketsDescription,
    HardwareDescription,
    ParallelismDescription,
    ShardingDescription,
    SoftwareDescription,
)
from vramgate.jobs.vocabulary import Offload, PipelineSchedule, Wrap
from vramgate.wire.job_parts import Layers, WireIn
from vramgate.wire.numbers import (
    MAX_BYTES,
    WHOLE,
    ByteCount,
    ElementCount,
    Flag,
    Fraction,
    Size,
    Text,
)


class ParallelismIn(WireIn):
    """Model-parallel sizes; the data-parallel size is what is left of the devices."""

    tensor_parallel_size: Size | None = None
    pipeline_parallel_size: Size | None = None
    context_parallel_size: Size | None = None
    expert_parallel_size: Size | None = None
    sequence_parallel: Flag | None = None
    pipeline_schedule: PipelineSchedule | None = None
    virtual_pipeline_stages: Layers | None = None

    def to_domain(self) -> ParallelismDescription:
        """Return the domain value."""
        return ParallelismDescription(
            tensor_parallel_size=self.tensor_parallel_size,
            pipeline_parallel_size=self.pipeline_parallel_size,
            context_parallel_size=self.context_parallel_size,
            expert_parallel_size=self.expert_parallel_size,
            sequence_parallel=self.sequence_parallel,
            pipeline_schedule=self.pipeline_schedule,
            virtual_pipeline_stages=self.virtual_pipeline_stages,
        )


class BucketsIn(WireIn):
    """Communication buckets, in elements; DDP's in bytes."""

    reduce_elements: ElementCount | None = None
    allgather_elements: ElementCount | None = None
    prefetch_elements: ElementCount | None = None
    max_live_elements: ElementCount | None = None
    ddp_bytes: ByteCount | None = None

    def to_domain(self) -> BucketsDescription:
        """Return the domain value."""
        return BucketsDescription(
            reduce_elements=self.reduce_elements,
            allgather_elements=self.allgather_elements,
            prefetch_elements=self.prefetch_elements,
            max_live_elements=self.max_live_elements,
            ddp_bytes=self.ddp_bytes,
        )


class ShardingIn(WireIn):
    """Sharding of the states over data-parallel ranks."""

    implementation: ShardingImplementation | None = None
    zero_stage: Annotated[int, Field(ge=0, le=3), WHOLE] | None = None
    shard_group_size: Size | None = None
    reshard_after_forward: Flag | None = None
    wrap: Wrap | None = None
    sync_each_micro_batch: Flag | None = None
    offload_optimizer: Offload | None = None
    offload_parameters: Offload | None = None
    offload_fraction: Fraction | None = None
    buckets: BucketsIn | None = None

    def to_domain(self) -> ShardingDescription:
        """Return the domain value."""
        return ShardingDescription(
            implementation=self.implementation,
            zero_stage=self.zero_stage,
            shard_group_size=self.shard_group_size,
            reshard_after_forward=self.reshard_after_forward,
            wrap=self.wrap,
            sync_each_micro_batch=self.sync_each_micro_batch,
            offload_optimizer=self.offload_optimizer,
            offload_parameters=self.offload_parameters,
            offload_fraction=self.offload_fraction,
            buckets=self.buckets.to_domain() if self.buckets else BucketsDescription(),
        )


class HardwareIn(WireIn):
    """The cards."""

    accelerator: Text | None = None
    devices: Size | None = None
    devices_per_node: Size | None = None
    device_memory_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES), WHOLE] | None = None
    occupied_bytes: ByteCount | None = None

    def to_domain(self) -> HardwareDescription:
        """Return the domain value."""
        return HardwareDescription(
            accelerator=self.accelerator,
            devices=self.devices,
            devices_per_node=self.devices_per_node,
            device_memory_bytes=self.device_memory_bytes,
            occupied_bytes=self.occupied_bytes,
        )


class SoftwareIn(WireIn):
    """The framework and its versions."""

    framework: Text | None = None
    stack: Text | None = None
    expandable_segments: Flag | None = None

    def to_domain(self) -> SoftwareDescription:
        """Return the domain value."""
        return SoftwareDescription(
            framework=self.framework,
            stack=self.stack,
            expandable_segments=self.expandable_segments,
        )
