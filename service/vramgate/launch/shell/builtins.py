"""Builtins that change variables: ``export``, ``declare``, ``set``, ``shift``, ``read``, ``unset``."""

import re
from collections.abc import Callable, Mapping, Sequence

from vramgate.launch.shell.assign import Assigner
from vramgate.launch.shell.expand import Expander
from vramgate.launch.shell.fields import Fields
from vramgate.launch.shell.outcome import Outcome, outcome_of
from vramgate.launch.shell.syntax import Assignment, Literal, Quoted, Written
from vramgate.launch.shell.texts import output_of
from vramgate.launch.shell.values import (
    EMPTY,
    Array,
    Lack,
    Pieces,
    Value,
    is_known,
    known_text,
    text_of,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_NAMED_VALUE = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)(\+?)=(.*)", re.DOTALL)
_READ_TAKES_WORD = frozenset("adinNptu")
_OPTION = re.compile(r"[-+][A-Za-z]+")

DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})


class Builtins:
    """Carries out the builtins that change what words expand to."""

    def __init__(self, expander: Expander, assigner: Assigner) -> None:
        self._expander = expander
        self._variables = expander.variables
        self._assigner = assigner
        self.locals: list[dict[str, Value]] = []
        """What ``local`` hides, function by function."""
        self.by_name: Mapping[str, Callable[[Sequence[Pieces], str | None], Outcome]] = {
            "unset": self._unset,
            "set": self._set,
            "shift": self._shift,
            "read": self._read,
            "mapfile": self._read_array,
            "readarray": self._read_array,
            "getopts": self._getopts,
            "let": self._let,
            ":": lambda _words, _given: Outcome.SUCCEEDED,
            "true": lambda _words, _given: Outcome.SUCCEEDED,
            "false": lambda _words, _given: Outcome.FAILED,
        }

    # ------------------------------------------------------------ declarations

    def declare(self, words: Sequence[Written | Assignment], source: str) -> Outcome:
        """Carry out ``export``, ``declare``, ``local`` or ``readonly``."""
        command = text_of(self._expander.text(words[0])) if isinstance(words[0], Written) else ""
        options = ""
        for word in words[1:]:
            if isinstance(word, Assignment):
                self._declare(command, options, word, source)
                continue
            for field in self._expander.fields(word):
                text = text_of(field)
                if _OPTION.fullmatch(text):
                    options += text
                else:
                    self._declare_text(command, options, field, source)
        return Outcome.SUCCEEDED

    def _declare_text(self, command: str, options: str, field: Pieces, source: str) -> None:
        text = text_of(field)
        match = _NAMED_VALUE.fullmatch(text)
        if match is not None and is_known(field):
            value = Written(match[3], (Quoted(match[3]),))
            one = Assignment(match[1], None, bool(match[2]), value)
            self._declare(command, options, one, source)
        elif _NAME.fullmatch(text):
            self._declare_name(command, options, text, source)

    def _declare_name(self, command: str, options: str, name: str, source: str) -> None:
        if "f" in options:
            return
        if command == "local":
            self._hide(name)
            self._variables.set(name, Lack.EMPTY)
        if "A" in options and self._variables.get(name) in {Lack.UNSET, Lack.EMPTY}:
            self._variables.set(name, Array({}, is_associative=True))
        elif "a" in options and self._variables.get(name) is Lack.UNSET:
            self._variables.set(name, Array({}))
        self._mark(command, options, name, source)

    def _declare(self, command: str, options: str, one: Assignment, source: str) -> None:
        if command == "local":
            self._hide(one.name)
        self._assigner.assign(one, associative="A" in options)
        if "n" in options and command != "export":
            self._variables.set(one.name, Lack.UNSETTLED)
        if "i" in options:
            text = known_text(self._expander.parameter(one.name, f"${one.name}"))
            value = None if text is None else self._expander.arithmetic(text)
            self._variables.set(one.name, Lack.UNSETTLED if value is None else (str(value),))
        self._mark(command, options, one.name, source)

    def _mark(self, command: str, options: str, name: str, source: str) -> None:
        if command == "export" and "n" in options:
            self._variables.unexport(name)
        elif command == "export" or "x" in options:
            self._variables.export(name, f"{source}env {name}")

    def _hide(self, name: str) -> None:
        if self.locals:
            self.locals[-1].setdefault(name, self._variables.get(name))

    # ------------------------------------------------------------ variables and arguments

    def _unset(self, words: Sequence[Pieces], _given: str | None) -> Outcome:
        for word in words[1:]:
            text = text_of(word)
            if _NAME.fullmatch(text):
                self._variables.set(text, Lack.EMPTY)
            elif not text.startswith("-"):
                name = _NAME.match(text)
                if name is not None:
                    self._variables.set(name.group(), Lack.UNSETTLED)
        return Outcome.SUCCEEDED

    def _set(self, words: Sequence[Pieces], _given: str | None) -> Outcome:
        rest = list(words[1:])
        while rest:
            text = text_of(rest[0])
            if text == "--":
                self._variables.arguments = tuple(rest[1:])
                return Outcome.SUCCEEDED
            if not text.startswith(("-", "+")):
                self._variables.arguments = tuple(rest)
                return Outcome.SUCCEEDED
            takes_word = text[1:].endswith("o")
            rest = rest[2:] if takes_word else rest[1:]
        return Outcome.SUCCEEDED

    def _shift(self, words: Sequence[Pieces], _given: str | None) -> Outcome:
        held = self._variables.arguments
        count = text_of(words[1]) if len(words) > 1 else "1"
        if held is None or not (count.isascii() and count.isdigit()):
            self._variables.arguments = None
            return Outcome.PRESUMED
        if int(count) > len(held):
            return Outcome.FAILED
        self._variables.arguments = held[int(count) :]
        return Outcome.SUCCEEDED

    def _getopts(self, words: Sequence[Pieces], _given: str | None) -> Outcome:
        # Without arguments there are no options to get.
        if not self._variables.arguments:
            return Outcome.FAILED
        for word in (*words[2:3], ("OPTARG",), ("OPTIND",)):
            self._variables.set(text_of(word), Lack.UNSETTLED)
        return Outcome.UNDECIDED

    def _let(self, words: Sequence[Pieces], _given: str | None) -> Outcome:
        outcome = Outcome.SUCCEEDED
        for word in words[1:]:
            outcome = self.reckon(text_of(word))
        return outcome

    def reckon(self, expression: str) -> Outcome:
        """Carry out ``((…))``."""
        value = self._expander.arithmetic(expression)
        if value is None:
            self.unsettle_assigned(expression)
        return outcome_of(None if value is None else bool(value))

    def unsettle_assigned(self, expression: str) -> None:
        """Forget the variables that an expression assigns to."""
        for name in assigned_in(expression):
            self._variables.set(name, Lack.UNSETTLED)

    # ------------------------------------------------------------ input

    def _read(self, words: Sequence[Pieces], given: str | None) -> Outcome:
        array, names, delimited = "", list[str](), False
        rest = [text_of(word) for word in words[1:]]
        while rest:
            word = rest.pop(0)
            if not word.startswith("-") or word == "-":
                names.append(word)
                continue
            taken = rest.pop(0) if word[-1] in _READ_TAKES_WORD and rest else ""
            array = taken if word.endswith("a") else array
            delimited = delimited or word[-1] in "dnN"
        line = None if given is None or delimited else given.partition("\n")[0]
        if line is None or "\\" in line or not all(map(_NAME.fullmatch, names)):
            for name in [array, *names]:
                if _NAME.match(name):
                    self._variables.set(name, Lack.UNSETTLED)
            return Outcome.UNDECIDED
        self._put_line(line, array, names or ["REPLY"])
        return Outcome.SUCCEEDED

    def _put_line(self, line: str, array: str, names: Sequence[str]) -> None:
        fields = Fields(self._expander.separators())
        fields.add_split((line,))
        words = fields.done()
        if array:
            self._variables.set(array, Array(dict(enumerate(words))))
            return
        *first, last = names
        for index, name in enumerate(first):
            self._variables.set(name, words[index] if index < len(words) else EMPTY)
        behind = words[len(first) :]
        if len(behind) > 1:
            self._variables.set(last, Lack.UNSETTLED)
        else:
            self._variables.set(last, behind[0] if behind else EMPTY)

    def _read_array(self, words: Sequence[Pieces], _given: str | None) -> Outcome:
        name = text_of(words[-1])
        if _NAME.fullmatch(name):
            self._variables.set(name, Lack.UNSETTLED)
        return Outcome.PRESUMED

    def print_to_variable(self, words: Sequence[Pieces]) -> None:
        """Carry out ``printf -v NAME …``."""
        name = text_of(words[2])
        known = [known_text(word) for word in words[3:]]
        output = None
        if None not in known:
            output = output_of(["printf", *(text for text in known if text is not None)], None)
        if _NAME.fullmatch(name):
            self._variables.set(name, Lack.UNSETTLED if output is None else (output,))


_ASSIGNED = re.compile(
    r"([A-Za-z_][A-Za-z_0-9]*)\s*(?:=(?!=)|\+\+|--|(?:[-+*/%&|^]|<<|>>)=)"
    r"|(?:\+\+|--)\s*([A-Za-z_][A-Za-z_0-9]*)"
)


def assigned_in(expression: str) -> Sequence[str]:
    """Return the variables that an arithmetic expression assigns to.

    >>> assigned_in("i = 0, n += 2, j++")
    ['i', 'n', 'j']
    """
    return [match[1] or match[2] for match in _ASSIGNED.finditer(expression)]


def literal(word: Written | Assignment) -> str:
    """Return a word that is plain text; empty otherwise."""
    if isinstance(word, Written) and len(word.parts) == 1 and isinstance(word.parts[0], Literal):
        return word.parts[0].text
    return ""
