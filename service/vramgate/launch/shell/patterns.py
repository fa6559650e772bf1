"""Patterns of ``case``, ``[[ == ]]`` and ``${X%…}`` against known texts."""

import re
from functools import lru_cache

LONGEST = 4096
"""Characters of a text that is matched; longer ones stay unresolved."""
_MOST_STARS = 3
_CLASSES = {
    "alnum": "A-Za-z0-9",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_BRACKET = re.compile(r"\[([!^]?)(\]?(?:\[:[a-z]+:\]|[^\]])*)\]")
_NAMED = re.compile(r"\[:([a-z]+):\]")
_EXTENDED = re.compile(r"[?*+@!]\(")
_SPECIAL_IN_SET = re.compile(r"[\\\[\]&~|^]")


class Pattern:
    """One pattern: what is quoted in it was escaped with backslashes."""

    def __init__(self, glob: str) -> None:
        self.glob = glob
        self._compiled = _compiled(glob)
        self._stars = len(re.findall(r"(?<!\\)\*", glob))

    def fits(self, text: str) -> bool | None:
        """Return whether it matches the whole text; None where that cannot be told."""
        if self._compiled is None or not self._is_cheap(text):
            return None
        return self._compiled.fullmatch(text) is not None

    def without_start(self, text: str, *, longest: bool) -> str | None:
        """Return the text without the part at its start that fits."""
        if self._compiled is None or not self._is_cheap(text):
            return None
        ends = range(len(text), -1, -1) if longest else range(len(text) + 1)
        for end in ends:
            if self._compiled.fullmatch(text, 0, end):
                return text[end:]
        return text

    def without_end(self, text: str, *, longest: bool) -> str | None:
        """Return the text without the part at its end that fits."""
        if self._compiled is None or not self._is_cheap(text):
            return None
        starts = range(len(text) + 1) if longest else range(len(text), -1, -1)
        for start in starts:
            if self._compiled.fullmatch(text, start):
                return text[:start]
        return text

    def replaced(self, text: str, replacement: str, *, mode: str) -> str | None:
        r"""Return the text with what fits replaced; ``\0`` in the replacement stands for it.

        Mode is what stands behind ``${X``: ``/``, ``//``, ``/#`` or ``/%``.
        """
        if self._compiled is None or not self._is_cheap(text):
            return None
        source = self._compiled.pattern
        if mode in {"/#", "/%"}:
            source = rf"\A(?:{source})" if mode == "/#" else rf"(?:{source})\Z"
        elif not self.glob:
            return text

        def put(match: re.Match[str]) -> str:
            if mode == "//" and text and not match.group():
                return ""
            return replacement.replace("\0", match.group())

        return re.sub(source, put, text, count=0 if mode == "//" else 1, flags=re.DOTALL)

    def _is_cheap(self, text: str) -> bool:
        limit = LONGEST if self._stars <= 1 else LONGEST >> (2 * self._stars)
        return self._stars <= _MOST_STARS and len(text) <= limit


@lru_cache(maxsize=512)
def _compiled(glob: str) -> re.Pattern[str] | None:
    if _EXTENDED.search(glob):
        return None
    pieces: list[str] = []
    pos = 0
    while pos < len(glob):
        char = glob[pos]
        bracket = _BRACKET.match(glob, pos) if char == "[" else None
        if char == "\\" and pos + 1 < len(glob):
            pieces.append(re.escape(glob[pos + 1]))
            pos += 2
            continue
        if bracket is not None:
            pieces.append(_set(bracket))
            pos = bracket.end()
            continue
        pieces.append({"*": ".*", "?": "."}.get(char) or re.escape(char))
        pos += 1
    try:
        return re.compile("".join(pieces), re.DOTALL)
    except re.error:
        return None


def _set(bracket: re.Match[str]) -> str:
    inner = bracket[2]
    parts = []
    for index, piece in enumerate(_NAMED.split(inner)):
        parts.append(
            _CLASSES.get(piece, "") if index % 2 else _SPECIAL_IN_SET.sub(r"\\\g<0>", piece)
        )
    return f"[{'^' if bracket[1] else ''}{''.join(parts)}]"


def escaped(text: str) -> str:
    r"""Return a pattern that means exactly the text.

    >>> print(escaped("a*b"))
    a\*b
    """
    return re.sub(r"[\\*?\[\]()|!@+^-]", r"\\\g<0>", text)
