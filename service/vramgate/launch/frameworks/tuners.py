"""What LLaMA-Factory, axolotl and ms-swift have in common: a file with words over it, around the Trainer.

Their command lines name a configuration file and put words over it; what they have not of their own
goes to transformers' ``TrainingArguments``.
"""

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vramgate.costmodel.job import CheckpointMode, Dtype, Loss, ShardingImplementation
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import FusedKernel
from vramgate.launch.documents import UnreadableLaunchError, read_json
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Setting, Settings, of_document
from vramgate.launch.words import Word

_ENDINGS = (".yaml", ".yml", ".json")
_MIB = 2**20

# Fields that decide a verdict, each with the part of it that settles it.
_CRITICAL: Mapping[str, str] = {
    "model": "model.name",
    "method": "method.kind",
    "precision": "precision.compute",
    "optimizer": "optimizer.name",
    "micro_batch_size": "micro_batch_size",
    "sequence_length": "sequence_length",
    "activation_checkpointing": "activation_checkpointing.mode",
    "sharding": "sharding.implementation",
}

LIGER_KERNELS = (FusedKernel.RMS_NORM, FusedKernel.ROPE, FusedKernel.SWIGLU)
"""Liger's defaults beside its loss: liger_kernel 0.8 ``transformers/monkey_patch.py``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a file and the words over it say; ``unseen`` where the file did not come along."""

    settings: Settings
    unseen: Unseen | None = None


def is_config(word: Word) -> bool:
    """Tell a configuration file among a command's words."""
    return word.text.endswith(_ENDINGS) and not word.text.startswith("-")


def from_file(path: Word, over: Settings, context: Context) -> Told:
    """Return what a file says, with the words over it.

    Raises:
        UnreadableLaunchError: the file is not what its name says.
    """
    sent = context.files.find(path)
    if isinstance(sent, Found):
        settings = of_document(sent.value.mapping(), sent.value.name)
        return Told(settings=over.over(settings))
    return Told(settings=over, unseen=sent if isinstance(sent, Unseen) else None)


def say_unseen(unseen: Unseen, context: Context) -> None:
    """Name what a file out of sight decides, as far as nothing else said it."""
    for group, part in _CRITICAL.items():
        if context.draft.said(part) is None:
            context.draft.unknown(group, unseen)


def nested(settings: Settings, name: str) -> Settings:
    """Return the settings of an object: as it stands, as JSON text, or as words ``name.part``."""
    parts: dict[str, Setting] = {}
    setting = settings.get(name)
    if setting is not None:
        for part, value in _object(setting.said).items():
            parts[str(part)] = Setting(said=value, source=f"{setting.source}.{part}")
    for separator in (".", "__"):
        prefix = f"{name}{separator}"
        for key in settings:
            if key.startswith(prefix):
                parts[key.removeprefix(prefix)] = settings[key]
    return Settings(parts)


def _object(said: object) -> Mapping[str, Any]:
    if isinstance(said, tuple) and len(said) == 1 and isinstance(said[0], Word):
        said = said[0].text
    if isinstance(said, str) and said.lstrip().startswith("{"):
        try:
            said = read_json(said, "a setting")
        except UnreadableLaunchError:
            return {}
    return said if isinstance(said, Mapping) else {}


def is_on(reading: Reading[bool]) -> bool:
    """Tell whether a switch is seen, and on."""
    return isinstance(reading, Found) and reading.value


def at_least_one(reading: Reading[int]) -> Reading[int]:
    """Return a count; less than one of anything is a mistake."""
    if isinstance(reading, Found) and reading.value < 1:
        return Misread(reading.source, reading.value, "a whole number of 1 or more")
    return reading


def chosen(reading: Reading[str], choices: Collection[str]) -> Reading[str]:
    """Return one of some words, in small letters; any other is a mistake."""
    if not isinstance(reading, Found):
        return reading
    word = reading.value.strip().lower()
    if word in choices:
        return Found(word, reading.source)
    return Misread(reading.source, reading.value, f"one of {', '.join(choices)}")


def say_unknown(field: str, reading: Found[Any], draft: Draft, *, reason: str, hint: str) -> None:
    """Name a field whose value is seen, and is none that a job can have."""
    draft.forget(field)
    draft.unknown(field, Unseen(reading.source, reason, hint))


def say_sizes(
    settings: Settings, draft: Draft, *micro_batch_size: str, sequence_length: str
) -> None:
    """Say the sizes of a step; micro-batch and length under the framework's own names."""
    draft.say("micro_batch_size", at_least_one(settings.whole(*micro_batch_size)))
    draft.say("sequence_length", at_least_one(settings.whole(sequence_length)))
    draft.say(
        "gradient_accumulation_steps", at_least_one(settings.whole("gradient_accumulation_steps"))
    )
    if is_on(settings.flag("auto_find_batch_size")):
        draft.warn(
            "auto_find_batch_size",
            "auto_find_batch_size halves the batch until it fits; the estimate is for the batch as"
            " written.",
        )


