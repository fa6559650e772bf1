"""Checks of what a site wrote into its catalog: what is wrong with a value, what to write."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vramgate.errors import FieldError

_MAX_NAME = 200
_MAX_TEXT = 2_000
_MAX_ITEMS = 1_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Check:
    """What is wrong with a value, and what passes in the words of JSON Schema.

    The schema may let more pass than the check, never less.
    """

    find: Callable[[str, object], Iterator[FieldError]]
    schema: Mapping[str, Any]

    def __call__(self, pointer: str, value: object) -> Iterator[FieldError]:
        """Yield what is wrong with the value, which is at the JSON pointer."""
        return self.find(pointer, value)


def problem(pointer: str, code: str, detail: str, value: object) -> FieldError:
    """Return one thing wrong; what the value is, is cut to what a message can carry."""
    written = repr(value)
    short = value if len(written) <= _MAX_NAME else f"{written[:_MAX_NAME]}…"
    return FieldError(pointer=pointer, code=code, detail=detail, value=short)


def text(*, limit: int = _MAX_TEXT, pattern: str | None = None, example: str = "") -> Check:
    """Return a check for text of at most ``limit`` characters, of a form if a pattern is given."""
    form = None if pattern is None else re.compile(pattern, re.ASCII)
    like = f", for example {example}" if example else ""

    def check(pointer: str, value: object) -> Iterator[FieldError]:
        if not isinstance(value, str):
            quoted = f'; write "{value}" in quotes' if isinstance(value, int | float) else ""
            yield problem(pointer, "not_text", f"must be text{like}{quoted}", value)
        elif not value.strip() or len(value) > limit:
            yield problem(pointer, "text_length", f"must hold 1 to {limit} characters", value)
        elif _CONTROL.search(value):
            yield problem(pointer, "text_form", "must hold no control characters", value)
        elif form is not None and form.fullmatch(value) is None:
            yield problem(pointer, "text_form", f"must have the form of {example}", value)

    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": limit}
    return Check(check, schema if pattern is None else {**schema, "pattern": f"^({pattern})$"})


name: Check = text(limit=_MAX_NAME)
note: Check = text()


def whole(*, low: int, high: int, unit: str) -> Check:
    """Return a check for a whole number between two bounds, both allowed."""

    def check(pointer: str, value: object) -> Iterator[FieldError]:
        if isinstance(value, bool) or not isinstance(value, int):
            detail = f"must be a whole number of {unit}"
            if isinstance(value, float) and math.isfinite(value) and value == int(value):
                detail = f"{detail}: write {int(value)}"
            yield problem(pointer, "not_whole", detail, value)
        elif not low <= value <= high:
            detail = f"must lie between {low} and {high} {unit}"
            yield problem(pointer, "out_of_bounds", detail, value)

    return Check(check, {"type": "integer", "minimum": low, "maximum": high})


def _boolean(pointer: str, value: object) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield problem(pointer, "not_boolean", "must be true or false", value)


yes_or_no = Check(_boolean, {"type": "boolean"})


def list_of(item: Check, *, limit: int = _MAX_ITEMS) -> Check:
    """Return a check for a list whose items pass another."""

    def check(pointer: str, value: object) -> Iterator[FieldError]:
        if not isinstance(value, list):
            yield problem(pointer, "not_list", "must be a list", value)
        elif len(value) > limit:
            yield problem(pointer, "too_many", f"must hold at most {limit} items", len(value))
        else:
            for index, part in enumerate(value):
                yield from item(f"{pointer}/{index}", part)

    return Check(check, {"type": "array", "items": item.schema, "maxItems": limit})


def or_null(inner: Check) -> Check:
    """Return a check that also lets null pass: not known."""

    def check(pointer: str, value: object) -> Iterator[FieldError]:
        if value is not None:
            yield from inner(pointer, value)

    return Check(check, {"anyOf": [inner.schema, {"type": "null"}]})


def record(fields: Mapping[str, Check], *, required: tuple[str, ...] = ()) -> Check:
    """Return a check for an object with these fields and no others."""

    def check(pointer: str, value: object) -> Iterator[FieldError]:
        if not isinstance(value, dict):
            yield problem(pointer, "not_object", "must be an object with named fields", value)
            return
        for key, part in value.items():
            inner = fields.get(key) if isinstance(key, str) else None
            if inner is None:
                detail = f"is no field here; the fields are {', '.join(fields)}"
                escaped = str(key).replace("~", "~0").replace("/", "~1")
                yield problem(f"{pointer}/{escaped}", "unknown_field", detail, part)
            else:
                yield from inner(f"{pointer}/{key}", part)
        for key in required:
            if key not in value:
                yield problem(f"{pointer}/{key}", "missing", "is required: add it", None)

    schema = {
        "type": "object",
        "properties": {key: inner.schema for key, inner in fields.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return Check(check, schema)
