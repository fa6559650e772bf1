"""DeepSpeed's ``zero_optimization``: stage, offload, buckets, groups; and its parallel sizes.

Source: DeepSpeed 0.19.8 ``runtime/zero/config.py``, ``runtime/zero/offload_config.py``,
``runtime/engine.py``, ``runtime/zero/stage_1_and_2.py``.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.frameworks.hugging_face import DEEPSPEED_BUCKET
from vramgate.jobs.sharding import FULL_SHARD, PREFETCH_BUCKET
from vramgate.jobs.vocabulary import Offload
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.deepspeed.file import DeepSpeedFile
from vramgate.launch.frameworks.deepspeed.keys import check_keys
from vramgate.launch.reading import Found, Misread, Reading, converted, value_or
from vramgate.launch.settings import Settings

STAGE = "sharding.zero_stage"
_ZERO = "zero_optimization"
_BUCKETS = "sharding.buckets."
_DEVICES = {device.value: device for device in Offload}


def say_zero(file: DeepSpeedFile, draft: Draft, *, source: str, hugging_face: bool) -> None:
    """Say how DeepSpeed shards; what was said of sharding before gives way.

    ``source`` is where DeepSpeed was asked for.
    """
    draft.forget("sharding")
    draft.say("sharding.implementation", Found(ShardingImplementation.DEEPSPEED, source))
    zero = file.section(_ZERO)
    stage = say_stage(_stage(file, zero), draft)
    say_offload(
        _device(file, "offload_optimizer", "cpu_offload", draft),
        _device(file, "offload_param", "cpu_offload_param", draft),
        draft,
        stage=stage,
    )
    _say_ratio(file, draft, stage=stage)
    _say_buckets(file, zero, draft, stage=stage, hugging_face=hugging_face)
    _say_groups(zero, draft)
    _say_parallelism(file, draft)
    check_keys(zero, draft)


def _stage(file: DeepSpeedFile, zero: Settings) -> Reading[int]:
    # read_zero_config_deprecated: "zero_optimization": true is stage 1; so is "stage": true.
    for said in (file.settings().value(_ZERO), zero.value("stage")):
        if isinstance(said, Found) and isinstance(said.value, bool):
            return converted(said, int)
    return zero.whole("stage")


def say_stage(stage: Reading[int], draft: Draft) -> int:
    """Say the stage, and return it; above 3 DeepSpeed refuses it."""
    if isinstance(stage, Found) and not 0 <= stage.value <= FULL_SHARD:
        draft.problem(
            Problem(
                rule="zero_stage_above_3",
                detail=f"{stage.source} is {stage.value}; ZeRO has stages 0 to 3",
                fix="write stage 3",
                values={stage.source: stage.value},
                field=STAGE,
            )
        )
        return FULL_SHARD
    draft.say(STAGE, stage)
    return value_or(stage, 0)


def say_offload(
    optimizer: Reading[Offload], parameters: Reading[Offload], draft: Draft, *, stage: int
) -> None:
    """Say where states and parameters rest, as the stage carries it out."""
    if _goes_out(optimizer) and stage == 0:
        _offload_without_stage(optimizer, draft)
    elif isinstance(optimizer, Found) and optimizer.value is Offload.NVME and stage < FULL_SHARD:
        # stage_1_and_2.py knows "not none" only, and keeps the states in host memory.
        draft.warn(
            "deepspeed_nvme_is_cpu",
            f"{optimizer.source} nvme: ZeRO stage {stage} offloads to CPU memory, never to NVMe.",
        )
        optimizer = Found(Offload.CPU, optimizer.source)
    draft.say("sharding.offload_optimizer", optimizer)
    if isinstance(parameters, Found) and _goes_out(parameters) and stage < FULL_SHARD:
        draft.warn(
            "deepspeed_offload_ignored",
            f"{parameters.source} has no effect: ZeRO stage 3 alone offloads parameters, and this is"
            f" stage {stage}.",
        )
    else:
        draft.say("sharding.offload_parameters", parameters)


def _offload_without_stage(device: Reading[Offload], draft: Draft) -> None:
    """Report what fails: DeepSpeedCPUAdam asserts that parameters are on the CPU (ops/adam/cpu_adam.py)."""
    if not isinstance(device, Found):
        return
    draft.problem(
        Problem(
            rule="offload_without_stage",
            detail=f"{device.source} is {device.value.value} with ZeRO stage 0: its CPU optimizer finds no"
            " parameters on the CPU",
            fix="write stage 1, 2 or 3, or leave offload_optimizer out",
            values={device.source: device.value.value},
            field="sharding.offload_optimizer",
        )
    )


def _device(file: DeepSpeedFile, name: str, old_name: str, draft: Draft) -> Reading[Offload]:
    """Return where something rests, from its section or from the deprecated switch."""
    section, zero = file.section(_ZERO, name), file.section(_ZERO)
    old = zero.flag(old_name, "cpu_offload_params" if old_name.endswith("param") else old_name)
    if isinstance(old, Found) and name in zero:
        draft.problem(
            Problem(
                rule="deprecated_key_with_new",
                detail=f"{old.source} is the old name of {name}, and both are given",
                fix=f"leave {old_name} out",
                values={old.source: old.value, zero[name].source: zero[name].said},
                field="sharding",
            )
        )
    if isinstance(old, Found):
        return Found(Offload.CPU if old.value else Offload.NONE, old.source)
    whole = zero.value(name)
    if isinstance(whole, Found) and not isinstance(whole.value, Mapping):
        return Misread(whole.source, whole.value, 'an object with a "device"')
    return offload_device(section.value("device"))


def offload_device(said: Reading[Any]) -> Reading[Offload]:
    """Return an offload device: none, cpu, nvme, in small letters."""
    if not isinstance(said, Found):
        return said
    device = _DEVICES.get(said.value) if isinstance(said.value, str) else None
    if device is None:
        return Misread(said.source, said.value, f"one of {', '.join(_DEVICES)}")
    return Found(device, said.source)


def _goes_out(device: Reading[Offload]) -> bool:
    return isinstance(device, Found) and device.value is not Offload.NONE


def _say_ratio(file: DeepSpeedFile, draft: Draft, *, stage: int) -> None:
    ratio = file.section(_ZERO, "offload_optimizer").number("ratio")
    if not isinstance(ratio, Found):
        draft.say("sharding.offload_fraction", ratio)
        return
    if not 0 <= ratio.value <= 1:
        draft.misread(
            "sharding.offload_fraction", Misread(ratio.source, ratio.value, "a number from 0 to 1")
        )
    elif ratio.value < 1 and stage < FULL_SHARD:
        draft.problem(
            Problem(
                rule="offload_ratio_without_stage_3",
                detail=f"{ratio.source} is {ratio.value}: a part of the states goes out with ZeRO stage 3 only",
                fix="write stage 3, or leave the ratio out",
                values={ratio.source: ratio.value},
                field="sharding.offload_fraction",
            )
        )
    else:
        draft.say("sharding.offload_fraction", ratio)


def _say_buckets(
    file: DeepSpeedFile, zero: Settings, draft: Draft, *, stage: int, hugging_face: bool
) -> None:
    """Say the buckets; ``"auto"`` is left to the resolver, which knows the hidden size.

    For stage 3 the resolver takes Hugging Face's ``"auto"``; what a visible file leaves out is
    DeepSpeed's own default instead.
    """
    draft.say(f"{_BUCKETS}reduce_elements", _elements(zero, "reduce_bucket_size", least=1))
    draft.say(f"{_BUCKETS}allgather_elements", _elements(zero, "allgather_bucket_size"))
    if stage < FULL_SHARD:
        return
    prefetch = _elements(zero, "stage3_prefetch_bucket_size", "prefetch_bucket_size")
    draft.say(f"{_BUCKETS}prefetch_elements", prefetch)
    live = _elements(zero, "stage3_max_live_parameters", "max_live_parameters")
    draft.say(f"{_BUCKETS}max_live_elements", live)
    if hugging_face:
        _assume_bucket(file, "reduce_bucket_size", "reduce_elements", DEEPSPEED_BUCKET.value, draft)
        _assume_bucket(
            file, "stage3_prefetch_bucket_size", "prefetch_elements", PREFETCH_BUCKET, draft
        )


def _elements(zero: Settings, *names: str, least: int = 0) -> Reading[int]:
    """Return a number of elements: 5e8 is one, ``"5e8"`` in quotes is none to DeepSpeed (pydantic)."""
    said = zero.value(*names)
    if isinstance(said, Found) and isinstance(said.value, str) and "e" in said.value.lower():
        return Misread(
            said.source, said.value, "a whole number, without quotes where it is like 5e8"
        )
    number = zero.whole(*names)
    if isinstance(number, Found) and number.value < least:
        return Misread(number.source, number.value, f"a whole number of {least} or more")
    return number


def _assume_bucket(file: DeepSpeedFile, key: str, field: str, elements: int, draft: Draft) -> None:
    if draft.said(f"{_BUCKETS}{field}") is None and not file.is_auto(_ZERO, key):
        draft.assume(f"{_BUCKETS}{field}", elements, f"DeepSpeed default ({key})")


def _say_groups(zero: Settings, draft: Draft) -> None:
    """Say MiCS's groups; hpZ's second copy and ZeRO++'s quantised copies have no field."""
    draft.say("sharding.shard_group_size", zero.whole("mics_shard_size"))
    partition = zero.whole("zero_hpz_partition_size")
    if isinstance(partition, Found) and partition.value > 1:
        draft.warn(
            "zero_plus_plus_second_copy",
            f"{partition.source} {partition.value}: a second copy of the 16-bit weights is kept, split over"
            f" {partition.value} ranks; it is not counted.",
        )
    for key in (
        "zero_quantized_weights",
        "zero_quantized_gradients",
        "zero_quantized_nontrainable_weights",
    ):
        quantized = zero.flag(key)
        if isinstance(quantized, Found) and quantized.value:
            draft.warn(
                "zero_plus_plus_quantized",
                f"{quantized.source}: ZeRO++'s quantised copies are not counted.",
            )


def _say_parallelism(file: DeepSpeedFile, draft: Draft) -> None:
    """Say Ulysses as context parallelism (each rank holds a part of every sequence), and AutoTP."""
    sequence = file.settings().whole("sequence_parallel_size")
    if value_or(sequence, 1) != 1 or not isinstance(sequence, Found | None):
        draft.say("parallelism.context_parallel_size", sequence)
    tensor = file.section("tensor_parallel").whole("autotp_size")
    if value_or(tensor, 0) > 1 or not isinstance(tensor, Found | None):
        draft.say("parallelism.tensor_parallel_size", tensor)
    stages = file.section("pipeline").whole("stages")
    if isinstance(stages, Found) and stages.value > 1:
        draft.warn(
            "pipeline_in_code",
            f"{stages.source} {stages.value}: DeepSpeed's pipelines are built in the script; give"
            " parallelism.pipeline_parallel_size.",
        )
