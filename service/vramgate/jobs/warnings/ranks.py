"""What sharding and model parallelism do that people do not expect."""

from collections.abc import Iterator

from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.costmodel.job import MethodKind, ShardingImplementation
from vramgate.jobs.attention_defaults import runs_transformers_code
from vramgate.jobs.number_formats import HALVES
from vramgate.jobs.rules.case import Case
from vramgate.jobs.sharding import FSDP
from vramgate.jobs.vocabulary import Wrap


def fsdp_alone(case: Case) -> Iterator[EstimateWarning]:
    """One rank has nobody to share with."""
    sharding = case.job.sharding
    if sharding.zero_stage and case.data_parallel_size == 1:
        yield EstimateWarning(
            code="one_rank_shards_nothing",
            message=f"{sharding.implementation.value} stage {sharding.zero_stage} on one data-parallel rank"
            " shards nothing.",
        )


def unwrapped_fsdp(case: Case) -> Iterator[EstimateWarning]:
    """Without an auto-wrap policy the whole model is one unit."""
    sharding = case.job.sharding
    if sharding.implementation in FSDP and sharding.wrap == Wrap.NONE:
        yield EstimateWarning(
            code="whole_model_gathered",
            message="Without wrapping, FSDP gathers the whole model at once; wrap each block.",
        )


def unsynchronised_fsdp(case: Case) -> Iterator[EstimateWarning]:
    """Accumulating without synchronisation keeps whole gradients."""
    sharding, steps = case.job.sharding, int(case.job.gradient_accumulation_steps)
    if sharding.implementation in FSDP and steps > 1 and not sharding.sync_each_micro_batch:
        yield EstimateWarning(
            code="whole_gradients_kept",
            message=f"While {steps} micro-batches accumulate without synchronisation, every rank holds whole"
            " gradients, not its shard; sync_each_micro_batch (accelerate: sync_each_batch) avoids it.",
        )


def accelerate_upcast(case: Case) -> Iterator[EstimateWarning]:
    """Accelerate casts trainable 16-bit parameters to fp32 before FSDP shards them.

    Source: accelerate ``accelerator.py`` and ``utils/fsdp_utils.py``, with mixed precision on.
    """
    precision = case.job.precision
    if (
        case.job.sharding.implementation in FSDP
        and runs_transformers_code(case.framework)
        and precision.autocast
        and precision.weights in HALVES
        and case.job.method.kind is MethodKind.FULL
    ):
        yield EstimateWarning(
            code="fsdp_upcast",
            message="With mixed precision on, accelerate casts trainable 16-bit weights to fp32 before FSDP"
            " shards them: 4 + 4 + 8 bytes a parameter, and 4 more in a foreach step.",
        )


def ddp_on_one(case: Case) -> Iterator[EstimateWarning]:
    """DDP wraps even a single rank, buckets and all."""
    if (
        case.job.sharding.implementation is ShardingImplementation.DDP
        and case.data_parallel_size == 1
    ):
        yield EstimateWarning(
            code="one_rank_ddp",
            message="DDP on one rank keeps its gradient buckets and synchronises nothing.",
        )


def few_micro_batches(case: Case) -> Iterator[EstimateWarning]:
    """A pipeline with fewer micro-batches than stages is mostly idle."""
    stages = case.job.parallelism.pipeline_parallel_size
    steps = int(case.job.gradient_accumulation_steps)
    if stages > 1 and steps < stages:
        yield EstimateWarning(
            code="few_micro_batches",
            message=f"{steps} micro-batches in a pipeline of {stages} stages: with fewer than {stages} the"
            " stages idle and hold less than a full pipeline would.",
        )


def uneven_stages(case: Case) -> Iterator[EstimateWarning]:
    """Layers that the stages do not divide make one stage larger."""
    sizes = case.job.parallelism
    parts = sizes.pipeline_parallel_size * sizes.virtual_pipeline_stages
    layers = case.job.architecture.num_hidden_layers
    if layers % parts:
        yield EstimateWarning(
            code="uneven_stages",
            message=f"{layers} layers over {parts} pipeline parts are uneven; the largest was taken, and"
            " Megatron-LM asks for a layout.",
        )


def copied_heads(case: Case) -> Iterator[EstimateWarning]:
    """More tensor-parallel ranks than key-value heads hold copies."""
    size = int(case.job.parallelism.tensor_parallel_size)
    heads = [
        block.attention.kv_heads
        for block in case.job.architecture.decoder.blocks
        if block.attention
    ]
    if heads and size > min(heads) > 0:
        yield EstimateWarning(
            code="copied_key_value_heads",
            message=f"tensor_parallel_size {size} exceeds {min(heads)} key-value heads: each is held by"
            " several ranks.",
        )
