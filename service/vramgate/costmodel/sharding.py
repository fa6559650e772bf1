"""What data-parallel sharding does to one rank: which share it keeps, what it gathers, what it sends.

Sources: Rajbhandari et al. 2020 (ZeRO, 1910.02054); DeepSpeed ``runtime/zero`` (stage 1-3 buckets); PyTorch FSDP 1
(``torch/distributed/fsdp``) and FSDP 2 (``_composable/fsdp``); Megatron-LM ``distrib_optimizer.py``; accelerate
``utils/fsdp_utils.py`` and ``accelerator.py`` (trainable parameters are raised to fp32 where mixed precision is set).
"""

from dataclasses import dataclass

from vramgate.costmodel.job import (
    CheckpointMode,
    MethodKind,
    ShardingImplementation,
    TrainingJob,
)
from vramgate.costmodel.parallelism import expert_tensor_ranks
from vramgate.units import Bytes, Count, ceil_div, largest, smallest

SHARDS_OPTIMIZER, SHARDS_GRADIENTS, SHARDS_WEIGHTS = 1, 2, 3
"""The ZeRO stage from which each of them is sharded."""


def data_parallel_size(job: TrainingJob) -> Count:
    """Return the ranks that see different data: devices over tensor, pipeline and context sizes."""
    layout = job.parallelism
    model = layout.tensor_parallel_size * layout.pipeline_parallel_size
    return job.hardware.devices // (model * layout.context_parallel_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlan:
    """How the states of a job are spread, and what a rank holds beside its share."""

    implementation: ShardingImplementation
    stage: int
    ranks: Count
    """Ranks a shard is spread over."""
    expert_ranks: Count
    """Ranks that the states of one expert are spread over (expert data parallelism)."""
    gathers: bool
    """Parameters are gathered unit by unit (stage 3)."""
    one_unit: bool
    """The whole model is one unit: gathered from its first use to its last."""
    keeps_gathered: bool
    """Blocks stay gathered from forward to backward."""
    backward_units: int
    """Gathered blocks alive while one block runs backward."""
    forward_units: int
    keeps_inputs: bool
    """FSDP 1 with frozen blocks under reentrant checkpointing: block inputs and their gradients live to the end."""
    flattens_gradients: bool
    """FSDP 1: a unit's gradients are made one by one, then concatenated into the flat parameter's gradient."""
    accumulates_whole: bool
    """Gradients stay unsharded between micro-batches (``no_sync``)."""
    standing_buffer_bytes: Bytes
    """Communication buffers that are never given back."""
    gathered_bytes: Bytes
    """Parameters a framework keeps gathered beyond the running units (ZeRO-3's live parameters)."""

    @property
    def shards_gradients(self) -> bool:
        """Whether a rank keeps only its share of the gradients."""
        return self.stage >= SHARDS_GRADIENTS

    def weights_share(self, size: Bytes, of_experts: Bytes = 0) -> Bytes:
        """Return a rank's share of parameters at rest; ``of_experts``: the part that expert parallelism deals out."""
        return self._share(size, of_experts, from_stage=SHARDS_WEIGHTS)

    def gradients_share(self, size: Bytes, of_experts: Bytes = 0) -> Bytes:
        """Return a rank's share of gradients at rest."""
        return self._share(size, of_experts, from_stage=SHARDS_GRADIENTS)

    def optimizer_share(self, size: Bytes, of_experts: Bytes = 0) -> Bytes:
        """Return a rank's share of optimizer states and master weights."""
        return self._share(size, of_experts, from_stage=SHARDS_OPTIMIZER)

    def _share(self, size: Bytes, of_experts: Bytes, *, from_stage: int) -> Bytes:
        if self.stage < from_stage:
            return size
        return ceil_div(size - of_experts, self.ranks) + ceil_div(of_experts, self.expert_ranks)


def shard_plan(job: TrainingJob, *, parameters: Count, gradient_bytes: Bytes) -> ShardPlan:
    """Return how a job shards; ``gradient_bytes``: all gradients of one rank's model, unsharded."""
    sharding = job.sharding
    implementation = sharding.implementation
    ranks = sharding.shard_group_size
    if ranks is None:
        ranks = data_parallel_size(job) * job.parallelism.context_parallel_size
    stage = sharding.zero_stage
    fully = implementation in {ShardingImplementation.FSDP, ShardingImplementation.FSDP2}
    reentrant = job.checkpointing.mode is not CheckpointMode.NONE and job.checkpointing.reentrant
    adapters = job.method.kind in {MethodKind.LORA, MethodKind.QLORA}
    accumulates = job.gradient_accumulation_steps > 1
    return ShardPlan(
        implementation=implementation,
        stage=stage,
        ranks=ranks,
        expert_ranks=_expert_ranks(job, ranks),
        gathers=stage >= SHARDS_WEIGHTS,
        one_unit=fully and sharding.wrap == "none",
        keeps_gathered=fully and not sharding.reshard_after_forward,
        backward_units=1 if reentrant else 2,
        forward_units=2,
        keeps_inputs=implementation is ShardingImplementation.FSDP and adapters and reentrant,
        flattens_gradients=implementation is ShardingImplementation.FSDP
        and job.method.kind is MethodKind.FULL,
        accumulates_whole=fully and not sharding.sync_each_micro_batch and accumulates,
        standing_buffer_bytes=_standing_bytes(job, gradient_bytes),
        gathered_bytes=_live_bytes(job, parameters),
    )


def _expert_ranks(job: TrainingJob, ranks: Count) -> Count:
    layout = job.parallelism
    if layout.expert_parallel_size == 1:
        return ranks
    group = layout.expert_parallel_size * layout.pipeline_parallel_size * expert_tensor_ranks(job)
    return largest(1, job.hardware.devices // group)


def _standing_bytes(job: TrainingJob, gradient_bytes: Bytes) -> Bytes:
    """Return bytes of buckets that are never given back.

    DDP's hold a second copy of every gradient. DeepSpeed's are allocated whole whatever there is to reduce, twice where
    reduction overlaps backward, the default of stage 3 (``overlap_comm``).
    """
    sharding = job.sharding
    if sharding.implementation is ShardingImplementation.DDP:
        return gradient_bytes
    if sharding.implementation is not ShardingImplementation.DEEPSPEED or not sharding.zero_stage:
        return 0 * gradient_bytes
    buffers = 2 if sharding.zero_stage >= SHARDS_WEIGHTS else 1
    return buffers * sharding.buckets.reduce_elements * job.precision.compute.bytes


def _live_bytes(job: TrainingJob, parameters: Count) -> Bytes:
    """Return bytes of parameters ZeRO-3 keeps gathered for reuse, prefetched ones included."""
    sharding = job.sharding
    if (
        sharding.implementation is not ShardingImplementation.DEEPSPEED
        or sharding.zero_stage < SHARDS_WEIGHTS
    ):
        return 0 * parameters
    buckets = sharding.buckets
    live = smallest(parameters, buckets.max_live_elements + buckets.prefetch_elements)
    return live * job.precision.compute.bytes
