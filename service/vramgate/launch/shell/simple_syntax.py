"""Simple commands as they are written: assignments, words, redirections, here-documents."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, NoReturn

from vramgate.launch.shell.scan import Fail, Scanner
from vramgate.launch.shell.syntax import (
    Assignment,
    DoubleQuoted,
    Element,
    HereDocument,
    Literal,
    Quoted,
    Redirect,
    Redirection,
    Simple,
    Written,
)

_BLANKS = re.compile(r"(?:[ \t]+|\\\n)*(?:#[^\n]*)?")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:,@%^+=-]+(?=[ \t\n;]|\Z)")
_PLAIN_WORDS = re.compile(r"(?:[A-Za-z0-9_./:,@%^+=-]++[ \t]++(?:\\\n[ \t]*+)*+)++")
"""Words of plain characters, each with a blank behind it: most of a command line."""
_ASSIGNS = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)(?:(\+?)=|\[)")
_ASSIGNED = re.compile(r"(\+?)=")
_REDIRECTS = re.compile(
    r"(?:([0-9]+|\{[A-Za-z_][A-Za-z_0-9]*\})(?=[<>]))?"
    r"(&>>|&>|<<<|<<-|<<|<>|<&|>>|>&|>\||<|>)"
)
_PROCESS = re.compile(r"[<>]\(")
_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})
_TAKES_ASSIGNMENTS = _DECLARES | {"eval", "let", "alias"}
_ENDS = frozenset("\n;&|)(")
_REDIRECTING = frozenset("<>&{0123456789")
_PLAIN_SUBSCRIPT = re.compile(r"[^\]\s'\"`|&;<>()]*\]")
_CONTINUED = re.compile(r"\\\n")
_TOKEN = re.compile(r"[^ \t\n;&|<>()]+|.", re.DOTALL)
_SHOWN = 40
_KEPT_LENGTH = 64


def _plain(word: str) -> Written:
    """Return a word of plain characters."""
    if len(word) <= _KEPT_LENGTH:
        return _kept(word)
    return Written(word, (Literal(word),), (word,))


@lru_cache(maxsize=4096)
def _kept(word: str) -> Written:
    # Names of options are the same everywhere.
    return Written(word, (Literal(word),), (word,))


class Awaited(NamedTuple):
    """A here-document whose lines were not reached yet."""

    place: int
    document: HereDocument
    delimiter: str
    strips_tabs: bool


class SimpleParser:
    """Reads simple commands, and the here-documents that wait for the end of the line."""

    def __init__(self, scanner: Scanner, fail: Fail) -> None:
        self._scanner = scanner
        self._text = scanner.text
        self._fail = fail
        self._line_at = (0, 1)
        self.pending: list[Awaited] = []

    # ------------------------------------------------------------ between tokens

    def blanks(self) -> None:
        """Pass blanks, joined lines and a comment."""
        match = _BLANKS.match(self._text, self._scanner.pos)
        if match is not None:
            self._scanner.pos = match.end()

    def newline(self) -> None:
        """Pass the end of a line, and the here-documents below it."""
        self._scanner.pos += 1
        for awaited in self.pending:
            self._read_document(awaited)
        self.pending = []

    def _read_document(self, awaited: Awaited) -> None:
        text, lines = self._text, list[str]()
        while self._scanner.pos < len(text):
            line, raw = self._document_line(awaited)
            if line == awaited.delimiter:
                break
            lines.append(raw)
        awaited.document.body = "".join(lines)

    def _document_line(self, awaited: Awaited) -> tuple[str, str]:
        """Return the next line, bare and as it belongs to the document."""
        text, start = self._text, self._scanner.pos
        end = text.find("\n", start)
        while awaited.document.expands and end > 0 and _odd_backslashes(text, start, end):
            end = text.find("\n", end + 1)
        end = len(text) if end < 0 else end
        self._scanner.pos = min(end + 1, len(text))
        raw = text[start : self._scanner.pos]
        if awaited.strips_tabs:
            raw = raw.lstrip("\t")
        line = raw.removesuffix("\n")
        return (_CONTINUED.sub("", line) if awaited.document.expands else line), raw

    def line(self, pos: int) -> int:
        """Return the number of the line at a place; places are asked for in order, mostly."""
        known, number = self._line_at
        if pos < known:
            known, number = 0, 1
        number += self._text.count("\n", known, pos)
        self._line_at = (pos, number)
        return number

    # ------------------------------------------------------------ commands

    def read(self) -> Simple | None:
        """Read a simple command; None where none starts here."""
        scanner, text = self._scanner, self._text
        start = scanner.pos
        assignments: list[Assignment] = []
        words: list[Written | Assignment] = []
        redirections: list[Redirection] = []
        name = ""
        while True:
            if name and name not in _TAKES_ASSIGNMENTS:
                self._plain_words(words)
            char = text[scanner.pos : scanner.pos + 1]
            if not (char in _REDIRECTING and self._redirect(redirections)):
                if not char or char in _ENDS:
                    break
                self._add(assignments, words, name)
                name = name or "".join(word.text for word in words if isinstance(word, Written))
            self.blanks()
        if not assignments and not words and not redirections:
            return None
        return Simple(tuple(assignments), tuple(words), tuple(redirections), self.line(start))

    def _plain_words(self, words: list[Written | Assignment]) -> None:
        """Read the words of plain characters that come next, all at once."""
        scanner, text = self._scanner, self._text
        run = _PLAIN_WORDS.match(text, scanner.pos)
        if run is not None:
            scanner.pos = run.end()
            words.extend(map(_plain, run.group().replace("\\\n", " ").split()))
        last = _PLAIN_WORD.match(text, scanner.pos)
        if last is not None:
            scanner.pos = last.end()
            words.append(_plain(last.group()))
            self.blanks()

    def _add(
        self, assignments: list[Assignment], words: list[Written | Assignment], name: str
    ) -> None:
        """Read the next assignment or word; ``name`` is the command's, once there is one."""
        assignment = None
        if not words or name in _TAKES_ASSIGNMENTS:
            assignment = self._assignment(words)
        if assignment is None:
            words.append(self._scanner.word())
        elif not words:
            assignments.append(assignment)
        else:
            words.append(assignment if name in _DECLARES else _as_word(assignment))

    def redirections(self) -> tuple[Redirection, ...]:
        """Read the redirections behind a compound command."""
        found: list[Redirection] = []
        self.blanks()
        while self._redirect(found):
            self.blanks()
        return tuple(found)

    def _redirect(self, found: list[Redirection]) -> bool:
        scanner, text = self._scanner, self._text
        match = _REDIRECTS.match(text, scanner.pos)
        if match is None or (match[1] is None and _PROCESS.match(text, scanner.pos)):
            return False
        descriptor, operator = match[1] or "", match[2]
        if operator in "<>" and text.startswith("(", match.end()):
            return False
        scanner.pos = match.end()
        self.blanks()
        place = scanner.pos
        target = scanner.word()
        if not target.text:
            self._unexpected(place)
        if operator in {"<<", "<<-"}:
            document = HereDocument(descriptor=descriptor, expands=_is_bare(target))
            delimiter = _unquoted(target)
            self.pending.append(Awaited(place, document, delimiter, operator == "<<-"))
            found.append(document)
        else:
            found.append(Redirect(descriptor, operator, target))
        return True

    # ------------------------------------------------------------ assignments

    def _assignment(self, words: Sequence[object]) -> Assignment | None:
        scanner, text = self._scanner, self._text
        match = _ASSIGNS.match(text, scanner.pos)
        if match is None:
            return None
        key: str | None = None
        appends, end = bool(match[2]), match.end()
        if text[end - 1] == "[":
            close = self._subscript_end(end, words)
            behind = _ASSIGNED.match(text, close)
            if behind is None:
                return None
            key = text[end : close - 1]
            appends, end = bool(behind[1]), behind.end()
        scanner.pos = end
        if text.startswith("(", end):
            return Assignment(match[1], key, appends, self._elements())
        return Assignment(match[1], key, appends, scanner.word())

    def _subscript_end(self, start: int, words: Sequence[object]) -> int:
        """Return the place behind ``]``; in an argument, only what is one word counts."""
        if not words:
            return self._scanner.skip_pair(start, "[")
        match = _PLAIN_SUBSCRIPT.match(self._text, start)
        return match.end() if match is not None else start

    def _elements(self) -> tuple[Element, ...]:
        scanner, text = self._scanner, self._text
        start = scanner.pos
        scanner.pos += 1
        found: list[Element] = []
        while True:
            self.blanks()
            char = text[scanner.pos : scanner.pos + 1]
            if char == "\n":
                self.newline()
            elif char == ")":
                scanner.pos += 1
                return tuple(found)
            elif not char:
                self._fail(start, "the ( is never closed")
            else:
                found.append(self._element())

    def _element(self) -> Element:
        scanner, text = self._scanner, self._text
        if text[scanner.pos] == "[":
            start = scanner.pos + 1
            close = scanner.skip_pair(start, "[")
            if text.startswith("=", close):
                key = text[start : close - 1]
                scanner.pos = close + 1
                return Element(key, scanner.word())
        place = scanner.pos
        word = scanner.word()
        if not word.text:
            self._unexpected(place)
        return Element(None, word)

    def _unexpected(self, place: int) -> NoReturn:
        token = _TOKEN.match(self._text, place)
        if token is None:
            self._fail(place, "the text ends too early")
        shown = token.group()[:_SHOWN]
        self._fail(place, f"{'the end of the line' if shown == chr(10) else shown} is unexpected")


