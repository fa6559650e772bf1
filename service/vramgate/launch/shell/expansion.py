"""What the parts of an expansion need of each other."""

from collections.abc import Sequence
from typing import Protocol

from vramgate.launch.shell.fields import Fields
from vramgate.launch.shell.patterns import Pattern
from vramgate.launch.shell.syntax import Part, Parts
from vramgate.launch.shell.values import Pieces
from vramgate.launch.shell.variables import Variables


class Expansion(Protocol):
    """Expands parts of words; ``${…}`` holds such parts itself."""

    variables: Variables

    def joined(self, parts: Parts) -> Pieces:
        """Return the one text that parts become."""

    def add_quoted(self, parts: Parts, fields: Fields) -> None:
        """Add parts inside double quotes."""

    def add_double(self, parts: Parts, fields: Fields) -> None:
        """Add what stands in double quotes of its own."""

    def add_expansion(self, part: Part, fields: Fields, *, quoted: bool) -> None:
        """Add what one expansion gives."""

    def add_pieces(self, pieces: Pieces, fields: Fields, *, quoted: bool) -> None:
        """Add the text of one expansion."""

    def add_list(self, items: Sequence[Pieces], fields: Fields, *, name: str, quoted: bool) -> None:
        """Add ``$@``, ``$*`` or all of an array."""

    def parameter(self, name: str, written: str) -> Pieces:
        """Return the text of ``$NAME``, ``$1`` or ``$#``."""

    def arithmetic(self, inner: str) -> int | None:
        """Return the value of an expression; None where it cannot be told."""

    def pattern(self, parts: Parts) -> Pattern | None:
        """Return a pattern; None where a part of it has no value."""

    def pattern_of(self, text: str) -> Pattern | None:
        """Return the pattern of an operand."""
