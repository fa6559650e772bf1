"""Values of variables: texts in which some parts may be references that nobody gave a value."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from vramgate.launch.words import Word


class Reference(str):
    """A part of a text that could not be seen, as it was written: ``$HOME``, ``$(nproc)``."""

    __slots__ = ()


Pieces: TypeAlias = tuple[str, ...]
"""A text in parts; those that are a ``Reference`` have no value."""

EMPTY: Final[Pieces] = ()


@dataclass(frozen=True, slots=True)
class Array:
    """``NAME=(…)``; keys are numbers, or texts after ``declare -A``."""

    items: Mapping[int | str, Pieces]
    is_associative: bool = False

    def values(self) -> tuple[Pieces, ...]:
        """Return the elements in bash's order."""
        if self.is_associative:
            return tuple(self.items.values())
        return tuple(self.items[key] for key in sorted(self.items, key=int))


class Lack(Enum):
    """Why a variable has no value."""

    UNSET = "nobody gives it: it may come from where the script is started"
    EMPTY = "the script takes it away"
    UNSETTLED = "the script sets it in more than one way"


Value: TypeAlias = Pieces | Array | Lack


def text_of(pieces: Pieces) -> str:
    """Return the whole text, references as they were written."""
    return "".join(pieces)


def unresolved_in(pieces: Iterable[str]) -> tuple[str, ...]:
    """Return what had no value, each once."""
    return tuple(dict.fromkeys(str(piece) for piece in pieces if isinstance(piece, Reference)))


def is_known(pieces: Pieces) -> bool:
    """Return whether the whole text was visible."""
    return not any(isinstance(piece, Reference) for piece in pieces)


def known_text(pieces: Pieces) -> str | None:
    """Return the text where all of it was visible."""
    return "".join(pieces) if is_known(pieces) else None


def word_of(pieces: Pieces, source: str) -> Word:
    """Return the text as a word of a command."""
    if len(pieces) == 1 and not isinstance(pieces[0], Reference):
        return Word(text=pieces[0], source=source)
    return Word(text="".join(pieces), source=source, unresolved=unresolved_in(pieces))


def words_of(fields: Sequence[Pieces], source: str) -> tuple[Word, ...]:
    """Return the words of a command, each with its number behind the source."""
    return tuple(
        [
            Word(text=field[0], source=f"{source}[{index}]")
            # Spelled out for the usual word: a text alone that is no reference.
            if len(field) == 1 and type(field[0]) is str
            else word_of(field, f"{source}[{index}]")
            for index, field in enumerate(fields)
        ]
    )


def pieces_of(word: Word) -> Pieces:
    """Return a word's text in parts."""
    pieces: list[str] = [word.text]
    for reference in word.unresolved:
        pieces = [part for piece in pieces for part in _cut(piece, reference)]
    if word.unresolved and is_known(tuple(pieces)):
        return (Reference(word.text),)
    return tuple(pieces)


def _cut(piece: str, reference: str) -> list[str]:
    if isinstance(piece, Reference) or not reference or reference not in piece:
        return [piece]
    parts: list[str] = []
    for index, text in enumerate(piece.split(reference)):
        if index:
            parts.append(Reference(reference))
        if text:
            parts.append(text)
    return parts
