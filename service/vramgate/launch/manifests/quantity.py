"""Kubernetes quantities: ``8``, ``"80Gi"``, ``"500m"``."""

import re
from fractions import Fraction
from functools import lru_cache

_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{
        suffix: Fraction(1000 ** (power + 1))
        for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"))
    },
    **{
        suffix: Fraction(1024 ** (power + 1))
        for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    },
}
_LONGEST = 40
"""Characters: a sign, 18 digits, a point, 9 digits, an exponent."""
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d{1,18}\.?\d{0,9}|\.\d{1,9}))(?:[eE](?P<power>[+-]?\d{1,2})|(?P<suffix>[numkMGTPE]?i?))"
)


def quantity(value: object) -> Fraction | None:
    """Return the number that a quantity stands for, None where it is none.

    Source: apimachinery ``pkg/api/resource/quantity.go``.

    >>> quantity("4Gi"), quantity(8), quantity("two")
    (Fraction(4294967296, 1), Fraction(8, 1), None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).strip()
    return _number(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=1024)
def _number(text: str) -> Fraction | None:
    match = _QUANTITY.fullmatch(text)
    if match is None or (match["suffix"] or "") not in _SUFFIXES:
        return None
    scale = (
        Fraction(10) ** int(match["power"]) if match["power"] else _SUFFIXES[match["suffix"] or ""]
    )
    return Fraction(match["number"]) * scale