def _odd_backslashes(text: str, start: int, end: int) -> bool:
    count = 0
    while end - 1 - count >= start and text[end - 1 - count] == "\\":
        count += 1
    return count % 2 == 1


def _is_bare(target: Written) -> bool:
    return not any(isinstance(part, Quoted | DoubleQuoted) for part in target.parts)


def _unquoted(target: Written) -> str:
    """Return a here-document's end: quotes are taken off, nothing is expanded."""
    texts: list[str] = []
    for part in target.parts:
        if isinstance(part, DoubleQuoted):
            texts.extend(p.text if isinstance(p, Quoted) else p.written for p in part.parts)  # type: ignore[union-attr]
        elif isinstance(part, Literal | Quoted):
            texts.append(part.text)
        else:
            texts.append(part.written)
    return "".join(texts)


def _as_word(assignment: Assignment) -> Written:
    """Return an assignment that is only a word: behind ``eval`` and ``let``."""
    if not isinstance(assignment.value, Written):
        inner = " ".join(element.value.text for element in assignment.value)
        whole = f"{assignment.name}=({inner})"
        return Written(whole, (Quoted(whole),))
    sign = "+=" if assignment.appends else "="
    subscript = f"[{assignment.key}]" if assignment.key is not None else ""
    head = f"{assignment.name}{subscript}{sign}"
    return Written(f"{head}{assignment.value.text}", (Literal(head), *assignment.value.parts))
