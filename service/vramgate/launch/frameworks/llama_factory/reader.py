"""LLaMA-Factory: ``llamafactory-cli train F.yaml key=value``, its flags, and its YAML as an object.

Read in llamafactory 0.9.5, and 0.7.1 to 0.9.3 for what had other names: ``hparams/*.py``,
``launcher.py``, ``model/``, ``train/``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vramgate.launch.frameworks.llama_factory.devices import say_devices
from vramgate.launch.frameworks.llama_factory.method import say_method
from vramgate.launch.frameworks.llama_factory.rules import check
from vramgate.launch.frameworks.llama_factory.training import say_training
from vramgate.launch.frameworks.tuners import (
    Told,
    from_file,
    is_config,
    program_name,
    say_unseen,
)
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Setting, Settings, of_document, of_flags
from vramgate.launch.words import Word

NAME = "llama_factory"
_OF_V1 = ("model_class", "dist_config", "peft_config", "quant_config", "kernel_config")
"""Settings of ``src/llamafactory/v1`` (0.9.5) that the first generation has not."""
_LAUNCHERS = frozenset({"llamafactory-cli", "lmf", "llamafactory.cli", "cli"})
"""Programs that start the processes themselves; the others are started by torchrun or accelerate."""


def read(invocation: Invocation, context: Context) -> None:
    """Read a command line of LLaMA-Factory's.

    Raises:
        UnreadableLaunchError: a file is not what its name says.
    """
    context.draft.say("software.framework", Found(NAME, invocation.source))
    words = invocation.words
    starts_processes = program_name(invocation.program) in _LAUNCHERS
    if starts_processes:
        if not words or words[0].text != "train":
            context.draft.warn(
                "not_training", f"{invocation.program} without train trains nothing."
            )
            return
        words = words[1:]
    told = _told(words, context)
    if starts_processes:
        say_devices(told.settings, invocation, context.draft)
    if _is_second_generation(invocation.environment):
        _say_second_generation(invocation.source, "USE_V1 starts", context)
        return
    _say(told, invocation.environment, context)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Read LLaMA-Factory's YAML as an object."""
    context.draft.say("software.framework", Found(NAME, name))
    _say(Told(settings=of_document(config, name)), {}, context)


def _told(words: Sequence[Word], context: Context) -> Told:
    """Return what ``parser.read_args`` reads: a file with ``key=value`` over it, or flags."""
    if words and is_config(words[0]):
        return from_file(words[0], _of_pairs(words[1:]), context)
    return Told(settings=of_flags(words))


def _of_pairs(words: Sequence[Word]) -> Settings:
    """Return ``key=value`` words as settings (OmegaConf's dot list)."""
    settings: dict[str, Setting] = {}
    for word in words:
        key, equals, value = word.text.partition("=")
        if equals:
            unresolved = tuple(one for one in word.unresolved if one in value)
            said = (Word(text=value, source=word.source, unresolved=unresolved),)
            settings[key.lstrip("-")] = Setting(said=said, source=f"{word.source} {key}")
    return Settings(settings)


def _say(told: Told, environment: Mapping[str, Word], context: Context) -> None:
    settings, draft = told.settings, context.draft
    if "model_name_or_path" not in settings and any(name in settings for name in _OF_V1):
        source = next(settings[name].source for name in _OF_V1 if name in settings)
        _say_second_generation(source, "it configures", context)
        return
    is_whole = told.unseen is None
    draft.say("model.name", settings.text("model_name_or_path"))
    kind = say_method(settings, context)
    say_training(settings, kind, environment, context, is_whole=is_whole)
    if told.unseen is not None:
        say_unseen(told.unseen, context)
        return
    check(settings, kind, draft)


def _is_second_generation(environment: Mapping[str, Word]) -> bool:
    word = environment.get("USE_V1")
    return word is not None and word.text.lower() in {"1", "y", "true"}


def _say_second_generation(source: str, what: str, context: Context) -> None:
    unseen = Unseen(
        source,
        f"{what} another LLaMA-Factory (v1), whose settings are not known here",
        "describe the job itself",
    )
    context.draft.warn("llama_factory_v1", f"{unseen.reason[0].upper()}{unseen.reason[1:]}.")
    say_unseen(unseen, context)
