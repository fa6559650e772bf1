"""``[[ … ]]`` as it is written."""

import re
from typing import NoReturn

from vramgate.launch.shell.scan import Fail, Scanner
from vramgate.launch.shell.simple_syntax import SimpleParser
from vramgate.launch.shell.syntax import Both, Condition, Joint, Literal, Not, Part, Test, Written

_UNARY = frozenset(f"-{letter}" for letter in "abcdefghknoprstuvwxzGLNORS")
_BINARY = frozenset(
    {"=", "==", "!=", "=~", "-nt", "-ot", "-ef", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
)
_JOINTS = {"&&": Joint.AND, "||": Joint.OR}
_OPERATOR = re.compile(r"&&|\|\||[()<>]")


class ConditionParser:
    """Reads conditions; the words follow the grammar of ``cond_term`` in bash's parse.y."""

    def __init__(self, scanner: Scanner, simple: SimpleParser, fail: Fail) -> None:
        self._scanner = scanner
        self._simple = simple
        self._fail = fail

    def read(self) -> Condition:
        """Read what stands behind ``[[``, up to and with ``]]``."""
        condition = self._or()
        self._newlines()
        if not self._at_end():
            self._unexpected()
        self._scanner.pos += len("]]")
        return condition

    def _or(self) -> Condition:
        left = self._and()
        if self._operator() == "||":
            self._scanner.pos += 2
            return Both(Joint.OR, left, self._or())
        return left

    def _and(self) -> Condition:
        left = self._term()
        if self._operator() == "&&":
            self._scanner.pos += 2
            return Both(Joint.AND, left, self._and())
        return left

    def _term(self) -> Condition:
        self._scanner.deeper()
        condition = self._primary()
        self._scanner.depth -= 1
        return condition

    def _primary(self) -> Condition:
        self._newlines()
        operator = self._operator()
        if operator == "(":
            self._scanner.pos += 1
            condition = self._or()
            self._newlines()
            if self._operator() != ")":
                self._unexpected()
            self._scanner.pos += 1
            self._newlines()
            return condition
        if operator or self._at_end():
            self._unexpected()
        first = self._word()
        if first.text == "!":
            return Not(self._term())
        return self._unary(first) if first.text in _UNARY else self._binary(first)

    def _unary(self, first: Written) -> Condition:
        self._simple.blanks()
        if self._at_end() or self._operator() or self._char() == "\n":
            self._unexpected()
        condition = Test(first.text, (self._word(),))
        self._newlines()
        return condition

    def _binary(self, left: Written) -> Condition:
        self._simple.blanks()
        operator = self._operator()
        if operator in {"<", ">"}:
            self._scanner.pos += 1
        elif operator or self._at_end():
            return Test("-n", (left,))
        else:
            operator = self._word().text
            if operator not in _BINARY:
                self._unexpected()
        self._simple.blanks()
        if self._at_end() or self._char() in {"\n", ""}:
            self._unexpected()
        right = self._right(operator)
        self._newlines()
        return Test(operator, (left, right))

    def _right(self, operator: str) -> Written:
        if operator == "=~":
            return self._regex()
        if self._operator():
            self._unexpected()
        outer = self._scanner.extended_globs
        self._scanner.extended_globs = outer or operator in {"=", "==", "!="}
        word = self._scanner.word()
        self._scanner.extended_globs = outer
        return word

    def _regex(self) -> Written:
        """Read a regular expression: parentheses and bars belong to it."""
        start = self._scanner.pos
        text, parts = self._scanner.text, list[Part]()
        while self._scanner.pos < len(text):
            here = self._scanner.pos
            char = text[here]
            if char in "(|":
                end = here + 1 if char == "|" else self._scanner.skip_pair(here + 1, "(")
                self._scanner.pos = end
                parts.append(Literal(text[here:end]))
                continue
            word = self._scanner.word()
            if not word.text:
                break
            parts.extend(word.parts)
        if self._scanner.pos == start:
            self._unexpected()
        return Written(text[start : self._scanner.pos], tuple(parts))

    # ------------------------------------------------------------ tokens

    def _word(self) -> Written:
        word = self._scanner.word()
        if not word.text:
            self._unexpected()
        return word

    def _char(self) -> str:
        return self._scanner.text[self._scanner.pos : self._scanner.pos + 1]

    def _operator(self) -> str:
        match = _OPERATOR.match(self._scanner.text, self._scanner.pos)
        return match.group() if match is not None else ""

    def _at_end(self) -> bool:
        text, pos = self._scanner.text, self._scanner.pos
        behind = text[pos + 2 : pos + 3]
        return text.startswith("]]", pos) and (not behind or behind in " \t\n;&|<>()")

    def _newlines(self) -> None:
        self._simple.blanks()
        while self._char() == "\n":
            self._simple.newline()
            self._simple.blanks()

    def _unexpected(self) -> NoReturn:
        self._fail(self._scanner.pos, "the condition in [[ ]] is not complete")
