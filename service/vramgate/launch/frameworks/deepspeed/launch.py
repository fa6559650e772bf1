"""The ``deepspeed`` launcher: its options, its hostfile and its filters.

Source: DeepSpeed 0.19.8 ``launcher/runner.py``: ``parse_args``, ``fetch_hostfile``,
``parse_resource_filter``, ``main``.
"""

from collections.abc import Mapping
from functools import partial

from vramgate.launch.draft import Problem
from vramgate.launch.files import Files
from vramgate.launch.launch import Context
from vramgate.launch.option_words import Split, Syntax, split_options, switches, valued
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.step import Step
from vramgate.launch.words import Word
from vramgate.launch.world import EveryDevice, World, unseen_options

_SYNTAX = Syntax(
    values=valued(
        "H hostfile i include e exclude num_nodes num_gpus num_accelerators master_port master_addr"
        " node_rank launcher launcher_args enable_each_rank_log autotuning bind_core_list ssh_port"
        " venv_script log_level world_info min_elastic_nodes max_elastic_nodes"
    ),
    flags=switches(
        "module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid bind_cores_to_rank"
        " q quiet elastic_training h help"
    ),
)
_COUNTS = ("num_nodes", "num_gpus", "num_accelerators")
_INCLUDE, _EXCLUDE = ("include", "i"), ("exclude", "e")


def deepspeed(step: Step, context: Context) -> Step | None:
    """Return the script behind ``deepspeed``."""
    split = split_options(step.words[1:], _SYNTAX)
    if not split.command:
        return None
    options = split.settings()
    return step.inner(
        split.command,
        world=_hidden_world(split) or _world(options, _hosts(options, context.files)),
        is_python="no_python" not in options,
        first=partial(_say_launcher, options),
    )


def _hidden_world(split: Split) -> World | None:
    unseen = unseen_options(split.hidden)
    named = {name for name, _ in split.options} & {*_COUNTS, *_INCLUDE, *_EXCLUDE}
    return None if unseen is None or named else World(total=unseen)


def _say_launcher(options: Settings, context: Context) -> None:
    if "autotuning" in options:
        context.draft.warn(
            "autotuning",
            "deepspeed --autotuning tries other micro-batches and ZeRO stages than the files say.",
        )
    counted = next((options[name].source for name in _COUNTS if name in options), None)
    filtered = next((options[name].source for name in _INCLUDE + _EXCLUDE if name in options), None)
    if counted and filtered:
        context.draft.problem(
            Problem(
                rule="launcher_filters_conflict",
                detail=f"{counted} with {filtered}: deepspeed takes a number or a filter",
                fix=f"leave {counted.rpartition(' ')[2]} out",
                values={
                    counted: _text(options, *_COUNTS),
                    filtered: _text(options, *_INCLUDE, *_EXCLUDE),
                },
                field="hardware.devices",
            )
        )


def _text(options: Settings, *names: str) -> str | None:
    said = options.text(*names)
    return said.value if isinstance(said, Found) else None


def _world(options: Settings, hosts: Reading[Mapping[str, int]]) -> World:
    include, exclude = options.text(*_INCLUDE), options.text(*_EXCLUDE)
    for said in (include, exclude):
        if isinstance(said, Unseen):
            return World(total=said)
    known = hosts.value if isinstance(hosts, Found) else {}
    if isinstance(include, Found):
        return _slots_world(_included(include.value, known), include.source)
    if isinstance(exclude, Found) and known:
        return _slots_world(_excluded(exclude.value, known), exclude.source)
    return _counted(options, hosts)


def _counted(options: Settings, hosts: Reading[Mapping[str, int]]) -> World:
    """Return the world of ``--num_nodes`` and ``--num_gpus``, over what the hostfile has."""
    nodes = options.whole("num_nodes")
    if nodes is None and isinstance(hosts, Found):
        nodes = Found(len(hosts.value), hosts.source)
    elif nodes is None:
        nodes = hosts if isinstance(hosts, Unseen) else Found(1, "deepspeed without a hostfile")
    per_node: Reading[int] | EveryDevice = options.whole("num_gpus", "num_accelerators")
    if per_node is None and isinstance(hosts, Found) and hosts.value:
        per_node = Found(max(hosts.value.values()), hosts.source)
    if per_node is None:
        per_node = EveryDevice(source=_place(options), what="deepspeed")
    return World(nodes=nodes, per_node=per_node)


def _place(options: Settings) -> str:
    return next((setting.source for setting in options.values()), "deepspeed without --num_gpus")


def _slots_world(slots: Mapping[str, int | None], source: str) -> World:
    counts = [count for count in slots.values() if count is not None]
    if len(counts) < len(slots):
        unseen = Unseen(
            source,
            "the filter names hosts whose devices only the hostfile has",
            "send the hostfile in launch.files",
        )
        return World(total=unseen)
    return World(total=Found(sum(counts), source), nodes=Found(max(1, len(counts)), source))


def _included(text: str, hosts: Mapping[str, int]) -> dict[str, int | None]:
    """Return the devices by host of ``worker-0@worker-1:0,2``.

    >>> _included("worker-0@worker-1:0,2", {"worker-0": 4})
    {'worker-0': 4, 'worker-1': 2}
    """
    slots: dict[str, int | None] = {}
    for node in text.split("@"):
        host, colon, numbers = node.strip().partition(":")
        slots[host] = len(numbers.split(",")) if colon else hosts.get(host)
    return slots


def _excluded(text: str, hosts: Mapping[str, int]) -> dict[str, int | None]:
    left: dict[str, int | None] = dict(hosts)
    for node in text.split("@"):
        host, colon, numbers = node.strip().partition(":")
        if host in hosts and colon:
            left[host] = max(0, hosts[host] - len(set(numbers.split(","))))
        else:
            left.pop(host, None)
    return {host: count for host, count in left.items() if count}


def _hosts(options: Settings, files: Files) -> Reading[Mapping[str, int]]:
    """Return the devices by host of the hostfile: lines ``worker-0 slots=4``."""
    said = options.text("hostfile", "H")
    if not isinstance(said, Found):
        return said
    found = files.find(Word(text=said.value, source=said.source))
    if not isinstance(found, Found):
        return Unseen(
            said.source, f"{said.value} is not among the files", "send it in launch.files"
        )
    hosts = {}
    for line in found.value.text.splitlines():
        host, _, slots = line.partition("#")[0].partition("slots=")
        if host.strip():
            count = slots.strip()
            hosts[host.strip()] = int(count) if count.isdecimal() else 1
    return Found(hosts, f"{found.value.name}")
