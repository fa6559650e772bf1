"""Megatron's little languages: which layers hold experts, and how a pipeline is cut.

Sources: Megatron-LM ``training/arguments.py`` (``moe_freq_type``) and
``core/transformer/pipeline_parallel_layer_layout.py`` (d98e8a64). Patterns are unrolled here, not
evaluated, and bounded.
"""

import re
from collections.abc import Iterator

MAX_LAYERS = 10_000
_NUMBER = re.compile(r"\d{1,6}")
_TOKENS = re.compile(r"\s*(\[|\]|\(|\)|\*|\+|,|\d{1,6})")


class NoPatternError(ValueError):
    """A text is not a pattern, or is one of more layers than any model has."""


def layer_pattern(text: str, layers: int) -> tuple[bool, ...]:
    """Return which of the layers a frequency or a pattern chooses.

    A number n means every n-th layer, from the first.

    Raises:
        NoPatternError: it is neither, or of another length.

    >>> layer_pattern("([0]*1+[1]*2)", 3)
    (False, True, True)
    >>> layer_pattern("2", 4)
    (True, False, True, False)
    """
    if "[" not in text:
        every = int(text) if _NUMBER.fullmatch(text.strip()) else 0
        if every == 0 or layers > MAX_LAYERS:
            raise NoPatternError(text)
        return tuple(layer % every == 0 for layer in range(layers))
    listed = _Unrolled(text).value()
    if len(listed) != layers:
        raise NoPatternError(text)
    return tuple(map(bool, listed))


class _Unrolled:
    """A recursive descent over sums of products of lists."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0

    def value(self) -> list[int]:
        whole = self._sum()
        if self.at != len(self.tokens):
            raise NoPatternError
        return whole

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, wanted: str = "") -> str:
        token = self._peek()
        if not token or (wanted and token != wanted):
            raise NoPatternError
        self.at += 1
        return token

    def _sum(self) -> list[int]:
        whole = list(self._product())
        while self._peek() == "+":
            self._take()
            whole += self._product()
            _bound(len(whole))
        return whole

    def _product(self) -> list[int]:
        times = 1
        if self._peek().isdigit():
            times = int(self._take())
            self._take("*")
        part = self._list()
        while self._peek() == "*":
            self._take()
            factor = self._take()
            if not factor.isdigit():
                raise NoPatternError
            times *= int(factor)
        _bound(times * max(1, len(part)))
        return part * times

    def _list(self) -> list[int]:
        if self._peek() == "(":
            self.depth += 1
            _bound(self.depth * 100)
            self._take()
            inner = self._sum()
            self._take(")")
            self.depth -= 1
            return inner
        self._take("[")
        items: list[int] = []
        while self._peek() != "]":
            item = self._take()
            if not item.isdigit():
                raise NoPatternError
            items.append(int(item))
            if self._peek() == ",":
                self._take()
        self._take("]")
        return items


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.strip()
    _bound(len(text) // 10)
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise NoPatternError(text)
        tokens.append(match[1])
        at = match.end()
    return tokens


def _bound(number: int) -> None:
    if number > MAX_LAYERS:
        raise NoPatternError


_REPEATED_GROUP = re.compile(r"\(([^()]{1,200})\)\*(\d{1,4})")
_REPEATED_LETTER = re.compile(r"(.)\*(\d{1,4})")


def layout_stages(layout: str) -> tuple[int, ...]:
    """Return the layers of each stage that a pipeline layout names, embedding and loss not counted.

    Raises:
        NoPatternError: it is not a layout.

    >>> layout_stages("Et|(tt|)*2,t|L")
    (1, 2, 2, 1, 0)
    """
    text = layout.replace(",", "").strip()
    for pattern in (_REPEATED_GROUP, _REPEATED_LETTER):
        parts = list(_unrolled(text, pattern))
        _bound(sum(map(len, parts)) // 10)
        text = "".join(parts)
    _bound(text.count("|"))
    if set(text) - set("ELtm|"):
        raise NoPatternError(layout)
    return tuple(stage.count("t") for stage in text.split("|"))


def _unrolled(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    at = 0
    for match in pattern.finditer(text):
        yield text[at : match.start()]
        _bound(len(match[1]) * int(match[2]) // 10)
        yield match[1] * int(match[2])
        at = match.end()
    yield text[at:]
