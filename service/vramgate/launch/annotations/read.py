"""A site's own words about a job: annotations, ``VRAMGATE_*`` variables, ``#VRAMGATE`` lines.

They win over everything a command line or a file says. The words that the service writes itself
(its decisions) are never read back.
"""

import difflib
from collections.abc import Callable, Mapping
from enum import Enum

from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    OptimizerName,
    Task,
)
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import Quantization
from vramgate.launch.annotations.job_object import choice, say_job
from vramgate.launch.annotations.method import (
    say_liger,
    say_method,
    say_packing,
    say_targets,
    say_vocabulary,
)
from vramgate.launch.annotations.model import say_model
from vramgate.launch.annotations.sharding import say_fsdp_strategy, say_offload, say_zero_stage
from vramgate.launch.documents import UnreadableLaunchError, read_json
from vramgate.launch.frameworks.optimizers import say_optimizer
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Misread, Reading
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word

PREFIX = "vramgate.dev/"
MAX_SPEC_BYTES = 4096
_PREFIXES = (PREFIX, "vramgate/", "VRAMGATE_")

_COUNTS: Mapping[str, str] = {
    "devices": "hardware.devices",
    "devices-per-node": "hardware.devices_per_node",
    "device-memory-bytes": "hardware.device_memory_bytes",
    "micro-batch-size": "micro_batch_size",
    "gradient-accumulation-steps": "gradient_accumulation_steps",
    "seq-len": "sequence_length",
    "tp": "parallelism.tensor_parallel_size",
    "pp": "parallelism.pipeline_parallel_size",
    "cp": "parallelism.context_parallel_size",
    "ep": "parallelism.expert_parallel_size",
    "lora-rank": "method.rank",
}
_TEXTS: Mapping[str, str] = {
    "accelerator": "hardware.accelerator",
    "framework": "software.framework",
    "stack": "software.stack",
}
_CHOICES: Mapping[str, tuple[str, type[Enum]]] = {
    "task": ("task", Task),
    "activation-checkpointing": ("activation_checkpointing.mode", CheckpointMode),
    "attention": ("attention", AttentionImplementation),
    "quantization": ("method.quantization", Quantization),
}
_NOT_FOR_READING = frozenset(
    {
        "mode",
        "decision",
        "decision-id",
        "estimated-peak-bytes",
        "estimated-upper-bytes",
        "policy-version",
        "calibration-version",
    }
)
"""How to admit the job, and what the service wrote of it."""


_RECKONED_WITH = frozenset({"stack", "devices", "devices-per-node"})


def say_annotations(values: Mapping[str, Word], context: Context) -> None:
    """Say what a site's own words say; ``spec`` last, for it wins over the others.

    Keys come as they stand: ``vramgate.dev/seq-len``, ``VRAMGATE_SEQ_LEN``, ``seq-len``.
    """
    settings = Settings(
        {
            _key(name): Setting(said=(word,), source=word.source)
            for name, word in values.items()
            if _key(name) not in _NOT_FOR_READING
        }
    )
    for key, say in _READERS.items():
        if key in settings:
            say(settings, key, context)
    for name, word in values.items():
        if _key(name) not in _READERS and _key(name) not in _NOT_FOR_READING:
            _say_unknown(name, word, context)


def say_machine(values: Mapping[str, Word], context: Context) -> None:
    """Say only the words that readers reckon with: versions and devices.

    For before a command is read; it may say otherwise, so all words are said again behind it.
    """
    say_annotations(
        {name: word for name, word in values.items() if _key(name) in _RECKONED_WITH}, context
    )


def _key(name: str) -> str:
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name.removeprefix(prefix).replace("_", "-").lower()


def _say_unknown(name: str, word: Word, context: Context) -> None:
    """Warn of a key that nobody reads; variables may be other programs', so only of likely slips."""
    near = difflib.get_close_matches(_key(name), _READERS, n=1, cutoff=0.8)
    if near:
        meant = f"; did you mean {near[0]}?"
    elif name.startswith("VRAMGATE_"):
        return
    else:
        meant = f". Known: {', '.join(_READERS)}."
    context.draft.warn("unknown_annotation", f"{word.source} is not a word that is read{meant}")


def _at_least_one(reading: Reading[int]) -> Reading[int]:
    if isinstance(reading, Found) and reading.value < 1:
        return Misread(reading.source, reading.value, "a whole number of 1 or more")
    return reading


def _say_count(settings: Settings, key: str, context: Context) -> None:
    context.draft.say(_COUNTS[key], _at_least_one(settings.whole(key)))


def _say_text(settings: Settings, key: str, context: Context) -> None:
    context.draft.say(_TEXTS[key], settings.text(key))


def _say_choice(settings: Settings, key: str, context: Context) -> None:
    field, words = _CHOICES[key]
    reading = choice(_word(settings, key), words)
    if isinstance(reading, Found):
        context.draft.settle(field.partition(".")[0])
    context.draft.say(field, reading)


def _word(settings: Settings, key: str) -> Reading[str]:
    """Return a text of which ``none`` is a word like others."""
    reading = settings.value(key)
    return Found(str(reading.value), reading.source) if isinstance(reading, Found) else reading


def _say_precision(settings: Settings, key: str, context: Context) -> None:
    reading = choice(_word(settings, key), PrecisionPreset)
    if isinstance(reading, Found):
        linear = context.draft.said("precision.linear")
        context.draft.forget("precision")
        context.draft.say("precision.linear", linear)
    context.draft.say_preset(reading)


def _say_optimizer(settings: Settings, key: str, context: Context) -> None:
    """Say an optimizer by our name, or by any framework's."""
    reading = settings.text(key)
    ours = choice(reading, OptimizerName)
    if isinstance(reading, Found):
        context.draft.forget("optimizer")
    if isinstance(ours, Misread):
        say_optimizer(reading, context.draft)
    else:
        context.draft.say("optimizer.name", ours)


def _say_spec(settings: Settings, key: str, context: Context) -> None:
    reading = settings.value(key)
    if not isinstance(reading, Found):
        return
    text, source = str(reading.value), reading.source
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SPEC_BYTES:
        _warn_bad(context, f"{source} is longer than {MAX_SPEC_BYTES} bytes and was left out")
        return
    try:
        spec = read_json(text, source)
    except UnreadableLaunchError as error:
        _warn_bad(context, f"{error.message.rstrip('.')}; it was left out")
        return
    job = spec.get("job", spec) if isinstance(spec, dict) else None
    if not isinstance(job, dict):
        _warn_bad(context, f"{source} is no object of a job and was left out")
        return
    for path in say_job(job, source, context.draft):
        _warn_bad(context, f"{source}: {path[:80]} is no field of a job and was left out")


def _warn_bad(context: Context, message: str) -> None:
    context.draft.warn("bad_annotation", f"{message}.")


_READERS: Mapping[str, Callable[[Settings, str, Context], None]] = {
    **dict.fromkeys(_COUNTS, _say_count),
    **dict.fromkeys(_TEXTS, _say_text),
    "model": say_model,
    "vocab-size": say_vocabulary,
    "method": say_method,
    "lora-targets": say_targets,
    "precision": _say_precision,
    "optimizer": _say_optimizer,
    "packing": say_packing,
    "liger": say_liger,
    "zero-stage": say_zero_stage,
    "fsdp": say_fsdp_strategy,
    "offload": say_offload,
    **dict.fromkeys(_CHOICES, _say_choice),
    "spec": _say_spec,
}
"""In the order in which they are said: a node's cards before what depends on them."""
