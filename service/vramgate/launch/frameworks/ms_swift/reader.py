"""ms-swift: ``swift sft|pt|rlhf --model … --tuner_type lora``, its scripts, and its YAML as an object.

Read in ms-swift 4.6.0 (``cli/main.py``, ``arguments/``), 3.12.0 (``llm/argument/``), and 2.6.1 and
1.7.3 (``llm/utils/argument.py``), whose options have other names: ``sft_type``, ``batch_size``,
``dtype``, ``quantization_bit``, ``model_id_or_path``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vramgate.launch.frameworks.ms_swift.devices import say_devices
from vramgate.launch.frameworks.ms_swift.method import say_method
from vramgate.launch.frameworks.ms_swift.rules import check
from vramgate.launch.frameworks.ms_swift.sharding import say_sharding
from vramgate.launch.frameworks.ms_swift.training import say_precision, say_training
from vramgate.launch.frameworks.tuners import (
    Told,
    from_file,
    is_config,
    nested,
    program_name,
    say_unknown,
    say_unseen,
)
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found
from vramgate.launch.settings import Settings, of_document, of_flags
from vramgate.launch.words import Word

NAME = "ms-swift"
_COMMANDS = ("sft", "pt", "rlhf")
_BEFORE_3 = ("sft_type", "quantization_bit", "lora_target_modules", "lora_dropout_p", "dtype")
_BEFORE_3_STACK = "ms-swift 2.6"


def read(invocation: Invocation, context: Context) -> None:
    """Read a command line of ms-swift's.

    Raises:
        UnreadableLaunchError: a file is not what its name says.
    """
    context.draft.say("software.framework", Found(NAME, invocation.source))
    words = invocation.words
    name = program_name(invocation.program).rpartition(".")[2]
    starts_processes = name in {"swift", "main"}
    command = Word(text=name, source=invocation.source)
    if starts_processes:
        if not words or words[0].text not in _COMMANDS:
            context.draft.warn(
                "not_training",
                f"{invocation.program} trains with {', '.join(_COMMANDS)} only.",
            )
            return
        command, words = words[0], words[1:]
    told = _told(words, context)
    if starts_processes:
        say_devices(told.settings, _environment(invocation, told.settings), context.draft)
    _say(told, command, context)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Read ms-swift's options as an object."""
    context.draft.say("software.framework", Found(NAME, name))
    settings = of_document(config, name)
    command = "rlhf" if "rlhf_type" in settings else ""
    _say(Told(settings=settings), Word(text=command, source=name), context)


def _told(words: Sequence[Word], context: Context) -> Told:
    """Return what ``cli/main.py`` reads: flags, which a leading file is turned into."""
    if words and is_config(words[0]):
        return from_file(words[0], of_flags(words[1:]), context)
    return Told(settings=of_flags(words))


def _environment(invocation: Invocation, settings: Settings) -> Mapping[str, Word]:
    """Return the variables with those of the file's ``ENV`` under them."""
    own = {}
    for name, setting in nested(settings, "ENV").items():
        if isinstance(setting.said, str | int | float):
            own[name] = Word(text=str(setting.said), source=setting.source)
    return {**own, **invocation.environment}


def _say(told: Told, command: Word, context: Context) -> None:
    settings, draft = told.settings, context.draft
    is_whole = told.unseen is None
    _say_old_version(settings, context)
    _say_model(settings, context)
    kind = say_method(settings, command, context)
    say_training(settings, command.text, draft, is_whole=is_whole)
    say_sharding(settings, context)
    say_precision(settings, kind, draft)
    if told.unseen is not None:
        say_unseen(told.unseen, context)
        return
    check(settings, kind, draft)


def _say_old_version(settings: Settings, context: Context) -> None:
    """Date the options by their names: none of these is known from 3.0 on."""
    old = next((name for name in _BEFORE_3 if name in settings), None)
    if old is not None and context.draft.said("software.stack") is None:
        context.draft.assume(
            "software.stack", _BEFORE_3_STACK, f"{settings[old].source} is of before ms-swift 3.0"
        )


def _say_model(settings: Settings, context: Context) -> None:
    model = settings.text("model", "model_id_or_path")
    of_type = settings.text("model_type")
    if model is None and isinstance(of_type, Found):
        say_unknown(
            "model.name",
            of_type,
            context.draft,
            reason=f"{of_type.value} is a name of ms-swift's own",
            hint="name the model in --model_id_or_path",
        )
        return
    context.draft.say("model.name", model)
