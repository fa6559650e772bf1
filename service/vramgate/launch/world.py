"""How many processes a launcher starts, one on each device, and what that says of the hardware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vramgate.launch.draft import Draft
from vramgate.launch.option_words import Syntax, switches, valued
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word

DEVICES = "hardware.devices"
PER_NODE = "hardware.devices_per_node"
_OPEN = {"auto", "gpu", "cuda"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryDevice:
    """As many processes a node as it has devices; the words behind it: ``auto``, no word at all."""

    source: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The processes of a run: nodes times those of a node, or their number alone."""

    nodes: Reading[int] = None
    per_node: Reading[int] | EveryDevice = None
    total: Reading[int] = None
    of_tasks: bool = False
    """Whether Slurm or MPI starts them, whatever runs in each: a program may start more by itself."""


# torch 2.13 distributed/run.py, get_args_parser.
TORCHRUN = Syntax(
    values=valued(
        "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts"
        " monitor-interval start-method event-log-handler role log-dir r redirects t tee"
        " local-ranks-filter node-rank master-addr master-port local-addr logs-specs numa-binding"
        " signals-to-handle shutdown-timeout duplicate-stdout-filters"
        " duplicate-stderr-filters"
    ),
    flags=switches("standalone m module no_python run_path virtual_local_rank use_env h help"),
)


def unseen_options(hidden: Sequence[Word]) -> Unseen | None:
    """Return why options are out of sight: ``$DISTRIBUTED_ARGS`` stands among them without a value."""
    if not hidden:
        return None
    name = hidden[0].unresolved[0]
    return Unseen(hidden[0].source, f"{name} has no value here", f"give {name} in launch.env")


def torchrun_world(
    options: Settings, environment: Mapping[str, Word], hidden: Sequence[Word] = ()
) -> World:
    """Return the processes that torchrun starts; ``hidden`` words may say what the others do not.

    Source: torch ``distributed/run.py``: each option has a variable ``PET_…``; nnodes is 1:1 and
    nproc_per_node 1 where nobody says them; ``determine_local_world_size``.
    """
    options = options.over(of_variables(environment, "PET_"))
    unseen = unseen_options(hidden)
    nodes = _nodes(options) or unseen or Found(1, "torchrun default (nnodes)")
    if unseen is not None and "nproc_per_node" not in options:
        return World(nodes=nodes, per_node=unseen)
    return World(nodes=nodes, per_node=_per_node(options))


def _nodes(options: Settings) -> Reading[int]:
    said = options.text("nnodes")
    if not isinstance(said, Found):
        return said
    least, _, most = said.value.partition(":")
    if most and most != least:
        return Unseen(
            said.source,
            f"between {least} and {most} nodes take part",
            "give the number of devices in hardware.devices",
        )
    return Settings({"nnodes": Setting(said=least, source=said.source)}).whole("nnodes")


def _per_node(options: Settings) -> Reading[int] | EveryDevice:
    said = options.text("nproc_per_node")
    if said is None:
        return Found(1, "torchrun default (nproc_per_node)")
    if isinstance(said, Found) and said.value.lower() in _OPEN:
        return EveryDevice(source=said.source, what=said.value)
    return options.whole("nproc_per_node")


def say_world(world: World, draft: Draft, environment: Mapping[str, Word]) -> None:
    """Say the devices of a run; where the launcher leaves them open, those that were asked for stay."""
    nodes, total = world.nodes, world.total
    per_node = _devices_of_a_node(world, draft, environment)
    for reading in (per_node, nodes, total):
        wrong = _wrong(reading)
        if wrong is not None:
            draft.misread(DEVICES, wrong)
            return
    if isinstance(per_node, Found):
        draft.say(PER_NODE, per_node)
        if isinstance(nodes, Found):
            total = Found(per_node.value * nodes.value, _product_source(per_node, nodes))
    elif isinstance(total, Found) and isinstance(nodes, Found):
        draft.say(PER_NODE, Found(-(-total.value // nodes.value), _product_source(total, nodes)))
    if isinstance(total, Found):
        draft.say(DEVICES, total)
        return
    unseen = next((one for one in (per_node, nodes, total) if isinstance(one, Unseen)), None)
    if unseen is not None and draft.said(DEVICES) is None:
        draft.unknown(DEVICES, unseen)


def _wrong(reading: Reading[int]) -> Misread | None:
    if isinstance(reading, Found) and reading.value < 1:
        return Misread(reading.source, reading.value, "a whole number of 1 or more")
    return reading if isinstance(reading, Misread) else None


def _devices_of_a_node(world: World, draft: Draft, environment: Mapping[str, Word]) -> Reading[int]:
    said = world.per_node
    if not isinstance(said, EveryDevice):
        return said
    visible = visible_devices(environment)
    if visible is not None:
        return visible
    asked, devices = draft.said(PER_NODE), draft.said(DEVICES)
    if asked is not None:
        return asked
    if devices is not None:
        nodes = world.nodes.value if isinstance(world.nodes, Found) else 1
        return Found(-(-devices.value // max(1, nodes)), devices.source)
    return Unseen(
        said.source,
        f"{said.what} starts a process for each device that the node has",
        "give hardware.devices",
    )


def _product_source(first: Found[int], second: Found[int]) -> str:
    return first.source if second.value == 1 else f"{first.source}, {second.source}"


def world_of_environment(environment: Mapping[str, Word]) -> World | None:
    """Return the processes that a running one sees: torchrun's, MPI's or Slurm's variables.

    ``SLURM_NTASKS`` stands in a batch script's environment too, where one process runs; a task has
    ``SLURM_PROCID`` beside it.
    """
    variables = of_variables(environment, "")
    total = variables.whole("world_size", "ompi_comm_world_size", "pmi_size", "mv2_comm_world_size")
    local = variables.whole(
        "local_world_size",
        "ompi_comm_world_local_size",
        "mpi_localnranks",
        "mv2_comm_world_local_size",
    )
    nodes: Reading[int] = None
    if total is None and "slurm_procid" in variables:
        total = variables.whole("slurm_step_num_tasks", "slurm_ntasks")
        nodes = variables.whole("slurm_step_num_nodes", "slurm_nnodes")
    if total is None:
        return None
    if isinstance(total, Found) and isinstance(local, Found) and local.value > 0:
        nodes = Found(-(-total.value // local.value), local.source)
    return World(total=total, nodes=nodes, of_tasks=True)


def visible_devices(environment: Mapping[str, Word]) -> Reading[int]:
    """Return how many devices ``CUDA_VISIBLE_DEVICES`` leaves in sight of a process.

    >>> visible_devices({"CUDA_VISIBLE_DEVICES": Word(text="0,1", source="env CUDA_VISIBLE_DEVICES")})
    Found(value=2, source='env CUDA_VISIBLE_DEVICES')
    """
    word = environment.get("CUDA_VISIBLE_DEVICES")
    if word is None:
        return None
    if not word.is_known:
        return Unseen(
            word.source,
            f"{word.unresolved[0]} has no value here",
            f"give {word.unresolved[0]} in launch.env",
        )
    names = [name.strip() for name in word.text.split(",")]
    if not all(names) or names[0] in {"-1", "all", "NoDevFiles", "void", "none"}:
        return None
    return Found(len(names), word.source)


def of_variables(environment: Mapping[str, Word], prefix: str) -> Settings:
    """Return the variables with a prefix as settings, without it and in small letters."""
    return Settings(
        {
            name.removeprefix(prefix).lower(): Setting(said=(word,), source=word.source)
            for name, word in environment.items()
            if name.startswith(prefix) and (word.text or word.unresolved)
        }
    )
