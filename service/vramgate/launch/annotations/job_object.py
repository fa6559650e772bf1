"""A job written out as an object, as the published interface takes it: each leaf a field of the draft."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from vramgate.jobs.description import JobDescription
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import (
    FusedKernel,
    LinearFormat,
    Offload,
    OptimizerImplementation,
    PipelineSchedule,
    Quantization,
    Wrap,
)
from vramgate.launch.draft import FIELDS, Draft
from vramgate.launch.reading import Found, Misread, Reading

SHORT_FORMS: Mapping[str, str] = {
    "method": "kind",
    "optimizer": "name",
    "activation_checkpointing": "mode",
}
"""Groups that a text alone stands for: ``"method": "lora"``."""

_WORDS: Mapping[str, type[Enum]] = {
    "fused_kernels": FusedKernel,
    "method.quantization": Quantization,
    "optimizer.implementation": OptimizerImplementation,
    "parallelism.pipeline_schedule": PipelineSchedule,
    "precision.linear": LinearFormat,
    "sharding.offload_optimizer": Offload,
    "sharding.offload_parameters": Offload,
    "sharding.wrap": Wrap,
}
"""Fields that are plain texts in the description, and the texts they may be."""


def say_job(job: Mapping[str, Any], source: str, draft: Draft) -> tuple[str, ...]:
    """Say every leaf of a job, and return the paths that no job has."""
    strange: list[str] = []
    for path, value in _leaves(job):
        place = f"{source}: {path}"
        if path == "precision" and isinstance(value, str):
            draft.forget("precision")
            draft.say_preset(choice(Found(value, place), PrecisionPreset))
            continue
        field = f"{path}.{SHORT_FORMS[path]}" if path in SHORT_FORMS else path
        if field not in FIELDS:
            strange.append(path)
        elif value is not None:
            _say_field(field, value, place, draft)
    return tuple(strange)


def _say_field(field: str, value: object, place: str, draft: Draft) -> None:
    expected = what_belongs_in(field, value)
    if expected is not None:
        draft.misread(field, Misread(place, value, expected))
        return
    if field.startswith("model."):
        draft.forget("model")
    draft.settle(field.partition(".")[0])
    draft.say(field, Found(value, place))


def choice(reading: Reading[str], words: type[Enum]) -> Reading[Any]:
    """Return a text as the word of a closed list that it is."""
    if not isinstance(reading, Found):
        return reading
    said = reading.value.strip().lower()
    for word in words:
        if word.value == said:
            return Found(word, reading.source)
    return Misread(reading.source, reading.value, one_of(word.value for word in words))


def one_of(words: Iterator[str]) -> str:
    """Return the clause for a closed list of words."""
    return f"one of {', '.join(words)}"


def what_belongs_in(field: str, value: object) -> str | None:
    """Return what a field takes where the value is something else; None where it fits.

    >>> what_belongs_in("micro_batch_size", "four")
    'a whole number'
    """
    words = _WORDS.get(field)
    if words is not None:
        items = value if field == "fused_kernels" else [value]
        known = {word.value for word in words}
        if isinstance(items, list) and all(isinstance(i, str) and i in known for i in items):
            return None
        return one_of(word.value for word in words)
    kinds = _KINDS[field]
    if any(_is_of(value, kind) for kind in kinds):
        return None
    return " or ".join(_NAMES.get(kind) or one_of(w.value for w in kind) for kind in kinds)


_NAMES: Mapping[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    tuple: "a list of texts",
    dict: "an object",
}


def _is_of(value: object, kind: type) -> bool:
    if issubclass(kind, Enum):
        return isinstance(value, str) and value in {word.value for word in kind}
    if kind is tuple:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what is not a group of fields, with its dotted path; a model's config stays whole."""
    for key, inner in value.items():
        here = f"{path}.{key}" if path else str(key)
        if isinstance(inner, dict) and here not in FIELDS:
            yield from _leaves(inner, here)
        else:
            yield here, inner


def _kinds(shape: type, prefix: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    hints = get_type_hints(shape)
    for one in fields(shape):
        kind = hints[one.name]
        if is_dataclass(kind) and isinstance(kind, type):
            yield from _kinds(kind, f"{prefix}{one.name}.")
        else:
            yield f"{prefix}{one.name}", tuple(_plain_kinds(kind))


def _plain_kinds(hint: Any) -> Iterator[type]:  # noqa: ANN401 a type's expression
    for kind in get_args(hint):
        origin = get_origin(kind) or kind
        if origin is not NoneType:
            yield dict if issubclass(origin, Mapping) else origin


_KINDS: Mapping[str, tuple[Any, ...]] = dict(_kinds(JobDescription))
