"""Descriptions by dotted paths: assign to fields, and say how two descriptions differ."""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from vramgate.changes.change import FieldChange
from vramgate.jobs.description import JobDescription


def assigned(description: JobDescription, sets: Iterable[tuple[str, object]]) -> JobDescription:
    """Return a description with values assigned to dotted paths, in turn.

    >>> from vramgate.jobs.description import ModelDescription
    >>> job = JobDescription(model=ModelDescription(name="gpt2"))
    >>> assigned(job, [("sharding.zero_stage", 2)]).sharding.zero_stage
    2
    """
    for path, value in sets:
        description = _assigned(description, path, value)
    return description


def _assigned(part: Any, path: str, value: object) -> Any:  # noqa: ANN401 any part of a description
    name, _, rest = path.partition(".")
    return replace(part, **{name: _assigned(getattr(part, name), rest, value) if rest else value})


def differences(before: JobDescription, after: JobDescription) -> tuple[FieldChange, ...]:
    """Return the fields whose values differ, in the order of the description."""
    return tuple(_differences("", before, after))


def _differences(path: str, before: object, after: object) -> Iterator[FieldChange]:
    if is_dataclass(before) and not isinstance(before, type):
        for one in fields(before):
            inner = f"{path}.{one.name}" if path else one.name
            yield from _differences(inner, getattr(before, one.name), getattr(after, one.name))
    elif before != after:
        yield FieldChange(field=path, before=_json(before), after=_json(after))


def _json(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return value
