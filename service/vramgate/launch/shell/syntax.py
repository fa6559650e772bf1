"""The parts of a shell script, as they are written; nothing is expanded yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias, Union

# ---------------------------------------------------------------- words


class Literal(NamedTuple):
    """Characters outside quotes."""

    text: str


class Quoted(NamedTuple):
    """Characters that mean themselves: of ``'…'``, ``$'…'``, or behind a backslash."""

    text: str


class DoubleQuoted(NamedTuple):
    """What stands between ``"`` and ``"``."""

    parts: "Parts"


class Parameter(NamedTuple):
    """``$NAME`` or ``${NAME}``."""

    written: str
    name: str


class Braced(NamedTuple):
    """Any other ``${…}``."""

    written: str
    inner: str


class Substitution(NamedTuple):
    """``$(…)`` or backquotes; ``inner`` is the script that would run."""

    written: str
    inner: str


class Arithmetic(NamedTuple):
    """``$((…))`` or ``$[…]``."""

    written: str
    inner: str


class Process(NamedTuple):
    """``<(…)`` or ``>(…)``."""

    written: str


Part: TypeAlias = (
    Literal | Quoted | DoubleQuoted | Parameter | Braced | Substitution | Arithmetic | Process
)
Parts: TypeAlias = tuple[Part, ...]


class Written(NamedTuple):
    """One word."""

    text: str
    """As written, quotes and all."""
    parts: Parts
    plain: tuple[str] | None = None
    """The one field it becomes, where nothing in it has to be looked at again."""


class Element(NamedTuple):
    """One element of ``NAME=(…)``; ``key`` is that of ``[key]=value``."""

    key: str | None
    value: Written


class Assignment(NamedTuple):
    """``NAME=value``, ``NAME+=value``, ``NAME[key]=value`` or ``NAME=(…)``."""

    name: str
    key: str | None
    appends: bool
    value: Written | tuple[Element, ...]


# ---------------------------------------------------------------- commands


class Redirect(NamedTuple):
    """``2> file``; ``descriptor`` is empty where none is written."""

    descriptor: str
    operator: str
    target: Written


@dataclass(slots=True, kw_only=True)
class HereDocument:
    """``<< WORD``; the lines below it are expanded where ``WORD`` has no quotes."""

    descriptor: str
    expands: bool
    body: str = ""
    """Filled in at the end of the line."""


Redirection: TypeAlias = Redirect | HereDocument


class Simple(NamedTuple):
    """Assignments and words."""

    assignments: tuple[Assignment, ...]
    words: tuple[Written | Assignment, ...]
    """Assignments only behind ``export``, ``declare`` and their like."""
    redirections: tuple[Redirection, ...]
    line: int


class Pipeline(NamedTuple):
    """Commands joined by ``|``."""

    commands: Sequence["Node"]
    negated: bool


class Joint(StrEnum):
    """How a command hangs on the one before it."""

    THEN = ";"
    AND = "&&"
    OR = "||"


class Item(NamedTuple):
    """One command of a list."""

    joint: Joint
    command: "Node"


class Sequel(NamedTuple):
    """Commands in order."""

    items: tuple[Item, ...]


class Background(NamedTuple):
    """``command &``, and ``( … )``: what it sets is lost with its process."""

    body: "Node"


class Group(NamedTuple):
    """A compound command with redirections: ``{ …; } > file``."""

    body: "Node"
    redirections: tuple[Redirection, ...]


class If(NamedTuple):
    """Conditions with what they guard; the last may be None, for ``else``."""

    branches: tuple[tuple["Node | None", "Node"], ...]


class Loop(NamedTuple):
    """``while`` or ``until``."""

    condition: "Node"
    body: "Node"
    until: bool


class For(NamedTuple):
    """``for`` or ``select``; ``items`` is None where it goes over ``"$@"``."""

    name: str
    items: tuple[Written, ...] | None
    body: "Node"
    selects: bool


class ArithmeticFor(NamedTuple):
    """``for ((…; …; …))``."""

    expressions: str
    body: "Node"


class Clause(NamedTuple):
    """One clause of ``case``; ``ending`` is ``;;``, ``;&`` or ``;;&``."""

    patterns: tuple[Written, ...]
    body: "Node | None"
    ending: str


class Case(NamedTuple):
    """``case``."""

    subject: Written
    clauses: tuple[Clause, ...]


class Function(NamedTuple):
    """A function's definition."""

    name: str
    body: "Node"


class ArithmeticCommand(NamedTuple):
    """``((…))``."""

    expression: str


class Test(NamedTuple):
    """A primary of ``[[ … ]]``: ``-n x``, ``x == y``, ``x``."""

    operator: str
    operands: tuple[Written, ...]


class Both(NamedTuple):
    """``left && right`` or ``left || right`` inside ``[[ … ]]``."""

    joint: Joint
    left: "Condition"
    right: "Condition"


class Not(NamedTuple):
    """``! condition`` inside ``[[ … ]]``."""

    condition: "Condition"


Condition: TypeAlias = Union[Test, Both, Not]  # noqa: UP007 the names are strings


class DoubleBracket(NamedTuple):
    """``[[ … ]]``."""

    condition: Condition


Node: TypeAlias = Union[  # noqa: UP007 the names are strings
    Simple,
    Pipeline,
    Sequel,
    Background,
    Group,
    If,
    Loop,
    For,
    ArithmeticFor,
    Case,
    Function,
    ArithmeticCommand,
    DoubleBracket,
]
