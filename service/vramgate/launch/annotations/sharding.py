"""What a site's words say of sharding and offload."""

from enum import StrEnum

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.vocabulary import Offload
from vramgate.launch.annotations.job_object import choice
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Settings

_MOST_STAGE = 3
_GRADIENTS_STAGE = 2
_FSDP = frozenset({ShardingImplementation.FSDP.value, ShardingImplementation.FSDP2.value})


class _Strategy(StrEnum):
    OFF = "off"
    FULL_SHARD = "full_shard"
    SHARD_GRAD_OP = "shard_grad_op"
    HYBRID = "hybrid"


class _Offloaded(StrEnum):
    NONE = "none"
    OPTIMIZER = "optimizer"
    PARAM = "param"
    BOTH = "both"


def say_zero_stage(settings: Settings, key: str, context: Context) -> None:
    """Say ZeRO's stage."""
    reading = settings.whole(key)
    if isinstance(reading, Found):
        if not 0 <= reading.value <= _MOST_STAGE:
            reading = Misread(reading.source, reading.value, "one of 0, 1, 2, 3")
        else:
            context.draft.settle("sharding")
    context.draft.say("sharding.zero_stage", reading)


def say_fsdp_strategy(settings: Settings, key: str, context: Context) -> None:
    """Say FSDP's strategy; ``fsdp2`` stays where the launch says it."""
    reading = choice(_lower(settings.value(key)), _Strategy)
    draft = context.draft
    if not isinstance(reading, Found):
        draft.say("sharding.zero_stage", reading)
        return
    said = draft.said("sharding.implementation")
    is_fsdp = said is not None and said.value in _FSDP
    if reading.value is _Strategy.OFF:
        if is_fsdp:
            draft.forget("sharding")
            draft.say("sharding.implementation", Found(_replicas(context), reading.source))
        return
    draft.settle("sharding")
    if not is_fsdp:
        draft.say("sharding.implementation", Found(ShardingImplementation.FSDP, reading.source))
    keeps = reading.value is _Strategy.SHARD_GRAD_OP
    stage = _GRADIENTS_STAGE if keeps else _MOST_STAGE
    draft.say("sharding.zero_stage", Found(stage, reading.source))
    draft.say("sharding.reshard_after_forward", Found(not keeps, reading.source))
    if reading.value is _Strategy.HYBRID:
        draft.say("sharding.shard_group_size", _one_node(context, reading.source))


def _lower(reading: Reading[object]) -> Reading[str]:
    if not isinstance(reading, Found):
        return reading
    return Found(str(reading.value).strip().lower(), reading.source)


def _replicas(context: Context) -> ShardingImplementation:
    devices = context.draft.said("hardware.devices")
    is_one = devices is not None and devices.value == 1
    return ShardingImplementation.NONE if is_one else ShardingImplementation.DDP


def _one_node(context: Context, source: str) -> Reading[int]:
    """Return the ranks of a node: what hybrid sharding shards over by default."""
    per_node = context.draft.said("hardware.devices_per_node")
    if per_node is not None:
        return Found(int(per_node.value), source)
    return Unseen(
        source,
        "hybrid sharding spans a node, and nothing says how many devices one has",
        "give vramgate.dev/devices-per-node",
    )


def say_offload(settings: Settings, key: str, context: Context) -> None:
    """Say what rests in the host's memory."""
    reading = choice(_lower(settings.value(key)), _Offloaded)
    draft = context.draft
    if not isinstance(reading, Found):
        draft.say("sharding.offload_optimizer", reading)
        if isinstance(reading, Unseen):
            draft.say("sharding.offload_parameters", reading)
        return
    both = reading.value is _Offloaded.BOTH
    optimizer = Offload.CPU if both or reading.value is _Offloaded.OPTIMIZER else Offload.NONE
    parameters = Offload.CPU if both or reading.value is _Offloaded.PARAM else Offload.NONE
    draft.say("sharding.offload_optimizer", Found(optimizer, reading.source))
    draft.say("sharding.offload_parameters", Found(parameters, reading.source))
