"""torchtitan's degrees and batches: parallel sizes, shards, accumulation.

Sources: ``distributed/parallel_dims.py`` (the degrees' product is the world), ``train.py`` of 0.2.2 and
``trainer.py`` of 0.3.0 and b5bcd76c (accumulation), ``distributed/pipeline_parallel.py`` (stages),
``models/llama3/infra/parallelize.py`` (DDP before 0.3, bucket_cap_mb 100) and ``distributed/fsdp.py``.
"""

from dataclasses import dataclass

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.vocabulary import Offload, PipelineSchedule
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.reading import Found, Misread, Reading, Unseen, value_or
from vramgate.launch.settings import Settings

DDP_BUCKET_BYTES = 100 * 2**20

_SCHEDULES = {
    "1f1b": PipelineSchedule.ONE_FORWARD_ONE_BACKWARD,
    "gpipe": PipelineSchedule.GPIPE,
    "interleaved1f1b": PipelineSchedule.INTERLEAVED,
    "loopedbfs": PipelineSchedule.INTERLEAVED,
    "interleavedzerobubble": PipelineSchedule.INTERLEAVED,
    "zbvzerobubble": PipelineSchedule.ZERO_BUBBLE_V,
    "dualpipev": PipelineSchedule.DUALPIPE,
}
_IN_TWO_PARTS = frozenset({PipelineSchedule.INTERLEAVED, PipelineSchedule.ZERO_BUBBLE_V})
_WORLD_HINT = "give the number of devices in hardware.devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """The degrees that were read; 1 where nobody says one."""

    replicate: int
    shard: int
    """-1: what is left of the devices."""
    tensor: int
    pipeline: int
    context: int
    unseen: Unseen | None = None

    @property
    def others(self) -> int:
        """All but the shards."""
        return self.replicate * self.tensor * self.pipeline * self.context


_FIELDS = {
    "tensor_parallel_degree": "parallelism.tensor_parallel_size",
    "pipeline_parallel_degree": "parallelism.pipeline_parallel_size",
    "context_parallel_degree": "parallelism.context_parallel_size",
    "expert_parallel_degree": "parallelism.expert_parallel_size",
}


def degree(settings: Settings, name: str) -> Reading[int]:
    """Return a degree from where releases have had it."""
    return settings.whole(f"parallelism.{name}", f"training.{name}", f"experimental.{name}")


def say_parallelism(settings: Settings, draft: Draft, *, is_toml: bool) -> Degrees:
    """Keep parallel sizes and sharding; return the degrees for the batch."""
    for name, field in _FIELDS.items():
        draft.say(field, degree(settings, name))
    degrees = _degrees(settings)
    if degrees.tensor > 1:
        draft.say(
            "parallelism.sequence_parallel",
            settings.flag("parallelism.enable_sequence_parallel"),
        )
    if degrees.pipeline > 1:
        _say_schedule(settings, draft)
    _say_sharding(settings, degrees, draft, is_toml=is_toml)
    _check_world(settings, degrees, draft)
    return degrees


def _degrees(settings: Settings) -> Degrees:
    readings = {
        name: degree(settings, f"{name}_degree")
        for name in (
            "data_parallel_replicate",
            "data_parallel_shard",
            "tensor_parallel",
            "pipeline_parallel",
            "context_parallel",
        )
    }
    hidden = next((one for one in readings.values() if isinstance(one, Unseen)), None)
    return Degrees(
        replicate=max(1, value_or(readings["data_parallel_replicate"], 1)),
        shard=value_or(readings["data_parallel_shard"], -1),
        tensor=max(1, value_or(readings["tensor_parallel"], 1)),
        pipeline=max(1, value_or(readings["pipeline_parallel"], 1)),
        context=max(1, value_or(readings["context_parallel"], 1)),
        unseen=hidden,
    )


def shards(degrees: Degrees, draft: Draft) -> int | None:
    """Return the shard degree, what is left of the devices filled in; None: nobody knows it."""
    if degrees.unseen is not None:
        return None
    if degrees.shard > 0:
        return degrees.shard
    world = draft.said("hardware.devices")
    return max(1, world.value // degrees.others) if world is not None else None


def _say_schedule(settings: Settings, draft: Draft) -> None:
    """Keep the pipeline's schedule; schedules of several stages a rank have two by default."""
    reading = settings.text("parallelism.pipeline_parallel_schedule")
    if not isinstance(reading, Found):
        draft.say("parallelism.pipeline_schedule", reading)
        return
    schedule = _SCHEDULES.get(reading.value.lower())
    if schedule is None:
        draft.say(
            "parallelism.pipeline_schedule",
            Misread(reading.source, reading.value, f"of {', '.join(_SCHEDULES)}"),
        )
        return
    draft.say("parallelism.pipeline_schedule", Found(schedule, reading.source))
    field = "parallelism.virtual_pipeline_stages"
    layers = settings.whole("parallelism.pipeline_parallel_layers_per_stage")
    if schedule not in _IN_TWO_PARTS:
        return
    if isinstance(layers, Found):
        reason = f"stages of {layers.value} layers: their number depends on the model"
        draft.unknown(field, Unseen(layers.source, reason, "say it in the job"))
    else:
        draft.assume(field, 2, f"torchtitan default ({reading.value})")


