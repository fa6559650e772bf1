"""accelerate's ``ParallelismConfig``: ``parallelism_config_{dp_replicate,dp_shard,tp,cp,sp}_size``.

Source: accelerate 1.15.0 ``parallelism_config.py`` (``__post_init__``, ``_validate_accelerator``),
``commands/launch.py`` (``_validate_launch_command``).
"""

from collections.abc import Mapping
from math import prod

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.reading import Found, Misread, Reading
from vramgate.launch.settings import Settings

_PREFIX = "parallelism_config_"
_NAMES = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
_FIELD = "parallelism"


def say_parallelism(settings: Settings, draft: Draft) -> None:
    """Say the sizes; a size of 1 is as if nobody had said it."""
    readings = {name: settings.whole(f"{_PREFIX}{name}_size", f"{name}_size") for name in _NAMES}
    for reading in readings.values():
        if isinstance(reading, Misread):
            draft.misread(_FIELD, reading)
    draft.say("parallelism.tensor_parallel_size", _large(readings["tp"]))
    for name in (
        "sp",
        "cp",
    ):  # Ulysses and ring attention: each rank holds a part of every sequence
        draft.say("parallelism.context_parallel_size", _large(readings[name]))
    if _large(readings["dp_replicate"]) is not None:
        draft.say("sharding.shard_group_size", _large(readings["dp_shard"]))
    said = {name: one for name, one in readings.items() if isinstance(one, Found)}
    _check(said, draft)


def _large(reading: Reading[int]) -> Reading[int]:
    return None if isinstance(reading, Found) and reading.value <= 1 else reading


def _check(said: Mapping[str, Found[int]], draft: Draft) -> None:
    sizes = {name: said[name].value if name in said else 1 for name in _NAMES}
    if any(size < 1 for size in sizes.values()):
        low = next(one for one in said.values() if one.value < 1)
        draft.misread(_FIELD, Misread(low.source, low.value, "a whole number of 1 or more"))
        return
    if sizes["cp"] > 1 and sizes["sp"] > 1:
        _report(
            draft,
            {"cp": said["cp"], "sp": said["sp"]},
            "context_with_sequence_parallelism",
            "cp_size and sp_size exclude each other",
            "set one of them to 1",
        )
    elif (sizes["tp"] > 1 or sizes["cp"] > 1) and sizes["dp_replicate"] > 1 >= sizes["dp_shard"]:
        _report(
            draft,
            {name: one for name, one in said.items() if one.value > 1},
            "replicas_with_tensor_parallelism",
            "tp or cp with dp_replicate_size needs dp_shard_size above 1",
            "shard over some ranks, or set dp_replicate_size to 1",
        )
    _check_total(said, prod(sizes.values()), draft, is_ulysses=sizes["sp"] > 1)


def _check_total(
    said: Mapping[str, Found[int]], total: int, draft: Draft, *, is_ulysses: bool
) -> None:
    devices = draft.said("hardware.devices")
    if devices is None or is_ulysses or total in {1, devices.value}:
        return
    _report(
        draft,
        {**said, "devices": devices},
        "parallel_sizes_mismatch",
        f"the sizes of parallelism_config multiply to {total}, and {devices.value} processes start",
        "let dp_replicate × dp_shard × tp × cp × sp be num_processes",
    )


def _report(draft: Draft, said: Mapping[str, Found[int]], rule: str, detail: str, fix: str) -> None:
    draft.problem(
        Problem(
            rule=rule,
            detail=detail,
            fix=fix,
            values={one.source: one.value for one in said.values()},
            field=_FIELD,
        )
    )
