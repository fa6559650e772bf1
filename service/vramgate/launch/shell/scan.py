"""Where words end: quotes, expansions and substitutions, matched as bash matches them.

Source: ``parse_matched_pair`` and ``read_token_word`` in parse.y of bash 5.2.
"""

import re
from collections.abc import Callable
from typing import NoReturn

from vramgate.launch.shell.ansi import decoded
from vramgate.launch.shell.syntax import (
    Arithmetic,
    Braced,
    DoubleQuoted,
    Literal,
    Parameter,
    Part,
    Parts,
    Process,
    Quoted,
    Substitution,
    Written,
)

MAX_DEPTH = 40
"""Quotes, substitutions and compound commands inside each other; more is refused."""

_PLAIN = re.compile(r"[^ \t\n'\"\\$`|&;<>()]+")
_PLAIN_PATTERN = re.compile(r"[^ \t\n'\"\\$`|&;<>()?*+@!]+")
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_IN_HERE = re.compile(r"[^\\$`]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|[0-9@*#?$!-]")
_SIMPLE_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z_0-9]*|[0-9]+|[@*#?$!-])\}")
_ENDS_WORD = frozenset(" \t\n|&;<>()")
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_STOPS = {
    "(": re.compile(r"[()\\'\"`$]"),
    "{": re.compile(r"[}\\'\"`$]"),
    "[": re.compile(r"[\[\]\\'\"`$]"),
}
_DOUBLE_STOPS = re.compile(r"[\"\\$`]")
_BACKQUOTE_STOPS = re.compile(r"[`\\]")
_EXTENDED = frozenset("?*+@!")

Fail = Callable[[int, str], NoReturn]


class Scanner:
    """Reads words from a text; ``pos`` is where it stands."""

    def __init__(self, text: str, fail: Fail, skip_script: Callable[[int], int]) -> None:
        self.text = text
        self.pos = 0
        self.depth = 0
        self.extended_globs = False
        self._fail = fail
        self._skip_script = skip_script
        """Takes the place behind ``$(`` and returns the one behind its ``)``."""

    def deeper(self) -> None:
        """Count one more level.

        Raises:
            UnreadableLaunchError: there are too many.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._fail(self.pos, "it is nested too deeply")

    # ------------------------------------------------------------ words

    def word(self, stops: frozenset[str] = _ENDS_WORD) -> Written:
        """Read the word that starts here."""
        text, start = self.text, self.pos
        parts: list[Part] = []
        plain = _PLAIN_PATTERN if self.extended_globs else _PLAIN
        while self.pos < len(text):
            match = plain.match(text, self.pos)
            if match is not None:
                parts.append(Literal(match.group()))
                self.pos = match.end()
                continue
            part = self._part(text[self.pos], stops)
            if part is None:
                break
            if part is not _NOTHING:
                parts.append(part)
        return Written(text[start : self.pos], tuple(parts))

    def _part(self, char: str, stops: frozenset[str]) -> Part | None:
        text, start = self.text, self.pos
        if char == "'":
            self.pos = self._skip_single(start)
            return Quoted(text[start + 1 : self.pos - 1])
        if char == '"':
            return self._double_quoted(start + 1)
        if char == "\\":
            self.pos = min(start + 2, len(text))
            if text.startswith("\n", start + 1):
                return _NOTHING
            return Quoted(text[start + 1 : self.pos] or "\\")
        if char in "$`":
            return self._dollar(quoted=False)
        if char in "<>" and text.startswith("(", start + 1):
            self.pos = self._skip_script(start + 2)
            return Process(text[start : self.pos])
        if char in _EXTENDED:
            self.pos = start + 1
            if text.startswith("(", self.pos):
                self.pos = self.skip_pair(start + 2, "(")
            return Literal(text[start : self.pos])
        if char in stops:
            return None
        self.pos = start + 1
        return Literal(char)

    def _double_quoted(self, start: int) -> DoubleQuoted:
        self.pos = start
        self.deeper()
        parts = self._parts_until(_IN_DOUBLE, '"', '$`\\"', start - 1)
        self.depth -= 1
        self.pos += 1
        return DoubleQuoted(parts)

    def here_parts(self) -> Parts:
        """Read the whole text as the lines of a here-document."""
        return self._parts_until(_IN_HERE, "", "$`\\")

    def operand_parts(self) -> Parts:
        """Read the whole text as an operand inside double quotes; its own ``"`` only group."""
        parts: list[Part] = []
        while self.pos < len(self.text):
            parts.extend(self._parts_until(_IN_DOUBLE, '"', '$`\\"}'))
            self.pos += 1
        return tuple(parts)

    def _parts_until(
        self, plain: re.Pattern[str], close: str, escapable: str, opened: int | None = None
    ) -> Parts:
        """Read up to ``close``; where ``opened`` says where it began, it must come."""
        text, parts = self.text, list[Part]()
        while self.pos < len(text):
            match = plain.match(text, self.pos)
            if match is not None:
                parts.append(Quoted(match.group()))
                self.pos = match.end()
                continue
            char = text[self.pos]
            if char == close:
                return tuple(parts)
            if char == "\\":
                self._escape(parts, escapable)
            else:
                parts.append(self._dollar(quoted=True))
        if opened is not None:
            self._fail(opened, f"the {close} is never closed")
        return tuple(parts)

    def _escape(self, parts: list[Part], escapable: str) -> None:
        following = self.text[self.pos + 1 : self.pos + 2]
        self.pos = min(self.pos + 2, len(self.text))
        if following and following in escapable:
            parts.append(Quoted(following))
        elif following != "\n":
            parts.append(Quoted(f"\\{following}"))

    # ------------------------------------------------------------ expansions

    def _dollar(self, *, quoted: bool) -> Part:
        text, start = self.text, self.pos
        if text[start] == "`":
            self.pos = self._skip_backquote(start + 1)
            return Substitution(text[start : self.pos], _unescaped(text[start + 1 : self.pos - 1]))
        match = _NAME.match(text, start + 1) or _SIMPLE_BRACED.match(text, start + 1)
        if match is not None:
            self.pos = match.end()
            return Parameter(text[start : self.pos], match[match.lastindex or 0])
        following = text[start + 1 : start + 2]
        if following == "{":
            self.pos = self.skip_pair(start + 2, "{")
            written = text[start : self.pos]
            return Braced(written, written[2:-1])
        if following == "[":
            self.pos = self.skip_pair(start + 2, "[")
            return Arithmetic(text[start : self.pos], text[start + 2 : self.pos - 1])
        if following == "(":
            return self._parenthesis(start)
        if not quoted and following == "'":
            return self._ansi(start)
        if not quoted and following == '"':
            return self._double_quoted(start + 2)
        self.pos = start + 1
        return Quoted("$") if quoted else Literal("$")

    def _parenthesis(self, start: int) -> Part:
        text = self.text
        if not text.startswith("(", start + 2):
            self.pos = self._skip_script(start + 2)
            written = text[start : self.pos]
            return Substitution(written, written[2:-1])
        self.pos = self.skip_pair(start + 2, "(")
        written = text[start : self.pos]
        if written.endswith("))") and _is_balanced(written[3:-2]):
            return Arithmetic(written, written[3:-2])
        return Substitution(written, written[2:-1])

    def _ansi(self, start: int) -> Quoted:
        self.pos = self._skip_ansi(start + 1)
        return Quoted(decoded(self.text[start + 2 : self.pos - 1]))

    # ------------------------------------------------------------ pairs

    def skip_pair(self, pos: int, opening: str) -> int:
        """Return the place behind the bracket that closes the one before ``pos``."""
        text, stops, closing = self.text, _STOPS[opening], _CLOSING[opening]
        start, open_count, dollar = pos, 1, -1
        self.deeper()
        while open_count:
            match = stops.search(text, pos)
            if match is None:
                self._fail(start - 1, f"the {opening} is never closed")
            char, here = match.group(), match.start()
            pos = here + 1
            if char == closing:
                open_count -= 1
            elif char == "$":
                pos = self._skip_dollar(here)
                dollar = here if pos == here + 1 else -1
            elif char == opening:
                open_count += 1
            elif char == "'" and dollar == here - 1:
                pos = self._skip_ansi(here)
            else:
                pos = self._skip_quote(here)
        self.depth -= 1
        return pos

    def _skip_quote(self, here: int) -> int:
        char = self.text[here]
        if char == "\\":
            return here + 2
        if char == "'":
            return self._skip_single(here)
        if char == "`":
            return self._skip_backquote(here + 1)
        return self._skip_double(here)

    def _skip_dollar(self, here: int) -> int:
        following = self.text[here + 1 : here + 2]
        if following == "(":
            if self.text.startswith("(", here + 2):
                return self.skip_pair(here + 2, "(")
            return self._skip_script(here + 2)
        if following and following in "{[":
            return self.skip_pair(here + 2, following)
        return here + 2 if following == "$" else here + 1

    def _skip_double(self, here: int) -> int:
        pos = here + 1
        self.deeper()
        while True:
            match = _DOUBLE_STOPS.search(self.text, pos)
            if match is None:
                self._fail(here, 'the " is never closed')
            char, pos = match.group(), match.end()
            if char == '"':
                self.depth -= 1
                return pos
            skip = self._skip_dollar if char == "$" else self._skip_quote
            pos = skip(pos - 1)

    def _skip_single(self, here: int) -> int:
        end = self.text.find("'", here + 1)
        if end < 0:
            self._fail(here, "the ' is never closed")
        return end + 1

    def _skip_ansi(self, here: int) -> int:
        match = _ANSI_REST.match(self.text, here + 1)
        if match is None:
            self._fail(here, "the ' is never closed")
        return match.end()

    def _skip_backquote(self, pos: int) -> int:
        start = pos
        while True:
            match = _BACKQUOTE_STOPS.search(self.text, pos)
            if match is None:
                self._fail(start - 1, "the ` is never closed")
            pos = match.end()
            if match.group() == "`":
                return pos
            pos += 1


_ANSI_REST = re.compile(r"[^'\\]*(?:\\.[^'\\]*)*'", re.DOTALL)
_BACKQUOTE_ESCAPE = re.compile(r"\\([$`\\])")
_NOTHING = Quoted("")


def _unescaped(inner: str) -> str:
    return _BACKQUOTE_ESCAPE.sub(r"\1", inner)


def _is_balanced(expression: str) -> bool:
    """Tell ``((1) + (2))`` from ``((a); (b))``: parentheses close only what they opened."""
    open_count = 0
    for match in _PARENTHESES.finditer(expression):
        open_count += 1 if match.group() == "(" else -1
        if open_count < 0:
            return False
    return open_count == 0


_PARENTHESES = re.compile(r"[()]")
