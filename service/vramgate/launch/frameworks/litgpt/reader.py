"""litgpt: ``litgpt finetune_lora CHECKPOINT --train.micro_batch_size 4``, ``litgpt pretrain NAME``.

Sources: litgpt 0.5.13 ``__main__.py``; 0.2.0 for ``litgpt finetune lora``. Also
``python -m litgpt.finetune.lora``, ``python litgpt/pretrain.py``.
"""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.dotted import Tree, assume_packaged
from vramgate.launch.frameworks.litgpt.config import PACKAGED, Options, read_options
from vramgate.launch.frameworks.litgpt.job import (
    OLD_SUBCOMMANDS,
    SUBCOMMANDS,
    Subcommand,
    say_job,
)
from vramgate.launch.frameworks.litgpt.model import say_model
from vramgate.launch.frameworks.litgpt.rules import problems
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.words import Word
from vramgate.launch.world import DEVICES, PER_NODE, EveryDevice, World, say_world

_WORDS = {"lora": "finetune_lora", "full": "finetune_full", "lora_legacy": "finetune_lora"}
_OF_CONFIG = (
    "micro_batch_size",
    "sequence_length",
    "gradient_accumulation_steps",
    "optimizer.name",
)
"""What a file decides, beside the model."""


def read(invocation: Invocation, context: Context) -> None:
    """Keep what a litgpt command says; commands that do not train say nothing."""
    command, words = _command(invocation)
    if command is None:
        return
    draft = context.draft
    draft.say("software.framework", Found("litgpt", invocation.source))
    options = read_options(words, context)
    if options.unseen is not None:
        _say_unseen(options.unseen, command, options, draft)
    _say_devices(command, options, invocation.environment, draft)
    _say(command, options, draft)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Keep what a configuration says by itself; its keys tell which trainer it is for."""
    draft = context.draft
    draft.say("software.framework", Found("litgpt", "launch.framework"))
    options = Options(settings=Settings(Tree(config, name).flat()))
    command = Subcommand(name="finetune", is_known=False)
    if "model_name" in options.settings:
        command = SUBCOMMANDS["pretrain"]
    elif "lora_r" in options.settings:
        command = SUBCOMMANDS["finetune_lora"]
    _say_devices(command, options, {}, draft)
    _say(command, options, draft)


def _say(command: Subcommand, options: Options, draft: Draft) -> None:
    devices = draft.said(DEVICES)
    world = devices.value if devices is not None and devices.value > 0 else None
    say_model(command, options, draft)
    sees_all = options.unseen is None
    say_job(command, options.settings, draft, world=world, sees_all=sees_all)
    for problem in problems(command, options.settings, world=world):
        draft.problem(problem)
    assume_packaged(draft, PACKAGED)


def _say_unseen(unseen: Unseen, command: Subcommand, options: Options, draft: Draft) -> None:
    if options.first is None:
        draft.unknown("model.name", unseen)
    for field in _OF_CONFIG:
        draft.unknown(field, unseen)
    if command.name == "finetune_lora":
        draft.unknown("method.rank", unseen)
    if "precision" not in options.settings:
        draft.unknown("precision", unseen)


def _command(invocation: Invocation) -> tuple[Subcommand | None, Sequence[Word]]:
    """Return the trainer, and the words behind its name."""
    words = invocation.words
    name = posixpath.basename(invocation.program).removesuffix(".py")
    if name == "litgpt" or name.endswith("__main__"):
        if not words:
            return None, ()
        called = words[0].text
        if (
            called == "finetune"
            and len(words) > 1
            and f"finetune_{words[1].text}" in OLD_SUBCOMMANDS
        ):
            return OLD_SUBCOMMANDS[f"finetune_{words[1].text}"], words[2:]
        return SUBCOMMANDS.get(called), words[1:]
    last = name.rpartition(".")[2]
    return SUBCOMMANDS.get(_WORDS.get(last, last), SUBCOMMANDS.get(f"finetune_{last}")), words


def _say_devices(
    command: Subcommand, options: Options, environment: Mapping[str, Word], draft: Draft
) -> None:
    """``--devices`` on each of ``--num_nodes``: 1 in finetuning, every device in pretraining."""
    if options.unseen is not None and "devices" not in options.settings:
        for field in (DEVICES, PER_NODE):
            if draft.said(field) is None:
                draft.unknown(field, options.unseen)
        return
    if not command.is_known and "devices" not in options.settings:
        return
    settings = options.settings
    nodes = settings.whole("num_nodes") or Found(1, f"{command.source} (num_nodes)")
    said = settings.text("devices")
    if isinstance(said, Found) and said.value in {"auto", "-1"}:
        say_world(World(nodes=nodes, per_node=_every(said)), draft, environment)
        return
    if said is None and command.pretrains:
        every = _every(Found("auto", f"{command.source} (devices)"))
        say_world(World(nodes=nodes, per_node=every), draft, environment)
        return
    devices = settings.whole("devices") or Found(1, f"{command.source} (devices)")
    if isinstance(devices, Found) and devices.value < 1:
        return
    say_world(World(nodes=nodes, per_node=devices), draft, environment)


def _every(said: Found[str]) -> EveryDevice:
    return EveryDevice(source=said.source, what=f"devices {said.value}")
