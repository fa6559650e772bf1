"""How data-parallel ranks share weights, gradients and states."""

from vramgate.costmodel.job import Buckets, Parallelism, Sharding, ShardingImplementation
from vramgate.jobs.frameworks.hugging_face import DEEPSPEED_BUCKET
from vramgate.jobs.ledger import Default, off, on
from vramgate.jobs.setting import Setting
from vramgate.jobs.vocabulary import Offload, Wrap

FSDP = frozenset({ShardingImplementation.FSDP, ShardingImplementation.FSDP2})
FULL_SHARD = 3
_ENGINES = frozenset({"deepspeed", "megatron"})

# DeepSpeed 0.19.8 runtime/zero/config.py, in elements.
PREFETCH_BUCKET = 50_000_000
MAX_LIVE = 1_000_000_000
DDP_BUCKET_BYTES = 25 * 2**20  # torch nn/parallel/distributed.py: bucket_cap_mb None


def find_sharding(setting: Setting, replicas: int, accumulation: int) -> Sharding:
    """Return the sharding complete. ``replicas``: the data-parallel size."""
    said, ledger = setting.said.sharding, setting.ledger
    implementation = said.implementation
    if implementation is None:
        implementation = ledger.take("sharding.implementation", _implementation(setting, replicas))
    stage = said.zero_stage
    if stage is None:
        stage = ledger.take("sharding.zero_stage", _stage(setting, implementation))
    return Sharding(
        implementation=implementation,
        zero_stage=stage,
        shard_group_size=said.shard_group_size,
        reshard_after_forward=_reshard(setting, implementation, stage),
        wrap=_wrap(setting, implementation),
        sync_each_micro_batch=_sync(setting, implementation, accumulation),
        offload_optimizer=said.offload_optimizer or Offload.NONE,
        offload_parameters=said.offload_parameters or Offload.NONE,
        offload_fraction=1.0 if said.offload_fraction is None else said.offload_fraction,
        buckets=_buckets(setting, implementation, stage),
    )


