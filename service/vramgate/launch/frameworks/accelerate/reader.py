"""accelerate: its YAML, the flags of ``accelerate launch`` and the variables that these become.

- ``say_accelerate(settings, context)``: a configuration or flags, by the names of the YAML; sections are
  objects, or their keys stand beside the others; ``config_file`` names a file to read under them.
- ``accelerate_world(resolved, place)``: the processes they start.

Sources: accelerate 1.15.0 ``commands/launch.py``, ``utils/launch.py``, ``utils/dataclasses.py``;
transformers 5.24.0 ``training_args.py``: a Trainer's own bf16 and fp16 go before
``ACCELERATE_MIXED_PRECISION``.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.job import ShardingImplementation
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.accelerate.deepspeed import say_deepspeed_section
from vramgate.launch.frameworks.accelerate.megatron import say_megatron_section
from vramgate.launch.frameworks.accelerate.parallelism import say_parallelism
from vramgate.launch.frameworks.accelerate.precision import say_mixed_precision
from vramgate.launch.frameworks.accelerate.settings import (
    DEFAULT_FILE,
    Resolved,
    flattened,
    with_config_file,
)
from vramgate.launch.frameworks.deepspeed.reader import settle_precision
from vramgate.launch.frameworks.fsdp import say_fsdp
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Reading, Unseen, converted, value_or
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.world import EveryDevice, World, say_world

_MODES = {
    "use_deepspeed": "DEEPSPEED",
    "use_fsdp": "FSDP",
    "use_megatron_lm": "MEGATRON_LM",
    "multi_gpu": "MULTI_GPU",
    "tpu": "XLA",
    "cpu": "MULTI_CPU",
}
_EXCLUSIVE = ("cpu", "multi_gpu", "tpu", "use_deepspeed", "use_fsdp")
_ALONE = "NO"
_NOT_GPUS = frozenset({"XLA", "MULTI_CPU"})


def say_accelerate(settings: Settings, context: Context) -> None:
    """Say what accelerate's configuration decides.

    Raises:
        UnreadableLaunchError: its file was sent and holds no object.
    """
    resolved = with_config_file(settings, context.files)
    draft, all_settings = context.draft, resolved.settings
    flat = flattened(all_settings)
    if "num_processes" in flat:
        say_world(accelerate_world(resolved, "accelerate"), draft, {})
    _check_modes(settings, draft)
    mode = _mode(flat)
    _say_mode(mode, resolved, flat, context)
    if _uses_parallelism(all_settings, flat):
        _check_parallelism(settings, draft)
        say_parallelism(flat, draft)
    _say_compile(flat, draft)
    if isinstance(settings.get("config_file"), Setting):
        _require_processes(resolved, flat, draft)


def _say_mode(mode: Reading[str], resolved: Resolved, flat: Settings, context: Context) -> None:
    """Say the engine that shares the work, and the precision as it runs it."""
    draft, source = context.draft, _source(mode)
    name = mode.value if isinstance(mode, Found) else ""
    if name == "DEEPSPEED":
        say_deepspeed_section(resolved.settings, flat, source, context)
        return
    say_mixed_precision(flat, draft)
    unseen = mode if isinstance(mode, Unseen) else resolved.unseen
    if name == "FSDP":
        say_fsdp(flat, context)
    elif name == "MEGATRON_LM":
        say_megatron_section(flat, source, draft)
        settle_precision(draft)
    elif name.startswith("MULTI_"):
        draft.say("sharding.implementation", Found(ShardingImplementation.DDP, source))
    elif not name and unseen is not None:
        draft.unknown("sharding", unseen)
    if name in _NOT_GPUS:
        draft.warn(
            "not_on_gpus", f"{source}: this does not train on GPUs; it is counted as if it did."
        )


def _mode(flat: Settings) -> Reading[str]:
    """Return how processes share the work: a flag says it before the file's ``distributed_type``."""
    for flag, mode in _MODES.items():
        switch = flat.flag(flag)
        if isinstance(switch, Found) and switch.value:
            return Found(mode, switch.source)
    said = flat.value("distributed_type")
    if isinstance(said, Found) and said.value is False:  # YAML reads NO as false
        return Found(_ALONE, said.source)
    return converted(flat.text("distributed_type"), str.upper)


