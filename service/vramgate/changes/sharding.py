"""Changes of who holds the states: sharded over data-parallel ranks, or in host memory."""

from dataclasses import dataclass, replace

from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.situation import Situation
from vramgate.costmodel.job import OptimizerName, ShardingImplementation
from vramgate.jobs.description import BucketsDescription, ShardingDescription
from vramgate.jobs.method import BITSANDBYTES_4BIT
from vramgate.jobs.sharding import FSDP, FULL_SHARD
from vramgate.jobs.vocabulary import Offload

GRADIENTS = 2
STATES = 1
_WHOLE = frozenset({ShardingImplementation.NONE, ShardingImplementation.DDP})
_ONE_PROCESS = frozenset({"unsloth"})
"""Frameworks whose models no engine shards."""
_ON_HOST = frozenset({OptimizerName.ADAMW, OptimizerName.LION, OptimizerName.ADAGRAD})
"""Optimizers with a CPU kernel: DeepSpeed ``csrc/{adam,lion,adagrad}``."""
_BITSANDBYTES_8BIT = frozenset(
    {
        OptimizerName.ADAMW_8BIT,
        OptimizerName.PAGED_ADAMW_8BIT,
        OptimizerName.LION_8BIT,
        OptimizerName.PAGED_LION_8BIT,
    }
)

_COSTS = {
    STATES: "no more is sent than data parallelism sends (ZeRO, arXiv 1910.02054, section 7);"
    " parameters are gathered after the step",
    GRADIENTS: "no more is sent than data parallelism sends (ZeRO, arXiv 1910.02054, section 7)",
    FULL_SHARD: "1.5 times what data parallelism sends (ZeRO, arXiv 1910.02054, section 7); the"
    " network decides how much of it shows",
}
_SHARDED = {
    STATES: "each rank holds its share of the optimizer states",
    GRADIENTS: "each rank holds its share of optimizer states and gradients",
    FULL_SHARD: "each rank holds its share of optimizer states, gradients and weights",
}


def more_sharding(situation: Situation) -> tuple[Edit, ...]:
    """Offer gradients reduced at once under FSDP, and each higher stage, where ranks can share."""
    sharding = situation.job.sharding
    if situation.replicas == 1 or situation.framework in _ONE_PROCESS:
        return ()
    engine = _engine(situation)
    accumulates = int(situation.job.gradient_accumulation_steps) > 1
    waits = engine in FSDP and accumulates and not sharding.sync_each_micro_batch
    stages = _stages(situation, engine)
    return (
        *((_synchronised(),) if waits else ()),
        *(_stage_edit(situation, engine, stage) for stage in stages),
    )


def _stage_edit(situation: Situation, engine: ShardingImplementation, stage: int) -> Edit:
    return Edit(
        kind=ChangeKind.SHARDING,
        sets=(("sharding", _sharded(situation, engine, stage)),),
        to=f"sharding to {engine.value} with zero_stage {stage}",
        why=_SHARDED[stage],
        slowdown=None,
        cost=_COSTS[stage],
    )


def _engine(situation: Situation) -> ShardingImplementation:
    now = situation.job.sharding.implementation
    return situation.defaults.sharding.shards.value if now in _WHOLE else now


def _stages(situation: Situation, engine: ShardingImplementation) -> tuple[int, ...]:
    """Return the stages above the present one that an engine has for this job.

    DeepSpeed's pipelines take stage 1 only; FSDP has no stage 1 and does not hold bitsandbytes'
    8-bit states; Megatron-LM's distributed optimizer is stage 1; of quantised bases the 4-bit ones
    of bitsandbytes shard.
    """
    job = situation.job
    wanted: tuple[int, ...] = (GRADIENTS, FULL_SHARD)
    piped = job.parallelism.pipeline_parallel_size > 1
    if engine is ShardingImplementation.MEGATRON or (
        engine is ShardingImplementation.DEEPSPEED and piped
    ):
        wanted = (STATES,)
    if engine in FSDP and job.optimizer.name in _BITSANDBYTES_8BIT:
        wanted = ()
    if job.method.quantization is not None and job.method.quantization not in BITSANDBYTES_4BIT:
        wanted = tuple(stage for stage in wanted if stage < FULL_SHARD)
    return tuple(stage for stage in wanted if stage > job.sharding.zero_stage)


