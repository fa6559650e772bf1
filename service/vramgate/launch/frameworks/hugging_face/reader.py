"""transformers' Trainer: any script with its options, and ``TrainingArguments`` as an object.

A script may do anything: what its options do not say is left out where the framework has a default,
and named as unknown where only the code decides (the length of a row).
"""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.job import MethodKind, Task
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.hugging_face.arguments import (
    TRAINING_ARGUMENTS,
    program_words,
    read_arguments,
    stack_of,
)
from vramgate.launch.frameworks.hugging_face.model_flags import (
    dtype_setting,
    say_adapter_configs,
    say_attention,
    say_length,
    say_method,
    say_model,
)
from vramgate.launch.frameworks.hugging_face.precision import Trained
from vramgate.launch.frameworks.hugging_face.scripts import Script, script_of
from vramgate.launch.frameworks.hugging_face.sharding import engine_of
from vramgate.launch.frameworks.hugging_face.trainer import say_trainer
from vramgate.launch.frameworks.tuners import say_unseen
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings, of_document


def read(invocation: Invocation, context: Context) -> None:
    """Read a script or module with Hugging Face options.

    Raises:
        UnreadableLaunchError: a file it names is not what its name says.
    """
    draft, name = context.draft, program_words(invocation)
    script, source = script_of(invocation.program), f"{invocation.source} {name}"
    told = read_arguments(invocation.words, context, known=TRAINING_ARGUMENTS, config="config")
    framework = script.framework if script is not None else "transformers"
    draft.say("software.framework", Found(framework, source))
    if script is not None:
        _say_script(script, name, source, draft)
    adapts = Found(script.adapts, source) if script is not None and script.adapts else None
    kind = say_method(told.settings, draft, adapts=adapts)
    stack = stack_of(context, invocation.environment)
    said = _say(told.settings, context, kind, stack, task=script.task if script else None)
    if told.unseen is not None:
        say_unseen(told.unseen, context)
        return
    _say_open(said, script, name, source, draft)
    if script is None and name.endswith(".py"):
        draft.warn(
            "script_not_seen",
            f"{name} itself was not seen: what its code decides without an option (what trains, the"
            " weights' dtype, quantisation) is taken as the framework's default.",
        )


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Read ``TrainingArguments`` as an object, with the adapters that a reporter puts beside them."""
    draft, settings = context.draft, of_document(config, name)
    draft.say("software.framework", Found("transformers", name))
    kind = say_adapter_configs(settings, draft, say_method(settings, draft))
    said = _say(settings, context, kind, stack_of(context), task=None)
    _say_open(said, None, name, name, draft)


def _say(
    settings: Settings, context: Context, kind: MethodKind, stack: str | None, *, task: Task | None
) -> frozenset[str]:
    """Keep what options say beside the method; return which of model and length they say."""
    draft = context.draft
    said = {
        "model": say_model(settings, draft),
        "sequence_length": say_length(settings, draft),
    }
    say_attention(settings, draft)
    run = Trained(
        framework="transformers",
        stack=stack,
        kind=kind,
        engine=engine_of(settings, draft),
        dtype=dtype_setting(settings),
    )
    say_trainer(settings, context, run, task=task)
    return frozenset(name for name, is_said in said.items() if is_said)


def _say_open(
    said: frozenset[str], script: Script | None, name: str, source: str, draft: Draft
) -> None:
    """Name what only a script's code decides."""
    if "model" not in said:
        say_no_model(name, source, draft)
    if "sequence_length" not in said:
        _say_no_length(script, name, source, draft)


def _say_script(script: Script, name: str, source: str, draft: Draft) -> None:
    """Keep what a published script is for, and its own defaults."""
    if script.task is not None:
        draft.say("task", Found(script.task, source))
    for field, value in script.defaults.items():
        draft.assume(field, value, f"{name} default")


def say_no_model(name: str, source: str, draft: Draft) -> None:
    """Name the model as unknown, unless somebody said it before."""
    if draft.said("model.name") is None:
        hint = "name the model with VRAMGATE_MODEL"
        draft.unknown("model", Unseen(source, f"{name} names no model", hint))


def _say_no_length(script: Script | None, name: str, source: str, draft: Draft) -> None:
    """Name the length of a row as unknown, unless it is a published script's default."""
    if draft.said("sequence_length") is not None:
        return
    why = script.length if script is not None else ""
    reason = why or f"{name} says no length of its rows, and the Trainer has no default"
    hint = "say the tokens of a row with VRAMGATE_SEQ_LEN"
    draft.unknown("sequence_length", Unseen(source, reason, hint))
