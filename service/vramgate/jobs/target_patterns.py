"""Regular expressions for ``target_modules``, run in a bounded time.

peft runs any expression it is given; here it comes from strangers, so only expressions that cannot
take long are run.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

MAX_REPEATS = 4
"""Unbounded repeats in one branch of an expression; each multiplies the time by a name's length."""
BUDGET_SECONDS = 0.05

# Where transformers' models keep layer {}: their names decide what an expression matches.
_LAYER_PREFIXES = (
    "model.layers.{}.",
    "model.language_model.layers.{}.",
    "transformer.h.{}.",
    "transformer.blocks.{}.",
    "gpt_neox.layers.{}.",
    "model.decoder.layers.{}.",
    "model.encoder.layers.{}.",
    "encoder.block.{}.",
    "decoder.block.{}.",
    "bert.encoder.layer.{}.",
    "",
)


class UnsafePatternError(ValueError):
    """An expression that is not one, or that could take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternMatch:
    """What an expression adapts."""

    modules: tuple[str, ...]
    """Paths inside a block, and names outside the blocks."""
    layers: int
    """In how many of the layers it matches anything."""


def checked_pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression that runs in a bounded time on short names.

    Refused: repeated groups, look-around, back-references, more than four unbounded repeats.

    Raises:
        UnsafePatternError: it is no expression, or one of those.
    """
    reason = _danger(text)
    if reason:
        raise UnsafePatternError(reason)
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UnsafePatternError(f"it is no regular expression: {error}") from None


def _danger(text: str) -> str:
    """Return why an expression could take long; empty where it cannot."""
    before = ""
    for piece in _pieces(text):
        if piece.startswith("(?") and piece != "(?:":
            return "look-around, flags and named groups are not run here"
        if piece.startswith("\\") and piece[1:].isdigit():
            return "back-references are not run here"
        if before == ")" and _repeats(piece):
            return "a repeated group could take very long; write the names out"
        before = piece
    if "[" in text and any(operator in text for operator in _SET_OPERATORS):
        return "sets within sets are not run here"
    if _most_repeats(text) > MAX_REPEATS:
        return f"more than {MAX_REPEATS} repeats could take very long"
    return ""


_SET_OPERATORS = ("[[", "--", "&&", "~~", "||")
"""What ``re`` warns may change its meaning one day."""


def _most_repeats(text: str) -> int:
    """Return the most repeats that can stand one after another on a way through an expression."""
    # Each open group: the most of its finished branches, and the count of the branch being read.
    groups = [[0, 0]]
    for piece in _pieces(text):
        if piece.startswith("("):
            groups.append([0, 0])
        elif piece == "|" or (piece == ")" and len(groups) > 1):
            most, count = groups[-1]
            groups[-1] = [max(most, count), 0]
            if piece == ")":
                inner = groups.pop()[0]
                groups[-1][1] += inner
        elif _repeats(piece):
            groups[-1][1] += 1
    return sum(max(group) for group in groups)


def _repeats(piece: str) -> bool:
    return piece in {"*", "+"} or (piece.startswith("{") and piece != "{")


_PIECE = re.compile(r"\\\d+|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|\(\?.?|\{\d*,?\d*\}|.", re.DOTALL)


def _pieces(text: str) -> Iterator[str]:
    return (match[0] for match in _PIECE.finditer(text))


@lru_cache(maxsize=1024)
def matched_modules(
    text: str, blocks: tuple[str, ...], outside: tuple[str, ...], layers: int
) -> PatternMatch:
    """Return what a regular expression adapts of a model with these paths and this many layers.

    Raises:
        UnsafePatternError: it is no expression, or it takes too long.
    """
    pattern = checked_pattern(text)
    deadline = time.monotonic() + BUDGET_SECONDS
    found: dict[str, None] = {}
    prefixes: set[str] = set()
    for prefix in _LAYER_PREFIXES:
        for layer in (0, 1, layers - 1):
            for path in blocks:
                if pattern.fullmatch(f"{prefix.format(layer)}{path}"):
                    found[path] = None
                    prefixes.add(prefix)
                if time.monotonic() > deadline:
                    raise UnsafePatternError("it takes too long; write the names out as a list")
    found |= dict.fromkeys(name for name in outside if pattern.fullmatch(name))
    hit = sum(
        any(
            pattern.fullmatch(f"{prefix.format(layer)}{path}")
            for prefix in prefixes
            for path in found
        )
        for layer in range(layers if time.monotonic() < deadline else 0)
    )
    return PatternMatch(modules=tuple(found), layers=hit)
