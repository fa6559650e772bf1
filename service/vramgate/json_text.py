"""JSON as RFC 8259 has it, from bytes of strangers.

Python's own reader takes more (NaN, a key twice, any depth) and would pass on text that no database
and no answer can hold. The HTTP service, the command line and the files of a launch are read through here.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator

import numpy as np

from vramgate.errors import DomainError, FieldError

MAX_DEPTH = 64

# Also matches a string that never ends: one pass over the text, whatever it holds.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)', re.DOTALL)
_SUSPECT_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SHOWN_CHARACTERS = 80
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


class MalformedJsonError(DomainError):
    """The text is not JSON."""

    code = "malformed_json"


class UnstorableTextError(DomainError):
    """A string holds U+0000 or half of a surrogate pair."""

    code = "unstorable_text"


def parse_json(raw: bytes, *, max_depth: int = MAX_DEPTH) -> object:
    """Return the value that the bytes spell.

    Raises:
        MalformedJsonError: not UTF-8, not JSON, a key twice in one object, or nested too deeply.
        UnstorableTextError: a string that cannot be written as UTF-8, or with U+0000.

    >>> parse_json(b'{"micro_batch_size": 2}')
    {'micro_batch_size': 2}
    """
    # Few brackets cannot nest deeply; only then are they counted outside the strings.
    if raw.count(b"[") + raw.count(b"{") > max_depth and _nesting(raw) > max_depth:
        raise MalformedJsonError(f"The JSON is nested more than {max_depth} levels deep.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedJsonError(
            f"The JSON is not UTF-8: byte {error.start} is 0x{raw[error.start]:02x}."
        ) from error
    try:
        value: object = json.loads(
            text,
            object_pairs_hook=_object_without_repeats,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
        )
    except json.JSONDecodeError as error:
        raise MalformedJsonError(_where(error), line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise MalformedJsonError("The JSON is nested too deeply.") from error
    except ValueError as error:
        # An integer of more digits than Python converts.
        raise MalformedJsonError("The JSON holds a whole number of thousands of digits.") from error
    if _SUSPECT_ESCAPE.search(raw):
        _refuse_unstorable(value)
    return value


def pointer(*parts: str | int) -> str:
    """Return the JSON pointer (RFC 6901) of a path.

    >>> pointer("job", "a/b", 0)
    '/job/a~1b/0'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def canonical(value: object) -> str:
    """Return the value as JSON that is the same however its keys were ordered and spaced.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return _CANONICAL(value)


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def shortened(text: str) -> str:
    """Return at most a line of the text, for messages."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _nesting(raw: bytes) -> int:
    """Return how deeply the brackets outside strings nest, without reading the values."""
    codes = np.frombuffer(_STRING.sub(b"", raw), dtype=np.uint8)
    steps = np.zeros(len(codes), dtype=np.int32)
    steps[(codes == ord("[")) | (codes == ord("{"))] = 1
    steps[(codes == ord("]")) | (codes == ord("}"))] = -1
    return int(np.cumsum(steps).max(initial=0))


def _object_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MalformedJsonError(f"The key {shortened(twice)!r} stands twice in one object.")
    return value


def _refuse_constant(name: str) -> float:
    raise MalformedJsonError(f"{name} is not JSON; leave the field out or write a number.")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise MalformedJsonError(f"The number {shortened(digits)} is beyond what a double holds.")
    return number


def _where(error: json.JSONDecodeError) -> str:
    place = f"at line {error.lineno}, column {error.colno}"
    if error.pos >= len(error.doc.rstrip()):
        return f"The JSON ends too early: {error.msg}, {place}."
    return f"This is not JSON: {error.msg}, {place}."


def _refuse_unstorable(value: object) -> None:
    for path, text in _strings(value, ()):
        if found := _UNSTORABLE.search(text):
            where = pointer(*(_UNSTORABLE.sub("�", str(part)) for part in path))
            detail = f"the text holds U+{ord(found.group()):04X}, which cannot be stored"
            raise UnstorableTextError(
                f"{where or 'The body'}: {detail}.",
                fields=[FieldError(pointer=where, code="unstorable_text", detail=detail)],
            )


def _strings(
    value: object, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every string with its path, keys included."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name), name
            yield from _strings(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings(inner, (*path, index))
