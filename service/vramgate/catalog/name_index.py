"""Which known names are near a text: search as one types, suggestions for an unknown name."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

_WEAKEST_LIKENESS = 0.25
"""Share of common trigrams below which a name is no suggestion; guess, from typing errors."""


class NameIndex:
    """Names and what they stand for; built once, never changed."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        """Take pairs of a name (an id or an alias) and the id it stands for."""
        self._names = [(name.casefold(), target) for name, target in names]

    def matching(self, text: str, *, limit: int) -> tuple[str, ...]:
        """Return the ids whose names fit what was typed so far, best first.

        A name that starts with the text comes before one with a word that starts so, and that
        before one that merely contains it. No text: the first ids.

        >>> index = NameIndex([("google/gemma-2b", "google/gemma-2b"), ("gpt2", "openai/gpt2")])
        >>> index.matching("gem", limit=5)
        ('google/gemma-2b',)
        """
        wanted = text.strip().casefold()
        best: dict[str, int] = {}
        for name, target in self._names:
            rank = _typing_rank(wanted, name)
            if rank is not None and rank < best.get(target, len(_BOUNDARIES) + 2):
                best[target] = rank
        return tuple(sorted(best, key=lambda target: best[target])[: max(limit, 0)])

    def nearest(self, text: str, *, limit: int = 5) -> tuple[str, ...]:
        """Return the ids whose names look most like the text, best first; none if none is near."""
        wanted = _trigrams(text.casefold())
        shared: Counter[int] = Counter()
        for trigram in wanted:
            shared.update(self._postings.get(trigram, ()))
        scored = (
            (2 * count / (len(wanted) + self._sizes[position]), position)
            for position, count in shared.items()
        )
        near = sorted((s for s in scored if s[0] >= _WEAKEST_LIKENESS), key=lambda s: (-s[0], s[1]))
        ids = dict.fromkeys(self._names[position][1] for _, position in near)
        return tuple(ids)[:limit]

    @cached_property
    def _postings(self) -> dict[str, list[int]]:
        postings: dict[str, list[int]] = {}
        for position, (name, _) in enumerate(self._names):
            for trigram in _trigrams(name):
                postings.setdefault(trigram, []).append(position)
        return postings

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(_trigrams(name)) for name, _ in self._names]


_BOUNDARIES = "/-_. "


def _typing_rank(wanted: str, name: str) -> int | None:
    position = name.find(wanted)
    if position <= 0:
        return position if position == 0 else None
    while position != -1:
        if name[position - 1] in _BOUNDARIES:
            return 1 if name[position - 1] == "/" else 2
        position = name.find(wanted, position + 1)
    return 3


def _trigrams(name: str) -> frozenset[str]:
    """Return the three-letter pieces of the part after the organisation, its ends marked."""
    text = f"  {name.rsplit('/', 1)[-1]} "
    return frozenset(text[i : i + 3] for i in range(len(text) - 2))