def say_trainer_rest(settings: Settings, draft: Draft) -> None:
    """Say what is left of the Trainer's own words: torch.compile and DDP's bucket."""
    draft.say("compile", settings.flag("torch_compile"))
    megabytes = settings.whole("ddp_bucket_cap_mb")
    if isinstance(megabytes, Found):
        # torch nn/parallel/distributed.py: bucket_cap_mb in MiB.
        megabytes = Found(megabytes.value * _MIB, megabytes.source)
    draft.say("sharding.buckets.ddp_bytes", megabytes)


def check_halves(settings: Settings, draft: Draft) -> None:
    """Refuse bf16 with fp16, as ``training_args.py`` of transformers does."""
    bf16, fp16 = settings.flag("bf16"), settings.flag("fp16")
    if isinstance(bf16, Found) and isinstance(fp16, Found) and bf16.value and fp16.value:
        draft.problem(
            Problem(
                rule="fp16_with_bf16",
                detail="bf16 and fp16 are both on: at most one of them can be",
                fix="turn one of them off",
                values={bf16.source: True, fp16.source: True},
                field="precision",
            )
        )


def say_mixed(compute: Found[Dtype], draft: Draft, *, weights: Dtype) -> None:
    """Say products under autocast, over weights loaded in a format of their own.

    Where accelerate was told of DeepSpeed, its engine holds 16-bit weights beside an fp32 copy.
    """
    if is_under(draft, ShardingImplementation.DEEPSPEED):
        preset = {
            Dtype.BF16: PrecisionPreset.BF16_MASTER,
            Dtype.FP16: PrecisionPreset.FP16_MASTER,
        }[compute.value]
        draft.say_preset(Found(preset, compute.source))
        return
    say_formats(Found(weights, compute.source), draft, compute=compute.value, autocast=True)


def held(dtype: Dtype, draft: Draft, *, trains_whole: bool) -> Dtype:
    """Return the format that weights rest in under mixed precision.

    accelerate ``accelerator.py``: under FSDP it raises what trains to fp32 before it is sharded.
    """
    fsdp = is_under(draft, ShardingImplementation.FSDP, ShardingImplementation.FSDP2)
    return Dtype.FP32 if fsdp and trains_whole else dtype


def say_formats(weights: Found[Dtype], draft: Draft, *, compute: Dtype, autocast: bool) -> None:
    """Say the formats of weights and products; gradients and states follow what trains."""
    draft.say("precision.weights", weights)
    draft.say("precision.compute", Found(compute, weights.source))
    draft.say("precision.autocast", Found(autocast, weights.source))


def say_checkpointing_mode(mode: Found[CheckpointMode], draft: Draft) -> bool:
    """Say whether the trainer checkpoints; return whether anything does.

    A trainer that does not leaves FSDP's own checkpointing, which accelerate was told of, as it is.
    """
    before = draft.said("activation_checkpointing.mode")
    fsdp = is_under(draft, ShardingImplementation.FSDP, ShardingImplementation.FSDP2)
    if mode.value is CheckpointMode.NONE and fsdp and before is not None:
        return bool(before.value != CheckpointMode.NONE)
    draft.say("activation_checkpointing.mode", mode)
    return mode.value is not CheckpointMode.NONE


def is_under(draft: Draft, *implementations: ShardingImplementation) -> bool:
    """Tell whether a sharding was said already."""
    said = draft.said("sharding.implementation")
    return said is not None and said.value in {one.value for one in implementations}


def say_liger(source: str, draft: Draft, loss: Loss | None) -> None:
    """Say Liger's kernels in place of the model's own, and its loss where the task computes one."""
    draft.say("fused_kernels", Found(LIGER_KERNELS, source))
    if loss is not None:
        draft.say("loss", Found(loss, source))


def renamed(settings: Settings, names: Mapping[str, str]) -> Settings:
    """Return the settings under other names: ours first, then those they are to have.

    >>> renamed(of_document({"micro_batch_size": 2}, ""), {"micro_batch_size": "batch"}).whole("batch")
    Found(value=2, source='micro_batch_size')
    """
    return Settings({new: settings[old] for old, new in names.items() if old in settings})


def first_said(readings: Iterable[Reading[Any]]) -> Reading[Any]:
    """Return the first reading that says anything."""
    return next((reading for reading in readings if reading is not None), None)


def program_name(program: str) -> str:
    """Return a program's name without its folder and ending: ``train_bash`` of ``src/train_bash.py``."""
    return posixpath.basename(program).removesuffix(".py")


def without(words: Sequence[Word], left_out: Word | None) -> tuple[Word, ...]:
    """Return the words but one."""
    return tuple(word for word in words if word is not left_out)


def refuse(
    draft: Draft, rule: str, detail: str, fix: str, *because: Reading[Any], field: str | None = None
) -> None:
    """Report what the framework itself refuses, with the words that make it so."""
    values = {one.source: one.value for one in because if isinstance(one, Found)}
    draft.problem(Problem(rule=rule, detail=detail, fix=fix, values=values, field=field))
