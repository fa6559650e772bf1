"""Step: a program on its way from a command line to the trainer, and what stood before it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from vramgate.launch.launch import Context
from vramgate.launch.words import Command, Word
from vramgate.launch.world import World

Says: TypeAlias = Callable[[Context], None]
"""What a wrapper or a launcher says of the job; called only for the command that trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A program with its arguments, some of its wrappers and launchers taken off."""

    words: tuple[Word, ...]
    """The program, or the script or module that Python runs, and what follows it."""
    environment: Mapping[str, Word]
    is_python: bool = False
    """Whether Python runs it: then a name without an ending is a module's."""
    world: World | None = None
    """The processes that the innermost launcher starts."""
    first: tuple[Says, ...] = ()
    """Said before the trainer's own words, outermost first."""
    last: tuple[Says, ...] = ()
    """Said after them."""
    opened: frozenset[str] = field(default_factory=frozenset)
    """Scripts around it."""

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    def inner(
        self,
        words: Iterable[Word],
        *,
        environment: Mapping[str, Word] | None = None,
        is_python: bool = False,
        world: World | None = None,
        first: Says | None = None,
        last: Says | None = None,
    ) -> "Step":
        """Return the program that this one starts."""
        return replace(
            self,
            words=tuple(words),
            environment={**self.environment, **(environment or {})},
            is_python=is_python,
            world=world or self.world,
            first=self.first if first is None else (*self.first, first),
            last=self.last if last is None else (*self.last, last),
        )


def first_step(command: Command) -> Step:
    """Return a command with everything still on it."""
    return Step(words=command.words, environment=command.environment)


def assignments(words: Iterable[Word]) -> Mapping[str, Word]:
    """Return ``NAME=value`` words as variables.

    >>> assignments([Word(text="NNODES=2", source="args[1]")])["NNODES"].text
    '2'
    """
    variables = {}
    for word in words:
        name, equals, value = word.text.partition("=")
        if equals and name.isidentifier():
            unresolved = tuple(one for one in word.unresolved if one in value)
            variables[name] = Word(
                text=value, source=f"{word.source} {name}", unresolved=unresolved
            )
    return variables
