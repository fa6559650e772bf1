"""What was read of one setting: a value with its place, or why there is none.

Readers hand these to ``Draft.say``, which keeps values, names what cannot be seen, and reports what
does not mean anything. Nothing here ever guesses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Found(Generic[T_co]):
    """A value and where it was read: ``args[7] --per_device_train_batch_size``."""

    value: T_co
    source: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something is said here, but not visibly: a variable nobody set, a file that was not sent."""

    source: str
    reason: str
    """A clause: ``ds.json is not among the files``."""
    hint: str = ""
    """The way out: ``send it in launch.files``."""


@dataclass(frozen=True, slots=True)
class Misread:
    """Something is said here that is not what belongs here."""

    source: str
    value: object
    expected: str
    """What belongs here: ``a whole number``."""


Reading: TypeAlias = Found[T] | Unseen | Misread | None
"""None: nothing is said."""


def converted(reading: Reading[T], convert: Callable[[T], U]) -> Reading[U]:
    """Return the reading with its value converted.

    >>> converted(Found("4096", "args[2] --seq-length"), int)
    Found(value=4096, source='args[2] --seq-length')
    """
    return Found(convert(reading.value), reading.source) if isinstance(reading, Found) else reading


def value_or(reading: Reading[T], default: T) -> T:
    """Return the value, or the default where nothing, or nothing visible, is said."""
    return reading.value if isinstance(reading, Found) else default
