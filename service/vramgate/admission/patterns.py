"""Patterns of names: ``*`` stands for any text, ``?`` for one character, all else for itself.

Brackets mean nothing here: job arrays and node lists are written with them.
"""

import re
from functools import lru_cache

_REMEMBERED = 2**14
"""Patterns; the largest policy has some six thousand, and making one ready takes 0.1 ms."""
_ANY = "."
_ANY_BUT_WILD = "[^*]"


def matches(pattern: str, value: str) -> bool:
    """Return whether a pattern fits a whole value; capital and small letters differ.

    >>> matches("prod-*", "prod-a100"), matches("4711_[0-9]", "4711_[0-9]"), matches("a?", "a")
    (True, True, False)
    """
    if not _is_wild(pattern):
        return pattern == value
    return _ready(pattern, _ANY).fullmatch(value) is not None


def includes(wider: str, narrower: str) -> bool:
    """Return whether one pattern surely fits everything that another fits.

    False may also mean that it takes more than this to see it.

    >>> includes("prod-*", "prod-a?"), includes("prod-?", "prod-*"), includes("*", "*")
    (True, False, True)
    """
    if not _is_wild(wider):
        return wider == narrower
    # What stands for any text in the narrower is swallowed only by what does so in the wider.
    return _ready(wider, _ANY_BUT_WILD).fullmatch(narrower) is not None


def may_meet(one: str, other: str) -> bool:
    """Return whether some value may fit both patterns; False is sure.

    >>> may_meet("prod-*", "test"), may_meet("prod-*", "*-a100")
    (False, True)
    """
    if not _is_wild(one):
        return matches(other, one)
    return _is_wild(other) or matches(one, other)


def is_for_anything(pattern: str) -> bool:
    """Return whether a pattern fits every text."""
    return set(pattern) == {"*"}


def _is_wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


@lru_cache(maxsize=_REMEMBERED)
def _ready(pattern: str, one: str) -> re.Pattern[str]:
    return re.compile(_expression(pattern, one), re.DOTALL)


def _expression(pattern: str, one: str) -> str:
    """Return the regular expression of a pattern.

    The first place where a part fits is as good as any later one, so the search for it is never
    taken back (an atomic group): the time is bounded by pattern times value, whatever they hold.
    """
    parts = [
        "".join(one if character == "?" else re.escape(character) for character in part)
        for part in re.split(r"\*+", pattern)
    ]
    if len(parts) == 1:
        return parts[0]
    first, *inner, last = parts
    return f"{first}{''.join(f'(?>.*?{part})' for part in inner)}.*{last}"