def data_parallel_size(devices: int, parallelism: Parallelism) -> int:
    """Return how many ranks hold the same shard of the model; at least 1."""
    product = (
        int(parallelism.tensor_parallel_size)
        * parallelism.pipeline_parallel_size
        * int(parallelism.context_parallel_size)
    )
    return max(1, devices // product)


def _implementation(setting: Setting, replicas: int) -> Default[ShardingImplementation]:
    said, defaults = setting.said.sharding, setting.defaults.sharding
    asks_shards = (
        said.zero_stage
        or said.shard_group_size
        or said.offload_optimizer not in {None, Offload.NONE}
        or said.offload_parameters not in {None, Offload.NONE}
    )
    if asks_shards and defaults.replicas.value in {
        ShardingImplementation.NONE,
        ShardingImplementation.DDP,
    }:
        return defaults.shards
    if setting.framework in _ENGINES or replicas > 1 or asks_shards:
        return defaults.replicas
    return Default(ShardingImplementation.NONE, "vramgate: one data-parallel rank")


def _stage(setting: Setting, implementation: ShardingImplementation) -> Default[int]:
    if implementation in FSDP:
        return Default(FULL_SHARD, "torch default (FULL_SHARD)")
    said = setting.said.sharding
    if implementation is ShardingImplementation.DEEPSPEED:
        if said.offload_parameters not in {None, Offload.NONE}:
            return Default(FULL_SHARD, "DeepSpeed: offload_param needs stage 3")
        if said.offload_optimizer not in {None, Offload.NONE}:
            return Default(2, "vramgate: offload_optimizer with ZeRO-2")
        return setting.defaults.sharding.stage
    return Default(0, f"{implementation.value}: states are whole on every rank")


def _reshard(setting: Setting, implementation: ShardingImplementation, stage: int) -> bool:
    said = setting.said.sharding.reshard_after_forward
    if said is not None:
        return said
    if implementation not in FSDP:
        return stage == FULL_SHARD
    default = (
        on("torch default (FULL_SHARD)")
        if stage == FULL_SHARD
        else off("torch: SHARD_GRAD_OP keeps parameters gathered")
    )
    return setting.ledger.take("sharding.reshard_after_forward", default)


def _wrap(setting: Setting, implementation: ShardingImplementation) -> str:
    said = setting.said.sharding.wrap
    if said is not None or implementation not in FSDP:
        return said or Wrap.BLOCK
    return setting.ledger.take("sharding.wrap", Default(Wrap.BLOCK, "vramgate: one unit a block"))


def _sync(setting: Setting, implementation: ShardingImplementation, accumulation: int) -> bool:
    said = setting.said.sharding.sync_each_micro_batch
    if said is not None:
        return said
    if implementation not in FSDP or accumulation == 1:
        return True
    return setting.ledger.take(
        "sharding.sync_each_micro_batch", setting.defaults.sharding.sync_each_micro_batch
    )


def _buckets(setting: Setting, implementation: ShardingImplementation, stage: int) -> Buckets:
    """Return the buckets of the implementation; those of the others are empty.

    Sources: DeepSpeed ``zero/config.py``; transformers ``integrations/deepspeed.py`` fills "auto"
    for stage 3 from the hidden size, and its guide's ZeRO-3 files say "auto".
    """
    said, ledger = setting.said.sharding.buckets, setting.ledger
    if implementation is ShardingImplementation.DDP:
        default = Default(DDP_BUCKET_BYTES, "torch default (bucket_cap_mb)")
        return Buckets(
            ddp_bytes=ledger.said_or("sharding.buckets.ddp_bytes", said.ddp_bytes, default)
        )
    if implementation is not ShardingImplementation.DEEPSPEED or stage == 0:
        return Buckets(
            reduce_elements=said.reduce_elements or 0,
            allgather_elements=said.allgather_elements or 0,
            prefetch_elements=said.prefetch_elements or 0,
            max_live_elements=said.max_live_elements or 0,
            ddp_bytes=said.ddp_bytes or 0,
        )
    return _deepspeed_buckets(setting, stage)


def _deepspeed_buckets(setting: Setting, stage: int) -> Buckets:
    said, ledger = setting.said.sharding.buckets, setting.ledger
    name = "sharding.buckets."
    gather = setting.defaults.sharding.bucket if stage < FULL_SHARD else DEEPSPEED_BUCKET
    return Buckets(
        reduce_elements=ledger.said_or(
            f"{name}reduce_elements", said.reduce_elements, _reduce_bucket(setting, stage)
        ),
        allgather_elements=ledger.said_or(
            f"{name}allgather_elements", said.allgather_elements, gather
        ),
        prefetch_elements=(
            ledger.said_or(
                f"{name}prefetch_elements", said.prefetch_elements, _prefetch_bucket(setting)
            )
            if stage == FULL_SHARD
            else said.prefetch_elements or 0
        ),
        max_live_elements=(
            ledger.said_or(f"{name}max_live_elements", said.max_live_elements, _MAX_LIVE)
            if stage == FULL_SHARD
            else said.max_live_elements or 0
        ),
        ddp_bytes=said.ddp_bytes or 0,
    )


def _reduce_bucket(setting: Setting, stage: int) -> Default[int]:
    if stage < FULL_SHARD:
        return setting.defaults.sharding.bucket
    if setting.defaults.sharding.auto_buckets:
        square = setting.model.architecture.hidden_size**2
        return Default(square, "transformers: auto is hidden_size squared")
    return DEEPSPEED_BUCKET


def _prefetch_bucket(setting: Setting) -> Default[int]:
    if setting.defaults.sharding.auto_buckets:
        square = setting.model.architecture.hidden_size**2
        return Default(9 * square // 10, "transformers: auto is 0.9 hidden_size squared")
    return Default(PREFETCH_BUCKET, "DeepSpeed default (stage3_prefetch_bucket_size)")


_MAX_LIVE = Default(MAX_LIVE, "DeepSpeed default (stage3_max_live_parameters)")
