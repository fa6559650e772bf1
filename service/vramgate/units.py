"""Counts and bytes: the two kinds of number the cost model works in, and GiB as text for people."""

import re
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

Count: TypeAlias = int | NDArray[np.int64]
"""A whole number, or an int64 array of them; every formula takes either and they broadcast."""

Bytes: TypeAlias = Count
"""A count of bytes. GiB exists only as text."""

KIB = 2**10
MIB = 2**20
GIB = 2**30

_SUFFIXES = {"": 1, "b": 1, "k": KIB, "m": MIB, "g": GIB, "t": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


@overload
def ceil_div(numerator: int, denominator: int) -> int: ...
@overload
def ceil_div(numerator: Count, denominator: Count) -> Count: ...
def ceil_div(numerator: Count, denominator: Count) -> Count:
    """Return ``numerator / denominator`` rounded up, in integers.

    >>> ceil_div(10, 4)
    3
    """
    return -(-numerator // denominator)


@overload
def round_up(value: int, multiple: int) -> int: ...
@overload
def round_up(value: Count, multiple: Count) -> Count: ...
def round_up(value: Count, multiple: Count) -> Count:
    """Return the smallest multiple of ``multiple`` that is at least ``value``.

    >>> round_up(513, 512)
    1024
    """
    return ceil_div(value, multiple) * multiple


@overload
def largest(*values: int) -> int: ...
@overload
def largest(*values: Count) -> Count: ...
def largest(*values: Count) -> Count:
    """Return the element-wise maximum; plain integers stay plain integers.

    >>> largest(3, 7, 5)
    7
    """
    best = values[0]
    for value in values[1:]:
        plain = isinstance(best, int) and isinstance(value, int)
        best = max(best, value) if plain else np.maximum(best, value)
    return best


@overload
def smallest(*values: int) -> int: ...
@overload
def smallest(*values: Count) -> Count: ...
def smallest(*values: Count) -> Count:
    """Return the element-wise minimum; plain integers stay plain integers.

    >>> smallest(3, 7, 5)
    3
    """
    best = values[0]
    for value in values[1:]:
        plain = isinstance(best, int) and isinstance(value, int)
        best = min(best, value) if plain else np.minimum(best, value)
    return best


def next_power_of_two(value: Count) -> Count:
    """Return the smallest power of two that is at least ``value`` (itself at least 1).

    >>> next_power_of_two(65), next_power_of_two(64)
    (128, 64)
    """
    if isinstance(value, int):
        return 1 << (value - 1).bit_length()
    return np.left_shift(1, np.ceil(np.log2(value)).astype(np.int64))


def format_gib(size_bytes: int) -> str:
    """Return bytes as text for people, in GiB (2**30), or MiB below one GiB.

    >>> format_gib(16 * 2**30)
    '16.00 GiB'
    >>> format_gib(5 * 2**20)
    '5.0 MiB'
    """
    if abs(size_bytes) < GIB:
        return f"{size_bytes / MIB:,.1f} MiB"
    return f"{size_bytes / GIB:,.2f} GiB"


def parse_gib(text: str) -> int:
    """Return the bytes that text such as ``"80GiB"``, ``"512 MiB"`` or ``"1024"`` names.

    Suffixes are read as powers of two, as launch files write them.

    Raises:
        ValueError: the text is not a size.

    >>> parse_gib("1.5 GiB")
    1610612736
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a size: {text!r}; write for example 80GiB")
    number, suffix = match.groups()
    return int(float(number) * _SUFFIXES[suffix.lower()])
