"""Launchers that start the trainer once for each device, and Python itself."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from vramgate.launch.commands.process_managers import MANAGERS
from vramgate.launch.frameworks.accelerate.launch import accelerate
from vramgate.launch.frameworks.deepspeed.launch import deepspeed
from vramgate.launch.launch import Context
from vramgate.launch.option_words import Syntax, split_options, switches, valued
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings
from vramgate.launch.step import Step
from vramgate.launch.words import Word
from vramgate.launch.world import TORCHRUN, EveryDevice, World, torchrun_world

Launcher: TypeAlias = Callable[[Step, Context], Step | None]
"""Takes itself off; None where the command starts nothing."""

# Python 3.14: python --help. What takes a word ends a cluster of letters.
_MODULE = re.compile(r"-[bBdEiIOPqsSuvx]*m(?P<module>.*)", re.DOTALL)
_NO_SCRIPT = re.compile(r"-[bBdEiIOPqsSuvx]*[chV?].*|--version|--help.*", re.DOTALL)
_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})


def is_python(name: str) -> bool:
    """Return whether a program is Python: ``python``, ``python3.11``."""
    return name.rstrip("0123456789.") in {"python", "pypy"}


def python(step: Step) -> Step | None:
    """Return the script or module that Python runs; None for code on the command line."""
    words = step.words[1:]
    index = 0
    while index < len(words):
        word = words[index]
        module = _MODULE.fullmatch(word.text)
        if module is not None:
            attached = _attached(word, module["module"])
            started = (*attached, *words[index + 1 :])
            return step.inner(started, is_python=True) if started else None
        if not word.text.startswith("-"):
            return step.inner(words[index:], is_python=True)
        if _NO_SCRIPT.fullmatch(word.text) or word.text == "-":
            return None
        index += 2 if word.text in _VALUED else 1
    return None


def _attached(word: Word, text: str) -> Sequence[Word]:
    """Return what is written against an option: ``-mtrl.scripts.sft``."""
    return [Word(text=text, source=word.source, unresolved=word.unresolved)] if text else []


def _torchrun(step: Step, _context: Context) -> Step | None:
    split = split_options(step.words[1:], TORCHRUN)
    if not split.command:
        return None
    options = split.settings()
    world = torchrun_world(options, step.environment, split.hidden)
    return step.inner(split.command, world=world, is_python="no_python" not in options)


def _of_syntax(
    syntax: Syntax, *, nodes: str, per_node: str, subcommand: str | None = None
) -> Launcher:
    """Return a launcher that takes a number of nodes and of processes a node."""

    def peel(step: Step, _context: Context) -> Step | None:
        words = step.words[1:]
        if subcommand is not None:
            if not words or words[0].text != subcommand:
                return None
            words = words[1:]
        split = split_options(words, syntax)
        if not split.command:
            return None
        return step.inner(
            split.command, world=_plain_world(split.settings(), nodes, per_node, step.name)
        )

    return peel


def _plain_world(options: Settings, nodes: str, per_node: str, name: str) -> World:
    said: Reading[int] | EveryDevice = options.whole(*per_node.split())
    if said is None:
        said = EveryDevice(source=name, what=name)
    count = options.whole(*nodes.split()) or Found(1, name)
    return World(nodes=count, per_node=said)


# mosaicml 0.32 cli/launcher.py; colossalai 0.5 cli/launcher/__init__.py; lightning 2.6 fabric/cli.py.
_COMPOSER = Syntax(
    values=valued(
        "n nproc world_size base_rank node_rank master_addr master_port stdout stderr time_to_kill"
    ),
    flags=switches("module_mode m command_mode c verbose v"),
)
_COLOSSALAI = Syntax(
    values=valued(
        "H host hostfile include exclude num_nodes nproc_per_node master_port master_addr extra_launch_args"
        " ssh-port"
    )
)
_FABRIC = Syntax(
    values=valued(
        "accelerator strategy devices num-nodes node-rank main-address main-port precision"
    )
)

LAUNCHERS: Mapping[str, Launcher] = {
    **MANAGERS,
    **dict.fromkeys(
        (
            "torchrun",
            "torchrun_main",
            "torch.distributed.run",
            "torch.distributed.launch",
            "torch.distributed.elastic",
        ),
        _torchrun,
    ),
    **dict.fromkeys(
        (
            "accelerate",
            "accelerate.commands.launch",
            "accelerate.commands.accelerate_cli",
            "accelerate-launch",
        ),
        accelerate,
    ),
    **dict.fromkeys(
        ("deepspeed", "deepspeed.launcher.runner", "deepspeed.launcher.launch", "ds"), deepspeed
    ),
    "composer": _of_syntax(_COMPOSER, nodes="", per_node="n nproc"),
    "colossalai": _of_syntax(
        _COLOSSALAI, nodes="num_nodes", per_node="nproc_per_node", subcommand="run"
    ),
    "fabric": _of_syntax(_FABRIC, nodes="num_nodes", per_node="devices", subcommand="run"),
    "lightning": _of_syntax(_FABRIC, nodes="num_nodes", per_node="devices", subcommand="run"),
}
"""By the name of the program or module."""
