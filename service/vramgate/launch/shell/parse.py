"""The grammar of bash 5.2 (its parse.y), without aliases: what ``bash -n`` refuses is refused here.

What bash finds out only when it runs (a bad substitution, a division by zero) is no fault here.
"""

import re
from functools import lru_cache

from vramgate.launch.shell.compound_syntax import CompoundParser
from vramgate.launch.shell.syntax import (
    ArithmeticCommand,
    Background,
    Function,
    Group,
    Item,
    Joint,
    Node,
    Parts,
    Pipeline,
    Sequel,
    Written,
)

_OPENING = frozenset({"if", "for", "while", "until", "case", "select", "{", "[["})
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_JOINT = re.compile(r"&(?:\\\n)*&|\|(?:\\\n)*\|")
_PIPE = re.compile(r"\|(?:\\\n)*&?")
_TIME_OPTION = re.compile(r"(?:-p|--)(?=[ \t\n;&|<>()]|\Z)")


def parse_script(text: str, name: str) -> Sequel:
    """Return the commands of a script.

    Raises:
        UnreadableLaunchError: bash would refuse it; with line and column.
    """
    return Parser(text, name).script()


@lru_cache(maxsize=1024)
def parse_word(text: str) -> Parts:
    """Return the parts of a text that is one word, blanks and all.

    Raises:
        UnreadableLaunchError: a quote or an expansion is not closed.
    """
    return Parser(text, "word").whole_word()


@lru_cache(maxsize=256)
def parse_quoted(text: str) -> Parts:
    """Return the parts of a text in which quotes mean nothing: lines of a here-document.

    Raises:
        UnreadableLaunchError: an expansion is not closed.
    """
    return Parser(text, "text").quoted()


@lru_cache(maxsize=256)
def parse_operand(text: str) -> Parts:
    """Return the parts of an operand of ``"${X:-…}"``: quoted, and further quotes are taken off.

    Raises:
        UnreadableLaunchError: an expansion is not closed.
    """
    return Parser(text, "text").operand()