def _sharded(
    situation: Situation, engine: ShardingImplementation, stage: int
) -> ShardingDescription:
    """Return the sharding of a stage; buckets and what follows from the stage are left to defaults."""
    said = situation.said.sharding
    if engine is not situation.job.sharding.implementation:
        said = ShardingDescription()
    return replace(
        said,
        implementation=engine,
        zero_stage=stage,
        reshard_after_forward=None,
        buckets=BucketsDescription(),
    )


def _synchronised() -> Edit:
    return Edit(
        kind=ChangeKind.SHARDING,
        sets=(("sharding.sync_each_micro_batch", True),),
        to="sharding.sync_each_micro_batch to true",
        why="between micro-batches a rank keeps its share of the gradients instead of all",
        slowdown=None,
        cost="gradients are reduced in every micro-batch instead of once a step",
    )


def offloading(situation: Situation) -> tuple[Edit, ...]:
    """Offer optimizer states, then parameters, in host memory, where an engine moves them."""
    engine = _engine(situation)
    if situation.framework in _ONE_PROCESS:
        return ()
    if engine is ShardingImplementation.DEEPSPEED:
        return _deepspeed_offload(situation)
    if engine in FSDP and situation.replicas > 1:
        return _fsdp_offload(situation, engine)
    if engine is ShardingImplementation.MEGATRON:
        return _megatron_offload(situation)
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where states rest, under which engine."""

    engine: ShardingImplementation
    stage: int
    optimizer: Offload
    parameters: Offload = Offload.NONE


def _deepspeed_offload(situation: Situation) -> tuple[Edit, ...]:
    job, sharding = situation.job, situation.job.sharding
    if sharding.offload_parameters != Offload.NONE or job.optimizer.name not in _ON_HOST:
        return ()
    piped = job.parallelism.pipeline_parallel_size > 1
    places = []
    engine, now = ShardingImplementation.DEEPSPEED, Offload(sharding.offload_optimizer)
    rest = Offload.CPU if now is Offload.NONE else now
    if now is Offload.NONE:
        stage = max(sharding.zero_stage, STATES if piped else GRADIENTS)
        places.append(_Place(engine=engine, stage=stage, optimizer=rest))
    if not piped and job.method.quantization is None:
        places.append(
            _Place(engine=engine, stage=FULL_SHARD, optimizer=rest, parameters=Offload.CPU)
        )
    return tuple(_offload_edit(situation, place) for place in places)


def _fsdp_offload(situation: Situation, engine: ShardingImplementation) -> tuple[Edit, ...]:
    """Torch's ``CPUOffload`` and ``CPUOffloadPolicy`` move parameters, gradients and states together."""
    job = situation.job
    if job.sharding.offload_parameters != Offload.NONE or job.method.quantization is not None:
        return ()
    if job.optimizer.name in _BITSANDBYTES_8BIT:
        return ()
    place = _Place(engine=engine, stage=FULL_SHARD, optimizer=Offload.CPU, parameters=Offload.CPU)
    return (_offload_edit(situation, place),)


def _megatron_offload(situation: Situation) -> tuple[Edit, ...]:
    """Megatron-LM ``--optimizer-cpu-offload``, over its distributed optimizer, for Adam."""
    job, sharding = situation.job, situation.job.sharding
    if sharding.offload_optimizer != Offload.NONE or job.optimizer.name is not OptimizerName.ADAMW:
        return ()
    stage = max(sharding.zero_stage, STATES)
    place = _Place(engine=ShardingImplementation.MEGATRON, stage=stage, optimizer=Offload.CPU)
    return (_offload_edit(situation, place),)


def _offload_edit(situation: Situation, place: _Place) -> Edit:
    sharding = _sharded(situation, place.engine, place.stage)
    if place.stage == situation.job.sharding.zero_stage:
        sharding = situation.said.sharding
    both = place.parameters is not Offload.NONE
    what = "optimizer states and parameters" if both else "optimizer states"
    return Edit(
        kind=ChangeKind.OFFLOAD,
        sets=(
            (
                "sharding",
                replace(
                    sharding,
                    implementation=place.engine,
                    zero_stage=place.stage,
                    offload_optimizer=place.optimizer,
                    offload_parameters=place.parameters,
                ),
            ),
        ),
        to=f"sharding to {place.engine.value} with zero_stage {place.stage} and {what} in host memory",
        why=f"{what} leave the card",
        slowdown=None,
        cost="the update runs on the host's processors, and its data crosses the link every step",
    )
