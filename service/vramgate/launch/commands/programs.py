"""Whose program is it: from a trainer's name, or its words, to the reader of its options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from vramgate.errors import DomainError
from vramgate.jobs.frameworks.registry import framework_name, near_frameworks
from vramgate.launch.commands.program_names import Recognised, recognise
from vramgate.launch.frameworks.accelerate import reader as accelerate
from vramgate.launch.frameworks.axolotl import reader as axolotl
from vramgate.launch.frameworks.deepspeed import reader as deepspeed
from vramgate.launch.frameworks.hugging_face import reader as transformers
from vramgate.launch.frameworks.litgpt import reader as litgpt
from vramgate.launch.frameworks.llama_factory import reader as llama_factory
from vramgate.launch.frameworks.megatron import reader as megatron
from vramgate.launch.frameworks.ms_swift import reader as ms_swift
from vramgate.launch.frameworks.torchtitan import reader as torchtitan
from vramgate.launch.frameworks.torchtune import reader as torchtune
from vramgate.launch.frameworks.trl import reader as trl
from vramgate.launch.launch import Context, Invocation

ConfigReader: TypeAlias = Callable[[Mapping[str, Any], str, Context], None]
"""Takes the configuration, its name, and the context."""

CommandReader: TypeAlias = Callable[[Invocation, Context], None]
"""Takes a program's command line and the context."""

CONFIG_READERS: Mapping[str, ConfigReader] = {
    "transformers": transformers.read_config,
    "trl": trl.read_config,
    "accelerate": accelerate.read_config,
    "deepspeed": deepspeed.read_config,
    "llama_factory": llama_factory.read_config,
    "ms-swift": ms_swift.read_config,
    "axolotl": axolotl.read_config,
    "torchtune": torchtune.read_config,
    "torchtitan": torchtitan.read_config,
    "litgpt": litgpt.read_config,
    "megatron": megatron.read_config,
}


COMMAND_READERS: Mapping[str, CommandReader] = {
    "transformers": transformers.read,
    "trl": trl.read,
    "deepspeed": deepspeed.read,
    "llama_factory": llama_factory.read,
    "ms-swift": ms_swift.read,
    "axolotl": axolotl.read,
    "torchtune": torchtune.read,
    "torchtitan": torchtitan.read,
    "litgpt": litgpt.read,
    "megatron": megatron.read,
}


class UnknownFrameworkError(DomainError):
    """A configuration without a framework, or of one whose words are not known."""

    code = "unknown_framework"


def config_reader(framework: str | None) -> ConfigReader:
    """Return the reader of a framework's configuration.

    Raises:
        UnknownFrameworkError: nobody knows its words.
    """
    known = ", ".join(CONFIG_READERS)
    if framework is None:
        raise UnknownFrameworkError(
            "A config needs the framework it is for.", hint=f"Name it in launch.framework: {known}."
        )
    name = framework_name(framework)
    reader = CONFIG_READERS.get(name) if name is not None else None
    if reader is None:
        near = near_frameworks(framework)
        raise UnknownFrameworkError(
            f"The configuration of {framework[:80]!r} is not understood.",
            hint=f"Understood: {known}."
            if not near
            else f"Did you mean {near[0]}? Known: {known}.",
        )
    return reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that trains, and who reads its words."""

    recognised: Recognised
    read: CommandReader


def find_reader(
    invocation: Invocation, context: Context, *, is_python: bool = False
) -> Program | None:
    """Return the reader of a program's words; None where the program does not train.

    ``is_python``: whether Python runs it, so that a name without an ending is a module's.
    """
    recognised = recognise(invocation.program, invocation.words, context.files, is_python=is_python)
    if recognised is None:
        return None
    return Program(recognised=recognised, read=COMMAND_READERS[recognised.framework])
