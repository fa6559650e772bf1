"""TrainingJob: everything that changes the memory of a training run, resolved, grouped into the values below.

Nothing here is optional: what a person left out was filled in by ``jobs.resolve``, which lists each default it took.
Numbers that a planner varies (``micro_batch_size``, ``sequence_length``, …) may be int64 arrays; they broadcast.
"""

from dataclasses import dataclass
from enum import StrEnum

from vramgate.costmodel.architecture import ModelArchitecture
from vramgate.units import Count


class Dtype(StrEnum):
    """A number format of weights, gradients or states."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"

    @property
    def bytes(self) -> int:
        """Bytes an element takes."""
        return _BYTES_OF[self]


_BYTES_OF = {Dtype.FP32: 4, Dtype.BF16: 2, Dtype.FP16: 2, Dtype.FP8: 1, Dtype.INT8: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Number formats of a run.

    ``weights`` is the dtype of the parameters the optimizer (or, with ``master_weights``, the model) holds;
    ``autocast`` says whether matrix products cast fp32 tensors to ``compute`` as they go.
    """

    weights: Dtype
    compute: Dtype
    autocast: bool
    gradients: Dtype
    master_weights: bool
    optimizer_states: Dtype
    linear: str | None = None
    """Format of the matrix products where lower than ``compute``: fp8-tensorwise … nvfp4, int8."""


class MethodKind(StrEnum):
    """Which parameters train."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"
    FREEZE = "freeze"


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How the model is trained. The adapter fields matter for lora and qlora only."""

    kind: MethodKind = MethodKind.FULL
    rank: int = 0
    target_modules: str | tuple[str, ...] = ()
    """Names as peft takes them: last path components, a regular expression, or "all-linear"."""
    dropout: float = 0.0
    dora: bool = False
    modules_to_save: tuple[str, ...] = ()
    adapter_dtype: Dtype = Dtype.FP32
    frozen_dtype: Dtype | None = None
    quantization: str | None = None  # nf4 fp4 int8 gptq-int4 gptq-int8 awq-int4 mxfp4
    double_quant: bool = False
    prepare_for_kbit_training: bool = False
    trainable_layers: int = 0
    """freeze: how many of the last layers train; embeddings, final norm and head stay frozen."""


class OptimizerName(StrEnum):
    """Optimizers the model knows."""

    ADAMW = "adamw"
    ADAMW_8BIT = "adamw_8bit"
    ADAMW_4BIT = "adamw_4bit"
    ADAMW_FP8 = "adamw_fp8"
    PAGED_ADAMW = "paged_adamw"
    PAGED_ADAMW_8BIT = "paged_adamw_8bit"
    SGD = "sgd"
    SGD_MOMENTUM = "sgd_momentum"
    ADAFACTOR = "adafactor"
    LION = "lion"
    LION_8BIT = "lion_8bit"
    PAGED_LION_8BIT = "paged_lion_8bit"
    ADAGRAD = "adagrad"
    RMSPROP = "rmsprop"
    MUON = "muon"
    GALORE_ADAMW = "galore_adamw"
    GALORE_ADAMW_8BIT = "galore_adamw_8bit"
    APOLLO = "apollo_adamw"
    APOLLO_MINI = "apollo_mini"
    LOMO = "lomo"
    SHAMPOO = "shampoo"
    SOAP = "soap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """The optimizer and how its step is carried out."""

    name: OptimizerName = OptimizerName.ADAMW
    implementation: str = "foreach"  # foreach | fused | for_loop
    in_backward: bool = False
    rank: int | None = None
    """Rank of the projection (GaLore, APOLLO)."""
    quantized: bool = False
    """The projector is stored in 8 bits (Q-GaLore)."""


class CheckpointMode(StrEnum):
    """How much of a block is recomputed in backward."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointing:
    """Activation checkpointing."""

    mode: CheckpointMode = CheckpointMode.NONE
    every_n_layers: int = 1
    offload: bool = False
    reentrant: bool = False
    modules: tuple[str, ...] = ()
    """selective: which parts are recomputed (core_attn, mlp, moe_act, layernorm, mla_up_proj, …); empty: per-op."""


