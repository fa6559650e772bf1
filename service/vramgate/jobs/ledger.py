"""What was taken because nobody said it: defaults with their source, and the list the answer shows."""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from vramgate.costmodel.breakdown import Assumption, EstimateWarning

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Default(Generic[T_co]):
    """A value and whose default it is, in the words the answer shows: ``"transformers default"``."""

    value: T_co
    source: str


def on(source: str) -> Default[bool]:
    """Return the default of a switch that is on."""
    return Default(value=True, source=source)


def off(source: str) -> Default[bool]:
    """Return the default of a switch that is off."""
    return Default(value=False, source=source)


class Ledger:
    """Collects the assumptions and warnings of one job while it is resolved."""

    __slots__ = ("assumptions", "warnings")

    def __init__(self) -> None:
        self.assumptions: list[Assumption] = []
        self.warnings: list[EstimateWarning] = []

    def take(self, field: str, default: Default[T]) -> T:
        """Return the default's value and note that it was taken."""
        self.note(field, default.value, default.source)
        return default.value

    def said_or(self, field: str, said: T | None, default: Default[T]) -> T:
        """Return what was said, or the default, noted."""
        return self.take(field, default) if said is None else said

    def note(self, field: str, value: object, source: str) -> None:
        """Note a value that nobody gave."""
        self.assumptions.append(Assumption(field=field, value=_plain(value), source=source))

    def warn(self, code: str, message: str) -> None:
        """Note something that is known to mislead."""
        self.warnings.append(EstimateWarning(code=code, message=message))


def _plain(value: object) -> object:
    """Return the value as JSON holds it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | frozenset):
        return [_plain(item) for item in (sorted(value) if isinstance(value, frozenset) else value)]
    return value
