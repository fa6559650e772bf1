"""Tokens of the grammar: keywords where they count, line ends, and what is refused."""

import re
from typing import NoReturn

from vramgate.launch.documents import unreadable
from vramgate.launch.shell.scan import Scanner
from vramgate.launch.shell.simple_syntax import SimpleParser
from vramgate.launch.shell.syntax import Written

_KEYWORD = re.compile(r"(?:[a-z{}!]|\[\[|\]\]|\\\n)+(?=[ \t\n;&|<>()]|\Z)")
_KEYWORD_LIST = (
    "if then elif else fi for while until do done case esac in select function time coproc { } !"
    " [[ ]]"
)
_KEYWORDS = frozenset(_KEYWORD_LIST.split())
_CASE_END = re.compile(r";(?:\\\n)*;(?:\\\n)*&|;(?:\\\n)*;|;(?:\\\n)*&")
_CONTINUED = re.compile(r"\\\n")
_TOKEN = re.compile(r"[^ \t\n;&|<>()]+|\n|.")
_SHOWN = 40


class Tokens:
    """Reads tokens from one text."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self._name = name
        self.scanner = Scanner(text, self.fail, self.skip_script)
        self.scanner.extended_globs = "extglob" in text
        self.simple = SimpleParser(self.scanner, self.fail)

    def skip_script(self, pos: int) -> int:
        """Return the place behind the ``)`` that ends the script of a substitution."""
        raise NotImplementedError

    def fail(self, pos: int, what: str) -> NoReturn:
        """Refuse the text.

        Raises:
            UnreadableLaunchError: always.
        """
        line = self.text.count("\n", 0, pos) + 1
        column = pos - self.text.rfind("\n", 0, pos)
        raise unreadable(self._name, what, line=line, column=column)

    def char(self) -> str:
        """Return the character that is next; empty at the end."""
        pos = self.scanner.pos
        return self.text[pos : pos + 1]

    def newlines(self) -> None:
        """Pass blanks, comments and line ends."""
        self.simple.blanks()
        while self.char() == "\n":
            self.simple.newline()
            self.simple.blanks()

    def is_case_end(self) -> bool:
        """Return whether ``;;``, ``;&`` or ``;;&`` is next."""
        return self.char() == ";" and bool(_CASE_END.match(self.text, self.scanner.pos))

    def keyword(self) -> str | None:
        """Return the keyword that is next, where a command may start."""
        match = _KEYWORD.match(self.text, self.scanner.pos)
        if match is None:
            return None
        word = _CONTINUED.sub("", match.group())
        return word if word in _KEYWORDS else None

    def keyword_is(self, word: str) -> bool:
        """Return whether this word is next."""
        match = _KEYWORD.match(self.text, self.scanner.pos)
        return match is not None and match.group() == word

    def take_keyword(self) -> None:
        """Pass the keyword that is next."""
        match = _KEYWORD.match(self.text, self.scanner.pos)
        self.scanner.pos = match.end() if match is not None else self.scanner.pos

    def case_end(self) -> str:
        """Pass ``;;``, ``;&`` or ``;;&`` and return it; empty where none is next."""
        match = _CASE_END.match(self.text, self.scanner.pos)
        if match is None:
            return ""
        self.scanner.pos = match.end()
        return _CONTINUED.sub("", match.group())

    def expect(self, keyword: str) -> None:
        """Pass a keyword that must be next."""
        if self.keyword() != keyword:
            self.unexpected(keyword)
        self.take_keyword()

    def word(self) -> Written:
        """Read a word that must be next."""
        word = self.scanner.word()
        if not word.text:
            self.unexpected()
        return word

    def unexpected(self, wanted: str = "") -> NoReturn:
        """Refuse what is next."""
        pos = self.scanner.pos
        behind = f", {wanted} should stand here" if wanted else ""
        if pos >= len(self.text):
            self.fail(pos, f"the text ends too early{behind}")
        token = _TOKEN.match(self.text, pos)
        shown = token.group() if token is not None else ""
        shown = "the end of the line" if shown == "\n" else shown[:_SHOWN]
        self.fail(pos, f"{shown} is unexpected{behind}")
