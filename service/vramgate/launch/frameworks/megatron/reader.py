"""Megatron-LM's arguments, on a command line or as an object, and Megatron-DeepSpeed's.

- ``read(invocation, context)``: ``pretrain_gpt.py`` and its relatives
- ``read_config(config, name, context)``: the arguments as dataclass fields, alone or in the sections
  of Megatron-Bridge and of ``--yaml-cfg``

Read in Megatron-LM d98e8a64 (core 0.20) and its tags back to core 0.4, and Megatron-DeepSpeed
4efb479d; the modules beside this one name the files.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.job import Packing, Task
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.megatron.activations import say_activations
from vramgate.launch.frameworks.megatron.arguments import Arguments, of_command_line, of_config
from vramgate.launch.frameworks.megatron.batch import say_batch
from vramgate.launch.frameworks.megatron.deepspeed import is_deepspeed, say_engine
from vramgate.launch.frameworks.megatron.family import Family, nearest_family
from vramgate.launch.frameworks.megatron.layout import say_layout
from vramgate.launch.frameworks.megatron.model import HINT, read_shape
from vramgate.launch.frameworks.megatron.optimizer import say_megatron_optimizer
from vramgate.launch.frameworks.megatron.precision import say_precision
from vramgate.launch.frameworks.megatron.rules import check_rules
from vramgate.launch.frameworks.megatron.vocabulary import Vocabulary, vocabulary
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.words import Word

_STACK = "VRAMGATE_STACK"
_DECIDED = (
    "model",
    "micro_batch_size",
    "sequence_length",
    "gradient_accumulation_steps",
    "precision",
    "optimizer",
    "activation_checkpointing",
    "parallelism",
    "sharding",
)
"""What the arguments decide."""

_MISLEADS = 0.02
"""A family this far off in parameters is none."""


def read(invocation: Invocation, context: Context) -> None:
    """Say what a command line of Megatron says.

    Raises:
        UnreadableLaunchError: a file that was sent is not what its name says.
    """
    stack = invocation.environment.get(_STACK)
    arguments = of_command_line(invocation.words, invocation.program, stack=_text(stack))
    context.draft.say("software.framework", Found("megatron", invocation.source))
    read_from = _of_file(arguments, context)
    if read_from is not None:
        _say(read_from, context)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Say what Megatron's arguments say as an object."""
    context.draft.say("software.framework", Found("megatron", name or "config"))
    _say(of_config(config, name, stack=_stack(context.draft)), context)


def _text(word: Word | None) -> str:
    return word.text if word is not None and word.is_known else ""


def _stack(draft: Draft) -> str:
    said = draft.said("software.stack")
    return str(said.value) if said is not None else ""


def _of_file(arguments: Arguments, context: Context) -> Arguments | None:
    """Return the arguments of ``--yaml-cfg``, which replaces the command line's; None: it was not sent."""
    if "yaml_cfg" not in arguments.settings:
        return arguments
    words = arguments.settings["yaml_cfg"].said
    if not isinstance(words, tuple) or not words:
        return arguments
    found = context.files.find(words[0])
    if not isinstance(found, Found):
        if isinstance(found, Unseen):
            for field in _DECIDED:
                context.draft.unknown(field, found)
        return None
    return of_config(found.value.mapping(), found.value.name, stack=arguments.stack)


def _say(arguments: Arguments, context: Context) -> None:
    draft = context.draft
    for word in arguments.hidden:
        draft.warn(
            "hidden_arguments",
            f"{word.source}: {word.text} has no value here; the options in it are not read.",
        )
    if is_deepspeed(arguments):
        say_engine(arguments, context)
    else:
        say_precision(arguments, draft)
    _say_model(arguments, draft)
    say_batch(arguments, draft)
    say_megatron_optimizer(arguments, draft)
    say_activations(arguments, draft)
    say_layout(arguments, draft)
    _say_task(arguments, draft)
    check_rules(arguments, draft)


def _say_model(arguments: Arguments, draft: Draft) -> None:
    rows = vocabulary(arguments)
    shape = read_shape(arguments, rows.rows if isinstance(rows, Vocabulary) else 1, draft)
    if isinstance(shape, Unseen):
        draft.unknown("model", shape)
    elif shape is not None and isinstance(rows, Unseen):
        draft.unknown("model", rows)
    elif shape is not None and isinstance(rows, Vocabulary):
        source = _model_source(arguments)
        family = nearest_family(shape)
        if family is None or abs(family.difference) > _MISLEADS * family.parameters:
            draft.unknown("model", Unseen(source, _why_none(family), HINT))
            return
        _say_family(family, source, rows, draft)
        if shape.prediction_layers:
            draft.warn(
                "prediction_layers",
                f"{shape.prediction_layers} layers that predict further tokens are counted as"
                " layers of the decoder; their logits are not counted.",
            )


def _model_source(arguments: Arguments) -> str:
    names = ("hybrid_layer_pattern", "hybrid_override_pattern", "num_layers", "encoder_num_layers")
    return next(arguments.settings[name].source for name in names if name in arguments.settings)


def _why_none(family: Family | None) -> str:
    if family is None:
        return "no family known here has such layers"
    kind, more = family.config["model_type"], family.difference
    return (
        f"no family known here has such layers; the nearest, {kind}, has {abs(more):,} parameters"
        f" {'more' if more > 0 else 'fewer'} than Megatron's {family.parameters:,}"
    )


def _say_family(family: Family, source: str, rows: Vocabulary, draft: Draft) -> None:
    if rows.assumed:
        draft.assume("model.config", family.config, f"{source}; {rows.assumed}")
    else:
        draft.say("model.config", Found(family.config, source))
    if family.difference:
        draft.warn(
            "nearest_family",
            f"Megatron builds {family.parameters:,} parameters; as {family.config['model_type']} the"
            f" model has {abs(family.difference):,} {'more' if family.difference > 0 else 'fewer'}.",
        )


def _say_task(arguments: Arguments, draft: Draft) -> None:
    """Say what is trained, and for what."""
    tuned = arguments.on("sft")
    if tuned is not None:
        draft.say("task", Found(Task.SFT, tuned.source))
    masked = arguments.on("dataloader_inter_document_masking")
    if masked is not None:
        draft.say("packing", Found(Packing.PADDING_FREE, masked.source))
    rollouts = arguments.on("perform_rl_step")
    if rollouts is not None:
        reason = "rollouts, and the engine that makes them, share the card"
        draft.unknown("task", Unseen(rollouts.source, reason, "say what comes closest in task"))
    frozen = arguments.on("freeze_all_layers", "freeze_LM", "freeze_ViT")
    if frozen is not None:
        reason = "parts of the model are frozen, which Megatron names in its own way"
        draft.unknown(
            "method", Unseen(frozen.source, reason, "say the method with VRAMGATE_METHOD")
        )
