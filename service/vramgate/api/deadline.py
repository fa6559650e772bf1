"""How long the caller will wait: ``?timeout=`` as Kubernetes sends it, ``X-Request-Timeout-Ms``."""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import Request

from vramgate.errors import DomainError, FieldError
from vramgate.json_text import shortened
from vramgate.workflows.admissions import Deadline

HEADER = "X-Request-Timeout-Ms"
OWN_SECONDS = 2.0
"""Nobody waits longer for an answer that takes milliseconds."""
RESERVE_SECONDS = 0.2
"""For the way back: what a caller waits less this is ours."""
RESERVE_SHARE = 0.25
"""Where the caller waits so short that the reserve would take most of it."""

# Go's durations, of whole units up to hours: time.ParseDuration.
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:h|ms|us|ns|m|s))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|ns|m|s)", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)

PARAMETERS: tuple[Mapping[str, Any], ...] = (
    {
        "name": "timeout",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "maxLength": 40},
        "description": "How long the caller waits: `2s`, `500ms`, or seconds.",
    },
    {
        "name": HEADER,
        "in": "header",
        "required": False,
        "schema": {"type": "string", "maxLength": 40},
        "description": "The same in milliseconds; the shortest that is said holds.",
    },
)
"""As OpenAPI tells of them; the route reads them itself."""


class InvalidTimeoutError(DomainError):
    """What the request says of its patience cannot be read."""

    code = "invalid_parameter"


def deadline_of(request: Request) -> Deadline:
    """Return until when a request must be answered.

    Raises:
        InvalidTimeoutError: it says how long it waits in a way that is none.
    """
    waits = min(_waits(request), default=OWN_SECONDS + RESERVE_SECONDS)
    reserve = min(RESERVE_SECONDS, RESERVE_SHARE * waits)
    return Deadline(time.monotonic() + min(OWN_SECONDS, waits - reserve))


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds; None where the text is none.

    >>> seconds_of("2s"), seconds_of("500ms"), seconds_of("1m30s"), seconds_of("0.2"), seconds_of("-1s")
    (2.0, 0.5, 90.0, 0.2, None)
    """
    if _NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def _waits(request: Request) -> Iterator[float]:
    for text in request.query_params.getlist("timeout"):
        yield _checked(seconds_of(text), "timeout", text, "a time as 2s, 500ms, or seconds")
    for text in request.headers.getlist(HEADER):
        found = seconds_of(text) if _NUMBER.fullmatch(text) else None
        milliseconds = _checked(found, HEADER, text, "a number of milliseconds")
        yield milliseconds * _SECONDS["ms"]


def _checked(found: float | None, name: str, text: str, expected: str) -> float:
    if found is not None and found > 0:
        return found
    detail = f"must be {expected}, above 0; got {shortened(text)!r}"
    raise InvalidTimeoutError(
        f"{name} {detail}.",
        hint="Leave it out to wait as long as the service takes.",
        fields=[FieldError(pointer="", parameter=name, code="timeout", detail=detail, value=text)],
    )
