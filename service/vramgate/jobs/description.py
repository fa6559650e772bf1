"""JobDescription: what a person said about a training run; None is what nobody said.

The fields are those of the published interface (``openapi/``), nested the same way. Short forms (``"method":
"lora"``) are already objects here; a precision preset is already its object
(``precision.preset_description``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Loss,
    MethodKind,
    OptimizerName,
    Packing,
    ShardingImplementation,
    Task,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """The model: exactly one of a catalog name, a Hugging Face ``config.json`` and a parameter count."""

    name: str | None = None
    config: Mapping[str, object] | None = None
    parameters: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodDescription:
    """Which parameters train, and how the adapters and the frozen base look."""

    kind: MethodKind | None = None
    rank: int | None = None
    target_modules: str | tuple[str, ...] | None = None
    dropout: float | None = None
    dora: bool | None = None
    modules_to_save: tuple[str, ...] | None = None
    adapter_dtype: Dtype | None = None
    frozen_dtype: Dtype | None = None
    quantization: str | None = None
    double_quant: bool | None = None
    prepare_for_kbit_training: bool | None = None
    trainable_layers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionDescription:
    """Number formats of weights, products, gradients and states."""

    weights: Dtype | None = None
    compute: Dtype | None = None
    autocast: bool | None = None
    gradients: Dtype | None = None
    master_weights: bool | None = None
    optimizer_states: Dtype | None = None
    linear: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerDescription:
    """The optimizer and how its step runs."""

    name: OptimizerName | None = None
    implementation: str | None = None
    in_backward: bool | None = None
    rank: int | None = None
    quantized: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointingDescription:
    """Activation checkpointing."""

    mode: CheckpointMode | None = None
    every_n_layers: int | None = None
    offload: bool | None = None
    reentrant: bool | None = None
    modules: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelismDescription:
    """Model-parallel sizes."""

    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    context_parallel_size: int | None = None
    expert_parallel_size: int | None = None
    sequence_parallel: bool | None = None
    pipeline_schedule: str | None = None
    virtual_pipeline_stages: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsDescription:
    """Communication buckets, in elements; DDP's in bytes."""

    reduce_elements: int | None = None
    allgather_elements: int | None = None
    prefetch_elements: int | None = None
    max_live_elements: int | None = None
    ddp_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingDescription:
    """Sharding of the states over data-parallel ranks."""

    implementation: ShardingImplementation | None = None
    zero_stage: int | None = None
    shard_group_size: int | None = None
    reshard_after_forward: bool | None = None
    wrap: str | None = None
    sync_each_micro_batch: bool | None = None
    offload_optimizer: str | None = None
    offload_parameters: str | None = None
    offload_fraction: float | None = None
    buckets: BucketsDescription = field(default_factory=BucketsDescription)


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareDescription:
    """The cards."""

    accelerator: str | None = None
    devices: int | None = None
    devices_per_node: int | None = None
    device_memory_bytes: int | None = None
    occupied_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareDescription:
    """The framework and its versions."""

    framework: str | None = None
    stack: str | None = None
    expandable_segments: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription:
    """One training run as somebody described it."""

    model: ModelDescription
    method: MethodDescription = field(default_factory=MethodDescription)
    task: Task | None = None
    precision: PrecisionDescription = field(default_factory=PrecisionDescription)
    optimizer: OptimizerDescription = field(default_factory=OptimizerDescription)
    micro_batch_size: int | None = None
    sequence_length: int | None = None
    gradient_accumulation_steps: int | None = None
    packing: Packing | None = None
    activation_checkpointing: CheckpointingDescription = field(
        default_factory=CheckpointingDescription
    )
    attention: AttentionImplementation | None = None
    loss: Loss | None = None
    fused_kernels: tuple[str, ...] | None = None
    compile: bool | None = None
    parallelism: ParallelismDescription = field(default_factory=ParallelismDescription)
    sharding: ShardingDescription = field(default_factory=ShardingDescription)
    hardware: HardwareDescription = field(default_factory=HardwareDescription)
    software: SoftwareDescription = field(default_factory=SoftwareDescription)
