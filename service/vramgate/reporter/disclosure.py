"""Which of a run's own arguments leave the machine: known fields of harmless types only."""

import dataclasses
import enum
import json
import os
import sys
from collections.abc import Collection, Mapping
from typing import Any

from vramgate.reporter import known_fields
from vramgate.reporter.redaction import (
    filtered_arguments,
    masked,
    masked_lines,
    names_a_secret,
    without_secret_names,
)

_LONGEST_TEXT = 512
_LONGEST_LIST = 512
_DEEPEST = 6
_LARGEST_CONFIG_BYTES = 256 * 1024
# Large, and without effect on memory.
_NOT_OF_CONFIG = frozenset(
    {
        "id2label",
        "label2id",
        "task_specific_params",
        "_name_or_path",
        "name_or_path",
        "chat_template",
    }
)
# The names of modules and patterns are keys here, so they are no field names.
_FREE_KEYS = frozenset({"rank_pattern", "alpha_pattern"})
_DROPPED = object()


def own_arguments() -> list[str]:
    """Return this process's command line, filtered."""
    return filtered_arguments(sys.argv)


def own_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables of the environment that are on the allow-list, and nothing else.

    >>> own_environment({"WORLD_SIZE": "8", "HF_TOKEN": "hf_x", "HOME": "/home/me"})
    {'WORLD_SIZE': '8'}
    """
    return {
        name: masked(value)[:_LONGEST_TEXT]
        for name, value in environment.items()
        if name in known_fields.ENVIRONMENT
    }


def own_launch(framework: str | None = None, config: object = None) -> dict[str, Any]:
    """Return this process's launch: its filtered words, never asked for twice."""
    launch: dict[str, Any] = {"command": own_arguments(), "env": own_environment()}
    if framework is not None:
        launch["framework"] = framework
    if config is not None:
        launch["config"] = config
    return launch


def given_launch(launch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a launch that the caller wrote himself, without what looks secret in it."""
    kept: dict[str, Any] = {}
    for name, value in launch.items():
        if name == "env" and isinstance(value, Mapping):
            kept[name] = own_environment({str(key): str(inner) for key, inner in value.items()})
        elif name == "command" and isinstance(value, list | tuple):
            kept[name] = filtered_arguments([str(part) for part in value])
        elif name == "command" and isinstance(value, str):
            kept[name] = " ".join(filtered_arguments(value.split(" ")))
        elif name == "files" and isinstance(value, Mapping):
            kept[name] = {masked(str(file)): _file(str(text)) for file, text in value.items()}
        else:
            kept[name] = without_secret_names(as_json(value))
    return kept


def framework_config(
    arguments: object, names: Collection[str] = known_fields.TOP
) -> dict[str, object]:
    """Return the known fields of a framework's settings object, as they are.

    Takes a dataclass, a mapping or any object with attributes; unknown names stay behind.
    """
    fields = _fields(arguments)
    kept = {
        name: _harmless(fields[name], 0, is_free=name in _FREE_KEYS)
        for name in sorted(names & fields.keys())
        if not names_a_secret(name)
    }
    return {name: value for name, value in kept.items() if value is not _DROPPED}


def model_config(model: object) -> dict[str, Any] | None:
    """Return the live model's configuration without secrets; None where it has none."""
    config = getattr(model, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        return None
    chosen = {name: value for name, value in config.items() if name not in _NOT_OF_CONFIG}
    kept = without_secret_names(as_json(chosen))
    is_small = len(json.dumps(kept)) <= _LARGEST_CONFIG_BYTES
    return kept if is_small and isinstance(kept, dict) else None


def _fields(arguments: object) -> dict[str, Any]:
    if isinstance(arguments, Mapping):
        return {str(name): value for name, value in arguments.items()}
    if dataclasses.is_dataclass(arguments):
        names = [field.name for field in dataclasses.fields(arguments)]
        return {name: getattr(arguments, name, None) for name in names}
    return dict(vars(arguments)) if hasattr(arguments, "__dict__") else {}


def _harmless(value: object, depth: int, *, is_free: bool = False) -> object:
    """Return a value of a known field as JSON; what is not of a harmless type is dropped."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float):
        return _number(value)
    if isinstance(value, str):
        return masked(value) if len(value) <= _LONGEST_TEXT else _DROPPED
    if depth >= _DEEPEST:
        return _DROPPED
    if isinstance(value, list | tuple | set | frozenset):
        ordered = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        inner = [_harmless(one, depth + 1) for one in list(ordered)[:_LONGEST_LIST]]
        return [one for one in inner if one is not _DROPPED]
    if isinstance(value, Mapping) or dataclasses.is_dataclass(value):
        return _known_part(_fields(value), depth, is_free=is_free)
    if hasattr(value, "to_dict"):
        return _known_part(_fields(value.to_dict()), depth, is_free=is_free)
    name = str(value)
    return name.removeprefix("torch.") if type(value).__name__ == "dtype" else _DROPPED


def _known_part(fields: dict[str, Any], depth: int, *, is_free: bool) -> dict[str, object]:
    allowed = {
        name: _harmless(value, depth + 1, is_free=name in _FREE_KEYS)
        for name, value in fields.items()
        if (is_free and isinstance(value, int)) or name in known_fields.NESTED
    }
    return {
        masked(name): value
        for name, value in allowed.items()
        if value is not _DROPPED and not names_a_secret(name)
    }


def _number(value: bool | float | None) -> object:  # noqa: FBT001 a JSON value, not a switch
    """Return a number that JSON can hold: no NaN, no infinity."""
    is_finite = not isinstance(value, float) or abs(value) < float("inf")
    return value if is_finite else _DROPPED


def as_json(value: object, depth: int = 0) -> object:
    """Return a value as JSON has it; objects become their class's name, NaN becomes null."""
    if isinstance(value, enum.Enum):
        return as_json(value.value, depth)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if depth >= 4 * _DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {str(name): as_json(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(inner, depth + 1) for inner in value]
    if type(value).__name__ == "dtype":
        return str(value).removeprefix("torch.")
    return type(value).__name__


def _file(text: str) -> str:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return masked_lines(text)
    return json.dumps(without_secret_names(parsed))
