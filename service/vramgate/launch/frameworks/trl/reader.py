"""TRL: ``trl sft`` and its like, TRL's scripts, and the configurations of its trainers.

The command line is a ``TrlParser``'s: a YAML file behind ``--config``, flags over it, an ``env``
section, and what no trainer's option takes goes to ``accelerate launch``.

Sources: TRL 1.16.0 ``cli``, ``scripts``, ``trainer/*_config.py``, ``trainer/model_config.py``.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.job import MethodKind
from vramgate.jobs.vocabulary import Quantization
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
    say_method,
    say_model,
)
from vramgate.launch.frameworks.hugging_face.precision import Trained
from vramgate.launch.frameworks.hugging_face.reader import say_no_model
from vramgate.launch.frameworks.hugging_face.sharding import engine_of
from vramgate.launch.frameworks.hugging_face.trainer import say_trainer
from vramgate.launch.frameworks.trl.launch import say_accelerate_part, say_environment
from vramgate.launch.frameworks.trl.options import (
    OPTIONS,
    say_rows,
    say_trl_checkpointing,
    say_trl_loss,
)
from vramgate.launch.frameworks.trl.rules import check_trl
from vramgate.launch.frameworks.trl.trainers import Trainer, trainer_named, trainer_of
from vramgate.launch.frameworks.tuners import nested, say_unseen
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings, of_document
from vramgate.launch.words import Word

KNOWN = TRAINING_ARGUMENTS | OPTIONS


def read(invocation: Invocation, context: Context) -> None:
    """Read ``trl sft …``, a script or a module of TRL's.

    Raises:
        UnreadableLaunchError: a file it names is not what its name says.
    """
    draft, words = context.draft, invocation.words
    name, source = program_words(invocation), invocation.source
    is_cli = name == "trl"
    if is_cli and words:
        name, source, words = words[0].text, words[0].source, words[1:]
    trainer = trainer_named(name)
    told = read_arguments(words, context, known=KNOWN, config="config")
    draft.say("software.framework", Found("trl", f"{source} {name}"))
    if is_cli:
        say_accelerate_part(told.settings, context)
    say_environment(told.settings, context)
    place = f"{source} {name}"
    has_model = _say(told.settings, context, trainer, place, invocation.environment)
    if not has_model and told.unseen is None:
        say_no_model(name, place, draft)
    if told.unseen is not None:
        say_unseen(told.unseen, context)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Read an ``SFTConfig``, ``DPOConfig`` … as an object, or the YAML of ``trl … --config``."""
    settings = of_document(config, name)
    context.draft.say("software.framework", Found("trl", name))
    say_environment(settings, context)
    if not _say(settings, context, trainer_of(settings), name, {}):
        say_no_model(name, name, context.draft)


def _say(
    settings: Settings,
    context: Context,
    trainer: Trainer,
    source: str,
    environment: Mapping[str, Word],
) -> bool:
    """Keep what a trainer's options say; return whether they name a model."""
    draft, stack = context.draft, stack_of(context, environment)
    _say_task(trainer, source, draft)
    kind = say_adapter_configs(settings, draft, _say_method(settings, draft))
    has_model = say_model(settings, draft)
    made = nested(settings, "model_init_kwargs")
    say_attention(made.over(settings), draft)
    say_rows(settings, draft, trainer)
    run = _run(settings, draft, stack=stack, kind=kind)
    say_trainer(settings, context, run, task=trainer.task)
    say_trl_checkpointing(settings, draft, run)
    say_trl_loss(settings, draft, trainer, stack)
    check_trl(settings, draft, trainer, stack)
    return has_model


def _say_task(trainer: Trainer, source: str, draft: Draft) -> None:
    if trainer.task is not None:
        draft.say("task", Found(trainer.task, source))
        return
    draft.unknown(
        "task",
        Unseen(
            source,
            trainer.reason,
            "describe the job with the task whose loss is nearest: sft, dpo, kto, reward",
        ),
    )


def _say_method(settings: Settings, draft: Draft) -> MethodKind:
    """Keep what trains: adapters with ``use_peft`` alone (``get_peft_config``)."""
    kind = say_method(settings, draft, signs=())
    off = settings.flag("use_peft") is None and "peft_config" not in settings
    if kind is not MethodKind.QLORA or not off:
        return kind
    # transformers refuses to train it; the job says so once it is whole.
    draft.assume("method.kind", MethodKind.FULL, "TRL default (use_peft off)")
    if draft.said("method.quantization") is None:
        draft.assume("method.quantization", Quantization.NF4, "TRL default (bnb_4bit_quant_type)")
    return MethodKind.FULL


def _run(settings: Settings, draft: Draft, *, stack: str | None, kind: MethodKind) -> Trained:
    """Return the run; of the dtype ``model_init_kwargs`` count over ``ModelConfig`` (``scripts/sft.py``)."""
    made = nested(settings, "model_init_kwargs")
    return Trained(
        framework="trl",
        stack=stack,
        kind=kind,
        engine=engine_of(settings, draft),
        dtype=dtype_setting(made) or dtype_setting(settings),
    )
