"""FrameworkDefaults: what a framework does where nobody says otherwise."""

from dataclasses import dataclass

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
from vramgate.jobs.ledger import Default
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import OptimizerImplementation, Quantization


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodDefaults:
    """What trains, for what."""

    kind: Default[MethodKind]
    task: Default[Task]
    trainable_layers: Default[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionDefaults:
    """Number formats by what trains."""

    full: Default[PrecisionPreset]
    adapters: Default[PrecisionPreset]
    quantized: Default[PrecisionPreset]
    """Around a quantised base."""
    autocast_16bit_weights: Default[bool]
    """Whether matrix products run under autocast although the weights are 16-bit already."""
    follows_checkpoint: bool = False
    """Whether weights are loaded in the dtype they are stored in, which bf16 stands for here."""
    fp16_without_bf16: bool = False
    """Whether a card without bf16 gets fp16 instead, of the framework's own accord."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterDefaults:
    """Adapters, and the quantised base under them."""

    rank: Default[int]
    target_modules: Default[str | tuple[str, ...]] | None
    """None: peft's table by model type."""
    dropout: Default[float]
    dtype: Default[Dtype | None]
    """None: adapters take the dtype of the base weights."""
    kbit_dtype: Default[Dtype | None]
    """The same over a quantised base."""
    quantization: Default[Quantization]
    double_quant: Default[bool]
    prepare_for_kbit_training: Default[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerDefaults:
    """The optimizer and how its step runs."""

    name: Default[OptimizerName]
    implementation: Default[OptimizerImplementation]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDefaults:
    """Sizes of a step."""

    micro_batch_size: Default[int]
    sequence_length: Default[int] | None
    """None: the framework has none; see ``sequence_is_models``."""
    packing: Default[Packing]
    accumulation: Default[int]
    global_batch_size: Default[int] | None = None
    """Where accumulation follows from a global batch instead."""
    sequence_is_models: bool = False
    """Whether rows grow to the longest the model reads where nobody bounds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointingDefaults:
    """Activation checkpointing."""

    mode: Default[CheckpointMode]
    reentrant: Default[bool]
    """See ``training.find_checkpointing`` for what sharding changes."""
    offload: Default[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDefaults:
    """Which code runs."""

    attention: Default[AttentionImplementation] | None
    """None: transformers decides by model type and version."""
    loss: Default[Loss]
    fused: Default[tuple[str, ...]]
    compile: Default[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingDefaults:
    """How ranks share the model's states."""

    replicas: Default[ShardingImplementation]
    """What runs on several devices when no sharding was named."""
    shards: Default[ShardingImplementation]
    """What is meant by a ZeRO stage above 0 without an implementation."""
    stage: Default[int]
    """DeepSpeed's stage where none was said."""
    sync_each_micro_batch: Default[bool]
    """FSDP: whether gradients are reduced after each accumulated micro-batch."""
    sequence_parallel: Default[bool]
    """With tensor parallelism."""
    bucket: Default[int]
    """DeepSpeed's reduce and all-gather buckets below stage 3, in elements."""
    auto_buckets: bool = False
    """Whether stage 3 takes its buckets from the hidden size (``"auto"``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkDefaults:
    """One framework's defaults, for one stack of versions."""

    name: str
    method: MethodDefaults
    precision: PrecisionDefaults
    adapters: AdapterDefaults
    optimizer: OptimizerDefaults
    batch: BatchDefaults
    checkpointing: CheckpointingDefaults
    kernels: KernelDefaults
    sharding: ShardingDefaults
