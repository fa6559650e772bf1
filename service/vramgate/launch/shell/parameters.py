"""``${…}`` taken apart, and the operators that change a known text."""

import re
from functools import lru_cache
from typing import NamedTuple

_BRACED = re.compile(
    r"(?P<mark>[!#]?)(?P<name>[A-Za-z_][A-Za-z_0-9]*|[0-9]+|[@*#?$!-])"
    r"(?P<rest>.*)",
    re.DOTALL,
)
_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##|#|%%|%|//|/#|/%|/|\^\^|\^|,,|,|@[A-Za-z]\Z|:", re.DOTALL)
_INDIRECT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*[*@]")
MAX_KEY = 256


class Braced(NamedTuple):
    """One ``${…}``."""

    name: str
    key: str | None
    """Of ``${NAME[key]}``."""
    operator: str
    """Empty, ``#`` before the name as ``length``, ``!`` as ``indirect``."""
    operand: str


@lru_cache(maxsize=1024)
def taken_apart(inner: str) -> Braced | None:
    """Return what stands between ``${`` and ``}``; None where bash would call it a bad substitution.

    >>> taken_apart("NPROC:-8")
    Braced(name='NPROC', key=None, operator=':-', operand='8')
    >>> taken_apart("#ARGS[@]")
    Braced(name='ARGS', key='@', operator='length', operand='')
    """
    if inner == "#":
        return Braced("#", None, "", "")
    match = _BRACED.match(inner)
    if match is None:
        return None
    mark, name, rest = match["mark"], match["name"], match["rest"]
    if mark == "#" and rest and not rest.startswith("["):
        # ``${#-x}``: the operator works on ``$#``.
        mark, name, rest = "", "#", inner[1:]
    key, rest = _subscript(rest)
    if mark == "#":
        return Braced(name, key, "length", "") if not rest else None
    if mark == "!":
        return Braced(name, key, "indirect", rest)
    if not rest:
        return Braced(name, key, "", "")
    operator = _OPERATOR.match(rest)
    if operator is None:
        return None
    return Braced(name, key, operator.group(), rest[operator.end() :])


def _subscript(rest: str) -> tuple[str | None, str]:
    if not rest.startswith("["):
        return None, rest
    depth = 0
    for index, char in enumerate(rest[:MAX_KEY]):
        depth += (char == "[") - (char == "]")
        if not depth:
            return rest[1:index], rest[index + 1 :]
    return None, rest


def cased(text: str, operator: str) -> str:
    """Return the text of ``${X^^}``, ``${X^}``, ``${X,,}``, ``${X,}``, ``${X@U}`` and the like."""
    if operator in {"^^", "@U"}:
        return text.upper()
    if operator in {",,", "@L"}:
        return text.lower()
    first = text[:1]
    return (first.lower() if operator == "," else first.upper()) + text[1:]


def sliced(text: str, offset: int, length: int | None) -> str | None:
    """Return the text of ``${X:offset:length}``; None where bash would refuse it."""
    size = len(text)
    start = offset if offset >= 0 else size + offset
    if start < 0 or start > size:
        return ""
    if length is None:
        return text[start:]
    end = start + length if length >= 0 else size + length
    return text[start:end] if end >= start else None
