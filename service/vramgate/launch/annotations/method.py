"""What a site's words say of method, packing, kernels and vocabulary."""

import re
from enum import StrEnum

from vramgate.costmodel.job import Loss, MethodKind, Packing, Task
from vramgate.launch.annotations.job_object import choice
from vramgate.launch.frameworks.hugging_face.trainer import say_liger_kernels
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread
from vramgate.launch.settings import Settings

_PATTERN = re.compile(r"[\\^$*+?()\[\]{}|]")
ALL_LINEAR = "all-linear"


class _MethodWord(StrEnum):
    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"
    DORA = "dora"
    FREEZE = "freeze"


def say_method(settings: Settings, key: str, context: Context) -> None:
    """Say which parameters train; ``dora`` is LoRA of its kind."""
    reading = choice(settings.text(key), _MethodWord)
    if not isinstance(reading, Found):
        context.draft.say("method.kind", reading)
        return
    context.draft.settle("method")
    is_dora = reading.value is _MethodWord.DORA
    kind = MethodKind.LORA if is_dora else MethodKind(reading.value.value)
    context.draft.say("method.kind", Found(kind, reading.source))
    if is_dora or context.draft.said("method.dora"):
        context.draft.say("method.dora", Found(is_dora, reading.source))


def say_targets(settings: Settings, key: str, context: Context) -> None:
    """Say which modules are adapted: names at commas, a regular expression, or ``all-linear``."""
    reading = settings.text(key)
    if isinstance(reading, Found):
        said = reading.value.strip()
        is_one = said == ALL_LINEAR or _PATTERN.search(said) is not None
        names = tuple(name.strip() for name in said.split(",") if name.strip())
        reading = Found(said, reading.source)
        context.draft.say(
            "method.target_modules", reading if is_one else Found(names, reading.source)
        )
        return
    context.draft.say("method.target_modules", reading)


def say_packing(settings: Settings, key: str, context: Context) -> None:
    """Say how rows are filled; ``true`` is packed, ``false`` padded."""
    switch = settings.flag(key)
    if isinstance(switch, Misread):
        context.draft.say("packing", choice(settings.text(key), Packing))
    elif isinstance(switch, Found):
        packing = Packing.PACKED if switch.value else Packing.PADDED
        context.draft.say("packing", Found(packing, switch.source))
    else:
        context.draft.say("packing", switch)


def say_liger(settings: Settings, key: str, context: Context) -> None:
    """Say that Liger's kernels replace the model's own, or that they do not."""
    draft = context.draft
    reading, loss, task = settings.flag(key), draft.said("loss"), draft.said("task")
    if isinstance(reading, Found) and not reading.value:
        draft.say("fused_kernels", Found((), reading.source))
        if loss is not None and loss.value == Loss.FUSED_LINEAR:
            draft.say("loss", Found(Loss.STANDARD, reading.source))
        return
    switch = Settings({"use_liger_kernel": settings[key]})
    say_liger_kernels(switch, draft, Task(task.value) if task is not None else None)


def say_vocabulary(settings: Settings, key: str, context: Context) -> None:
    """Say the vocabulary's size where the model is described by its config; warn where it is named."""
    reading = settings.whole(key)
    config = context.draft.said("model.config")
    if isinstance(reading, Misread):
        context.draft.misread("model.config", reading)
    elif isinstance(reading, Found) and reading.value < 1:
        belongs = Misread(reading.source, reading.value, "a whole number of 1 or more")
        context.draft.misread("model.config", belongs)
    elif isinstance(reading, Found) and config is not None:
        changed = {**config.value, "vocab_size": reading.value}
        context.draft.say("model.config", Found(changed, f"{config.source}, {reading.source}"))
    elif reading is not None:
        context.draft.warn(
            "vocab_size_not_taken",
            "A vocabulary's size can be told only of a model described by its config; the named"
            " model's own was taken.",
        )