def _say_sharding(settings: Settings, degrees: Degrees, draft: Draft, *, is_toml: bool) -> None:
    said = degree(settings, "data_parallel_replicate_degree")
    whole = shards(degrees, draft)
    if degrees.unseen is not None:
        draft.unknown("sharding", degrees.unseen)
    elif degrees.replicate > 1 and isinstance(said, Found):
        _say_replicas(said, whole, degrees, draft, is_toml=is_toml)
    elif degrees.shard > 1:
        shard = degree(settings, "data_parallel_shard_degree")
        if isinstance(shard, Found):
            draft.say("sharding.implementation", Found(ShardingImplementation.FSDP2, shard.source))
    _say_reshard(settings, degrees, draft)
    offloads = settings.flag("training.enable_cpu_offload")
    if isinstance(offloads, Found) and offloads.value:
        draft.say("sharding.offload_parameters", Found(Offload.CPU, offloads.source))
    elif not isinstance(offloads, Found):
        draft.say("sharding.offload_parameters", offloads)


def _say_replicas(
    said: Found[int], whole: int | None, degrees: Degrees, draft: Draft, *, is_toml: bool
) -> None:
    """Replicas of shards are hybrid; replicas alone DDP before 0.3, FSDP2 over one rank since."""
    if whole is None:
        reason = "the shards are what is left of the devices"
        draft.unknown("sharding.shard_group_size", Unseen(said.source, reason, _WORLD_HINT))
    elif whole == 1 and is_toml and degrees.context == 1:
        draft.say("sharding.implementation", Found(ShardingImplementation.DDP, said.source))
        draft.assume("sharding.buckets.ddp_bytes", DDP_BUCKET_BYTES, "torchtitan (bucket_cap_mb)")
        return
    else:
        draft.say("sharding.shard_group_size", Found(whole, said.source))
    draft.say("sharding.implementation", Found(ShardingImplementation.FSDP2, said.source))


def _say_reshard(settings: Settings, degrees: Degrees, draft: Draft) -> None:
    """``distributed/fsdp.py``: always, never, or only without a pipeline."""
    reading = settings.text("parallelism.fsdp_reshard_after_forward")
    field = "sharding.reshard_after_forward"
    if reading is None and degrees.pipeline > 1:
        reading = Found("default", "torchtitan default (fsdp_reshard_after_forward)")
    if not isinstance(reading, Found):
        draft.say(field, reading)
    elif reading.value not in {"always", "never", "default"}:
        draft.say(field, Misread(reading.source, reading.value, "default, always or never"))
    elif reading.value == "never" or (reading.value == "default" and degrees.pipeline > 1):
        draft.say(field, Found(value=False, source=reading.source))
    elif reading.value == "always":
        draft.say(field, Found(value=True, source=reading.source))


def _check_world(settings: Settings, degrees: Degrees, draft: Draft) -> None:
    """``parallel_dims.py``: "Invalid parallel dims: … != WORLD_SIZE"."""
    world = draft.said("hardware.devices")
    if world is None or degrees.unseen is not None:
        return
    left = degrees.shard if degrees.shard > 0 else max(1, world.value // degrees.others)
    if degrees.others * left == world.value:
        return
    names = (
        "data_parallel_replicate",
        "data_parallel_shard",
        *(n.removesuffix("_degree") for n in _FIELDS),
    )
    said = {
        one.source: one.value
        for name in names
        if name != "expert_parallel"
        and isinstance(one := degree(settings, f"{name}_degree"), Found)
    }
    draft.problem(
        Problem(
            rule="degrees_are_not_the_world",
            detail=f"the degrees' product {degrees.others * left} is not the {world.value} devices",
            fix="change a degree, or leave data_parallel_shard_degree at -1",
            values={**said, world.source: world.value},
            field="hardware.devices",
        )
    )