class AttentionImplementation(StrEnum):
    """Which attention code the framework runs."""

    EAGER = "eager"
    SDPA = "sdpa"
    FLASH_2 = "flash_attention_2"
    FLASH_3 = "flash_attention_3"
    FLEX = "flex"


class Packing(StrEnum):
    """Whether every row has the full length, and which attention mask there is."""

    PACKED = "packed"
    PADDED = "padded"
    PADDING_FREE = "padding_free"


class Loss(StrEnum):
    """How the loss is computed from the hidden states."""

    STANDARD = "standard"
    FUSED = "fused"
    CHUNKED = "chunked"
    FUSED_LINEAR = "fused_linear"


class Task(StrEnum):
    """What the loss needs: logits, pairs, a reference model."""

    PRETRAIN = "pretrain"
    SFT = "sft"
    DPO = "dpo"
    SIMPO = "simpo"
    ORPO = "orpo"
    KTO = "kto"
    REWARD = "reward"
    EMBEDDING = "embedding"
    CLASSIFICATION = "classification"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """Model-parallel sizes; the data-parallel size is what is left of the devices."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    context_parallel_size: int = 1
    expert_parallel_size: int = 1
    sequence_parallel: bool = False
    pipeline_schedule: str = "1f1b"  # 1f1b gpipe interleaved zero_bubble zero_bubble_v dualpipe
    virtual_pipeline_stages: int = 1


class ShardingImplementation(StrEnum):
    """Who shards the states over data-parallel ranks."""

    NONE = "none"
    DDP = "ddp"
    DEEPSPEED = "deepspeed"
    FSDP = "fsdp"
    FSDP2 = "fsdp2"
    MEGATRON = "megatron"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Communication buckets, in elements (DDP's in bytes), resolved to the framework's real defaults."""

    reduce_elements: Count = 0
    allgather_elements: Count = 0
    prefetch_elements: Count = 0
    max_live_elements: Count = 0
    ddp_bytes: Count = 25 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Data-parallel sharding of weights, gradients and optimizer states."""

    implementation: ShardingImplementation = ShardingImplementation.NONE
    zero_stage: int = 0
    shard_group_size: Count | None = None
    """Ranks a shard is spread over; None: all data-parallel ranks."""
    reshard_after_forward: bool = True
    wrap: str = "block"
    sync_each_micro_batch: bool = True
    offload_optimizer: str = "none"  # none | cpu | nvme
    offload_parameters: str = "none"
    offload_fraction: float = 1.0
    buckets: Buckets = Buckets()


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The accelerator as the cost model sees it."""

    name: str
    usable_bytes: int
    compute_capability: tuple[int, int] | None = None
    vendor: str = "NVIDIA"
    architecture: str = ""
    bf16_native: bool = True
    multiprocessors: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The cards of a run."""

    device: Device | None
    """None: no accelerator was named; the answer then has no capacity."""
    devices: Count = 1
    devices_per_node: Count = 8
    occupied_bytes: int = 0
    """Bytes of the card that others hold already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The stack whose rules apply; versions as (major, minor), newest known where unstated."""

    framework: str = "transformers"
    torch: tuple[int, int] = (2, 13)
    transformers: tuple[int, int] = (5, 24)
    peft: tuple[int, int] = (0, 21)
    named: tuple[tuple[str, tuple[int, int]], ...] = ()
    """Components whose version was stated, not inferred, with it."""
    expandable_segments: bool = False

    def stated(self, component: str) -> tuple[int, int] | None:
        """Return a component's version where it was stated."""
        return next((version for name, version in self.named if name == component), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """One training run, complete. Build it with ``jobs.resolve`` unless every field is known."""

    architecture: ModelArchitecture
    method: Method
    task: Task
    precision: Precision
    optimizer: Optimizer
    micro_batch_size: Count
    sequence_length: Count
    gradient_accumulation_steps: int
    packing: Packing
    checkpointing: Checkpointing
    attention: AttentionImplementation
    loss: Loss
    fused_kernels: frozenset[str]
    compile: bool
    parallelism: Parallelism
    sharding: Sharding
    hardware: Hardware
    software: Software
