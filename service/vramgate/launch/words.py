"""Words of a command line after the shell is done with them, and the environment they saw."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Word(NamedTuple):
    """One argument; references that nobody gave a value stay in the text as they were written."""

    text: str
    source: str
    """``args[7]``, in a script ``line 24, args[7]``."""
    unresolved: tuple[str, ...] = ()
    """What could not be seen: ``$MODEL_PATH``, ``$(date)``."""

    @property
    def is_known(self) -> bool:
        """Whether every part of the text was visible."""
        return not self.unresolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with what its process finds in the environment."""

    words: tuple[Word, ...]
    environment: Mapping[str, Word] = field(default_factory=dict)
    """Variables whose values, or whose being unresolved, is known."""


def texts(command: Command) -> tuple[str, ...]:
    """Return the command's words as text."""
    return tuple(word.text for word in command.words)
