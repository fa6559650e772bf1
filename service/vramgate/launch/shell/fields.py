"""Fields: the words that one written word becomes, put together and split as bash does."""

import re
from functools import lru_cache

from vramgate.launch.shell.values import Pieces, Reference

DEFAULT_IFS = " \t\n"
_BLANKS = " \t\n"


class Fields:
    """Collects fields; ``separators`` is ``IFS``, empty where nothing is split."""

    __slots__ = ("_current", "_done", "_is_open", "_separators")

    def __init__(self, separators: str) -> None:
        self._separators = separators
        self._done: list[Pieces] = []
        self._current: list[str] = []
        self._is_open = False

    def open(self) -> None:
        """Make the field stand even if it stays empty."""
        self._is_open = True

    def add(self, pieces: Pieces) -> None:
        """Add what is not split."""
        self._current.extend(pieces)
        self._is_open = True

    def extend(self, pieces: Pieces) -> None:
        """Add what is not split and makes no field by itself where it is empty."""
        self._current.extend(pieces)
        self._is_open = self._is_open or any(pieces)

    def add_split(self, pieces: Pieces) -> None:
        """Add what an expansion outside quotes gave."""
        for piece in pieces:
            if not piece:
                continue
            if isinstance(piece, Reference) or not self._separators:
                self._current.append(piece)
                self._is_open = True
            else:
                self._split(piece)

    def _split(self, text: str) -> None:
        pattern = _separator(self._separators)
        pos = 0
        for match in pattern.finditer(text):
            if match.start() > pos:
                self._current.append(text[pos : match.start()])
                self._is_open = True
            if match.group().strip(_BLANKS):
                self._is_open = True
            self.end()
            pos = match.end()
        if pos < len(text):
            self._current.append(text[pos:])
            self._is_open = True

    def end(self) -> None:
        """End the field, if there is one."""
        if self._is_open:
            self._done.append(tuple(self._current))
            self._current = []
            self._is_open = False

    def done(self) -> list[Pieces]:
        """Return the fields."""
        self.end()
        return self._done


class Joined(Fields):
    """One text, nothing split: the right side of an assignment."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("")

    def end(self) -> None:
        """Separate by a blank what would be another field."""
        self._current.append(" ")

    def text(self) -> Pieces:
        """Return it, its known parts put together."""
        merged: list[str] = []
        for piece in self._current:
            if not piece:
                continue
            is_plain = not isinstance(piece, Reference)
            if is_plain and merged and not isinstance(merged[-1], Reference):
                merged[-1] += piece
            else:
                merged.append(piece)
        return tuple(merged)


@lru_cache(maxsize=64)
def _separator(separators: str) -> re.Pattern[str]:
    blanks = "".join(char for char in separators if char in _BLANKS)
    others = "".join(char for char in separators if char not in _BLANKS)
    some = f"[{re.escape(blanks)}]" if blanks else ""
    if not others:
        return re.compile(f"{some}+")
    around = f"{some}*" if some else ""
    alone = f"|{some}+" if some else ""
    return re.compile(f"{around}[{re.escape(others)}]{around}{alone}")
