"""Pydantic's findings as our own: JSON pointers into what was sent, and sentences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vramgate.errors import DomainError, FieldError
from vramgate.json_text import pointer, shortened
from vramgate.wire.field_names import meant

MAX_FIELDS = 50
"""Findings told; a body of four megabytes can hold a quarter of a million."""

INT64_BITS = 63

_Model = TypeVar("_Model", bound=BaseModel)

_SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not a field here",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "string_too_long": "must have at most {max_length} characters",
    "too_long": "must have at most {max_length} items; it has {actual_length}",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be text",
    "bool_type": "must be true or false",
}


class ValidationFailedError(DomainError):
    """Fields are missing, unknown, of another type or out of bounds."""

    code = "validation_failed"


def validated(shape: type[_Model], body: object) -> _Model:
    """Return the body in the given shape.

    Raises:
        ValidationFailedError: it has another shape.
    """
    try:
        return shape.model_validate(body)
    except ValidationError as error:
        raise validation_failed(error.errors(include_url=False), body, shape) from None


def validation_failed(
    findings: Sequence[Mapping[str, Any]], body: object, shape: type[BaseModel] | None = None
) -> ValidationFailedError:
    """Return the failure that tells of the findings, each at its place in the body.

    The shape the body should have, where given, says what unknown fields were meant to be.
    """
    told = [_field_error(one, body, shape) for one in findings[:MAX_FIELDS]]
    fields = _without_other_branches(told)
    others = len(findings) - len(told) + len(fields) - 1
    message = f"{fields[0].pointer or 'The body'}: {fields[0].detail}"
    if others:
        message += f" ({others} more)"
    return ValidationFailedError(message if message.endswith("?") else f"{message}.", fields=fields)


def short_value(value: object) -> bool | int | float | str | None:
    """Return a value as it may be repeated in an answer: scalars, cut to a line."""
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, int) and value.bit_length() > INT64_BITS and not isinstance(value, bool):
        return shortened(str(value))
    return value if isinstance(value, bool | int | float) else None


def sentence(finding: Mapping[str, Any]) -> str:
    """Return what a finding says, to stand behind the name of the field."""
    template = _SENTENCES.get(finding["type"])
    # A shape's own words about a type say more than ours.
    is_own = finding["type"].endswith("_type") and " valid " not in finding["msg"]
    if template is None or is_own:
        words = (
            str(finding["msg"]).removeprefix("Value error, ").replace("Input should", "should", 1)
        )
    else:
        words = template.format_map(finding.get("ctx", {}))
    value = short_value(finding.get("input"))
    told = value is not None and finding["type"] not in {"missing", "extra_forbidden"}
    return f"{words}; got {value!r}" if told and "got" not in words else words


def _field_error(
    finding: Mapping[str, Any], body: object, shape: type[BaseModel] | None
) -> FieldError:
    is_missing = finding["type"] == "missing"
    detail = sentence(finding)
    if finding["type"] == "extra_forbidden" and shape is not None:
        near = meant(str(finding["loc"][-1]), shape)
        detail += f"; did you mean {near}?" if near else ""
    return FieldError(
        pointer=_pointer(finding["loc"], body, missing=is_missing),
        code=finding["type"],
        detail=detail,
        value=None if is_missing else short_value(finding.get("input")),
    )


def _pointer(location: Sequence[str | int], body: object, *, missing: bool) -> str:
    """Return the pointer of a finding; what names a branch of a union is not in the body."""
    here: Any = body
    path: list[str | int] = []
    for index, part in enumerate(location):
        is_last = index == len(location) - 1
        if _holds(here, part):
            path.append(part)
            here = here[part]
        elif missing and is_last:
            path.append(part)
    return pointer(*path)


def _holds(value: object, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, Mapping) and part in value


def _without_other_branches(fields: list[FieldError]) -> list[FieldError]:
    """Drop what is said of a whole whose own parts are at fault: "must be text", "too few items"."""
    parents = {parent for field in fields for parent in _ancestors(field.pointer)}
    return [
        field
        for field in fields
        if field.pointer not in parents
        or not field.code.endswith(("_type", "literal_error", "enum", "too_short"))
    ]


def _ancestors(where: str) -> Iterator[str]:
    """Yield the pointers of what holds the field."""
    while where:
        where = where.rpartition("/")[0]
        yield where