def _source(mode: Reading[str]) -> str:
    return mode.source if mode is not None else ""


def accelerate_world(resolved: Resolved, place: str) -> World:
    """Return the processes that ``accelerate launch`` starts: ``num_processes`` counts all machines'."""
    flat = flattened(resolved.settings)
    mode = _mode(flat)
    if isinstance(mode, Found) and mode.value == _ALONE:
        return World(total=Found(1, mode.source), nodes=Found(1, mode.source))
    total, nodes = flat.whole("num_processes"), flat.whole("num_machines")
    if nodes is None:
        nodes = Found(1, "accelerate default (num_machines)")
    if total is not None:
        return World(total=total, nodes=nodes)
    if resolved.unseen is not None:
        return World(total=resolved.unseen)
    return World(nodes=nodes, per_node=EveryDevice(source=place, what="accelerate launch"))


def _check_modes(flags: Settings, draft: Draft) -> None:
    on = [flag for flag in _EXCLUSIVE if value_or(flags.flag(flag), default=False)]
    if len(on) > 1:
        draft.problem(
            Problem(
                rule="accelerate_modes_conflict",
                detail=f"accelerate launch takes one of {', '.join(f'--{flag}' for flag in on)} at a time",
                fix=f"leave --{on[-1]} out",
                values={flags[flag].source: True for flag in on},
                field="sharding.implementation",
            )
        )


def _uses_parallelism(settings: Settings, flat: Settings) -> bool:
    section = settings.get("parallelism_config")
    has_section = section is not None and isinstance(section.said, Mapping) and bool(section.said)
    return has_section or value_or(flat.flag("use_parallelism_config"), default=False)


def _check_parallelism(flags: Settings, draft: Draft) -> None:
    """Report what ``accelerate launch`` refuses: the flag without ``--use_fsdp``."""
    switch = flags.flag("use_parallelism_config")
    by_flag = isinstance(switch, Found) and flags["use_parallelism_config"].said == ()
    if by_flag and not value_or(flags.flag("use_fsdp"), default=False):
        draft.problem(
            Problem(
                rule="parallelism_without_fsdp2",
                detail="--use_parallelism_config needs --use_fsdp and --fsdp_version 2",
                fix="add --use_fsdp --fsdp_version 2",
                values={flags["use_parallelism_config"].source: True},
                field="parallelism",
            )
        )


def _say_compile(flat: Settings, draft: Draft) -> None:
    backend = flat.text("dynamo_backend")
    if isinstance(backend, Found) and backend.value.lower() in {"no", "false"}:
        return
    draft.say("compile", converted(backend, lambda _: True))


def _require_processes(resolved: Resolved, flat: Settings, draft: Draft) -> None:
    """Report a file without ``num_processes``: ``accelerate launch`` then wants the flag."""
    mode = _mode(flat)
    is_alone = isinstance(mode, Found) and mode.value == _ALONE
    if resolved.unseen is None and "num_processes" not in flat and not is_alone:
        place = resolved.settings["config_file"].source
        draft.problem(
            Problem(
                rule="num_processes_missing",
                detail=f"the file of {place} has no num_processes, and no flag says it",
                fix="give --num_processes",
                values={place: value_or(resolved.settings.text("config_file"), "")},
                field="hardware.devices",
            )
        )


def note_default_file(settings: Settings, context: Context) -> None:
    """Warn that a file out of sight may say more, where no file is named."""
    if "config_file" not in settings and not isinstance(
        with_config_file(settings, context.files).settings.get("distributed_type"), Setting
    ):
        context.draft.warn(
            "accelerate_default_config",
            f"accelerate launch without --config_file reads {DEFAULT_FILE} where there is one; only its"
            " flags were read. Send the file under that name, or name one.",
        )


def note_unseen_precision(settings: Settings, context: Context) -> None:
    """Name the precision as out of sight where only a file that was not sent may say it."""
    unseen = with_config_file(settings, context.files).unseen
    if unseen is not None and context.draft.said("precision.compute") is None:
        context.draft.unknown("precision", unseen)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Read accelerate's YAML as an object."""
    context.draft.say("software.framework", Found("accelerate", name))
    settings = {
        str(key): Setting(said=said, source=f"{name}: {key}") for key, said in config.items()
    }
    say_accelerate(Settings(settings), context)
