"""A model's ``config.json`` as it arrives: any JSON object, bounded in size and depth."""

import math
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from vramgate.wire.numbers import clean_text

MAX_DEPTH = 16
MAX_NODES = 60_000  # ImageNet-21k's label tables hold 43 687 entries, the largest published
MAX_STRING = 65_536
MAX_MAGNITUDE = 2**63  # some configs carry 1e30 as "no limit"; no size may
MAX_KEY = 512


def _refuse(reason: str) -> PydanticCustomError:
    return PydanticCustomError("model_config", "{reason}", {"reason": reason})


def _checked_text(value: str) -> None:
    if len(value) > MAX_STRING:
        raise _refuse(f"A text in a config should hold at most {MAX_STRING} characters")
    clean_text(value)


def _checked_leaf(value: object) -> None:
    if isinstance(value, str):
        _checked_text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _refuse("Numbers in a config should be finite")
    elif isinstance(value, int) and abs(value) >= MAX_MAGNITUDE:
        raise _refuse("Whole numbers in a config should be below 2**63")
    elif value is not None and not isinstance(value, bool | int | float):
        raise _refuse(f"A config holds JSON values, not {type(value).__name__}")


def _bounded(value: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever JSON holds
    """Return the object where every part of it is bounded JSON."""
    if not isinstance(value, dict):
        raise PydanticCustomError("model_config", "Input should be an object, as in config.json")
    level: list[object] = [value]
    nodes = 0
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for node in level:
            if isinstance(node, dict):
                for key in node:
                    if not isinstance(key, str) or len(key) > MAX_KEY:
                        raise _refuse(f"Keys of a config should be texts of at most {MAX_KEY}")
                    _checked_text(key)
                below.extend(node.values())
            elif isinstance(node, list | tuple):
                below.extend(node)
            else:
                _checked_leaf(node)
        nodes += len(below)
        if nodes > MAX_NODES:
            raise _refuse(f"A config should hold at most {MAX_NODES} values")
        if not below:
            return value
        level = below
    raise _refuse(f"A config should nest at most {MAX_DEPTH} deep")


JsonObject: TypeAlias = Annotated[
    dict[str, Any],
    BeforeValidator(_bounded),
    WithJsonSchema({"type": "object", "additionalProperties": True}),
]
"""Any JSON object, bounded."""

ModelConfig: TypeAlias = Annotated[
    dict[str, Any],
    BeforeValidator(_bounded),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": True,
            "description": "A Hugging Face config.json.",
        }
    ),
]