class Parser(CompoundParser):
    """One text, read from its start."""

    def script(self) -> Sequel:
        """Read all of it."""
        body = self.command_list()
        if self.scanner.pos < len(self.text):
            self.unexpected()
        return body

    def whole_word(self) -> Parts:
        """Read all of it as one word."""
        return self.scanner.word(frozenset()).parts

    def quoted(self) -> Parts:
        """Read all of it as the inside of double quotes."""
        return self.scanner.here_parts()

    def operand(self) -> Parts:
        """Read all of it as the operand of a quoted ``${…}``."""
        return self.scanner.operand_parts()

    def skip_script(self, pos: int) -> int:
        """Read the script of a substitution and return the place behind its ``)``."""
        scanner, outer = self.scanner, self.simple.pending
        back, scanner.pos, self.simple.pending = scanner.pos, pos, []
        extended, scanner.extended_globs = scanner.extended_globs, "extglob" in self.text
        scanner.deeper()
        self.command_list()
        scanner.depth -= 1
        if not self.text.startswith(")", scanner.pos):
            if scanner.pos >= len(self.text):
                self.fail(pos - 1, "the ( is never closed")
            self.unexpected()
        # What is still awaited stands below the line on which the substitution ends.
        known = {awaited.place for awaited in outer}
        outer += [one for one in self.simple.pending if one.place not in known]
        end, scanner.pos, self.simple.pending = scanner.pos + 1, back, outer
        scanner.extended_globs = extended
        return end

    # ------------------------------------------------------------ lists

    def command_list(self) -> Sequel:
        """Read commands up to what cannot start one; maybe none."""
        items: list[Item] = []
        self.newlines()
        while not self._ends():
            node = self._and_or()
            self.simple.blanks()
            char = self.char()
            if char == "&" and not self.text.startswith(">", self.scanner.pos + 1):
                items.append(Item(Joint.THEN, Background(node)))
            else:
                items.append(Item(Joint.THEN, node))
            if self.is_case_end() or char not in ";&\n":
                break
            if char and char in ";&":
                self.scanner.pos += 1
            self.newlines()
        return Sequel(tuple(items))

    def _ends(self) -> bool:
        char = self.char()
        if not char or char == ")" or self.is_case_end():
            return True
        return self.keyword() in _CLOSERS

    def _and_or(self) -> Node:
        first = self._pipeline()
        items: list[Item] = [Item(Joint.THEN, first)]
        while True:
            self.simple.blanks()
            match = _JOINT.match(self.text, self.scanner.pos)
            if match is None:
                return first if len(items) == 1 else Sequel(tuple(items))
            self.scanner.pos = match.end()
            self.newlines()
            joint = Joint.AND if match.group()[0] == "&" else Joint.OR
            items.append(Item(joint, self._pipeline()))

    def _pipeline(self) -> Node:
        negated, prefixed = False, False
        while (keyword := self.keyword()) in {"!", "time"}:
            self.take_keyword()
            prefixed, negated = True, negated ^ (keyword == "!")
            if keyword == "time":
                self._time_options()
            self.simple.blanks()
        char = self.char()
        if prefixed and (not char or char in ";\n") and not self.is_case_end():
            return Pipeline((), negated=negated)
        commands = [self._command()]
        self.simple.blanks()
        while (match := self._pipe()) is not None:
            self.scanner.pos = match.end()
            self.newlines()
            if self.keyword() == "time":
                self.take_keyword()
                self._time_options()
                self.simple.blanks()
            commands.append(self._command())
            self.simple.blanks()
        if len(commands) == 1 and not negated:
            return commands[0]
        return Pipeline(tuple(commands), negated=negated)

    def _pipe(self) -> re.Match[str] | None:
        if self.char() != "|" or _JOINT.match(self.text, self.scanner.pos):
            return None
        return _PIPE.match(self.text, self.scanner.pos)

    def _time_options(self) -> None:
        for _ in range(2):
            self.simple.blanks()
            match = _TIME_OPTION.match(self.text, self.scanner.pos)
            if match is not None:
                self.scanner.pos = match.end()

    # ------------------------------------------------------------ commands

    def _command(self) -> Node:
        keyword = self.keyword()
        if keyword is None:
            if self.char() == "(":
                return self._redirected(self._parentheses())
            return self._simple_or_function()
        if keyword == "function":
            return self._function()
        if keyword == "coproc":
            return self._coprocess()
        if keyword not in _OPENING:
            self.unexpected()
        return self._redirected(self.compound(keyword))

    def _parentheses(self) -> Node:
        start = self.scanner.pos
        self.scanner.deeper()
        node: Node
        if self.text.startswith("(", start + 1):
            end = self.scanner.skip_pair(start + 2, "(")
            if self.text.startswith(")", end):
                self.scanner.depth -= 1
                self.scanner.pos = end + 1
                return ArithmeticCommand(self.text[start + 2 : end - 1])
        self.scanner.pos = start + 1
        node = Background(self.some_commands())
        self._close_parenthesis(start)
        self.scanner.depth -= 1
        return node

    def _close_parenthesis(self, start: int) -> None:
        if not self.text.startswith(")", self.scanner.pos):
            if self.scanner.pos >= len(self.text):
                self.fail(start, "the ( is never closed")
            self.unexpected()
        self.scanner.pos += 1

    def _redirected(self, body: Node) -> Node:
        redirections = self.simple.redirections()
        return Group(body, redirections) if redirections else body

    def _simple_or_function(self) -> Node:
        simple = self.simple.read()
        if simple is None:
            self.unexpected()
        if self.char() != "(":
            return simple
        is_name = len(simple.words) == 1 and not simple.assignments and not simple.redirections
        name = simple.words[0] if is_name else None
        if not isinstance(name, Written) or not self._parameters():
            self.unexpected()
        return self._function_body(name)

    def _parameters(self) -> bool:
        """Read the ``()`` of a function's definition."""
        self.scanner.pos += 1
        self.simple.blanks()
        if self.char() != ")":
            return False
        self.scanner.pos += 1
        return True

    def _function(self) -> Node:
        self.take_keyword()
        self.simple.blanks()
        name = self.word()
        self.simple.blanks()
        if self.char() == "(" and not self._parameters():
            self.unexpected()
        return self._function_body(name)

    def _function_body(self, name: Written) -> Node:
        self.newlines()
        keyword = self.keyword()
        if keyword in _OPENING:
            body = self._redirected(self.compound(keyword))
        elif keyword is None and self.char() == "(":
            body = self._redirected(self._parentheses())
        else:
            self.unexpected()
        return Function(name.text, body)

    def _coprocess(self) -> Node:
        self.take_keyword()
        self.simple.blanks()
        keyword = self.keyword()
        if keyword is not None or self.char() == "(":
            return Background(self._command())
        start = self.scanner.pos
        self.scanner.word()
        self.simple.blanks()
        if self.keyword() not in _OPENING and self.char() != "(":
            self.scanner.pos = start
        return Background(self._command())
