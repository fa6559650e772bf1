"""The accelerators whose facts are known, and which of them a name in the wild means."""

import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from vramgate.catalog.accelerator_answers import (
    AcceleratorMatch,
    KnownName,
    ResolvedAccelerator,
    no_model,
    no_profile,
    settled,
    slice_note,
    undecided,
    unknown,
)
from vramgate.catalog.accelerator_facts import Accelerator, accelerator_from_row
from vramgate.catalog.accelerator_families import AcceleratorFamilies, sizes
from vramgate.catalog.accelerator_names import (
    NAME_LIMIT,
    Spelling,
    Wrapped,
    name_key,
    spelling,
    unwrap,
)
from vramgate.catalog.clashes import NameClash
from vramgate.catalog.instances import InstanceNames
from vramgate.catalog.mig import MigSupplement
from vramgate.catalog.name_index import NameIndex
from vramgate.errors import UnknownNameError

__all__ = ["Accelerator", "AcceleratorCatalog", "ResolvedAccelerator", "builtin_accelerators"]

_LIKE_SLICES = 20
"""Slices of one profile count as one size if they differ by at most one part in this many."""


class AcceleratorCatalog:
    """Known accelerators by every name they go by; ``merged_with`` returns another catalog."""

    def __init__(
        self,
        entries: Sequence[Accelerator],
        *,
        mig: MigSupplement | None = None,
        instances: InstanceNames | None = None,
        sized_names: Iterable[str] = (),
        site: Sequence[Accelerator] = (),
    ) -> None:
        """Index built-in cards, their MIG slices and, over them, a site's own.

        ``sized_names`` mean one memory size without stating it: GKE's nvidia-tesla-a100 is the 40
        GB card.
        """
        own = {card.name for card in site}
        self._built_in, self._site = tuple(entries), tuple(site)
        self._mig, self._instances = mig or MigSupplement(), instances or InstanceNames()
        self._sized_names = frozenset(name_key(name) for name in sized_names)
        self.entries = (*(card for card in entries if card.name not in own), *site)
        self.mig_slices = tuple(s for card in self.entries for s in self._mig.slices_of(card))
        self._families = AcceleratorFamilies(self.entries)
        self._by_id = {card.name: card for card in (*self.mig_slices, *self.entries)}
        self._exact: dict[str, KnownName] = {}
        for card in (*self.mig_slices, *self.entries):
            for written in (card.display_name, *card.aliases, card.name):
                self._exact[name_key(written)] = KnownName(card, self._rivals(card, written))

    def resolve(self, name: str, memory_bytes: int | None = None) -> ResolvedAccelerator:
        """Return the accelerator that a name in the wild means.

        ``memory_bytes`` is the card's whole memory as some meter read it (the label
        ``nvidia.com/gpu.memory`` in bytes, torch's total): it decides between cards that differ in
        memory only. Kept spellings cost one dictionary look-up.

        Raises:
            UnknownNameError: no accelerator, or several of different memory sizes, can be meant;
                ``data["suggestions"]`` has up to five ids.
        """
        known = self._exact.get(name_key(name)) if len(name) <= NAME_LIMIT else None
        if known is None:
            return self._read(name, memory_bytes)
        is_id = name.casefold() == known.card.name
        how = AcceleratorMatch.ID if is_id else AcceleratorMatch.ALIAS
        return settled(name, how, known, memory_bytes)

    def get(self, accelerator_id: str) -> Accelerator | None:
        """Return the card or slice of exactly this id, None if there is none."""
        return self._by_id.get(accelerator_id)

    def search(self, text: str, limit: int = 10) -> tuple[Accelerator, ...]:
        """Return the cards whose names fit what was typed so far, best first."""
        return tuple(self._by_id[i] for i in self._index.matching(text, limit=limit))

    def merged_with(self, entries: Sequence[Accelerator]) -> "AcceleratorCatalog":
        """Return a catalog in which a site's cards win over those of the same names."""
        return AcceleratorCatalog(
            self._built_in,
            mig=self._mig,
            instances=self._instances,
            sized_names=self._sized_names,
            site=_latest((*self._site, *entries)),
        )

    def prepare(self) -> None:
        """Make now what is otherwise made at the first search."""
        _ = self._index

    def clashes_with(self, entries: Iterable[Accelerator]) -> tuple[NameClash, ...]:
        """Return which names of a site's cards mean something in this catalog already."""
        return tuple(
            NameClash(name=name, ours=known.card.name, theirs=card.name)
            for card in entries
            for name in (card.name, *card.aliases)
            if (known := self._exact.get(name_key(name))) is not None
            and (name == card.name or known.card.name != card.name)
        )

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex(
            (name, card.name)
            for card in self.entries
            for name in (card.name, card.display_name, *card.aliases)
        )

    def _rivals(self, card: Accelerator, written: str) -> tuple[Accelerator, ...]:
        if card.mig_of is not None or name_key(written) in self._sized_names:
            return ()
        return self._families.rivals(card, spelling(written))

    def _read(self, asked: str, memory_bytes: int | None) -> ResolvedAccelerator:
        """Resolve a name that is not kept: unwrap it, then read its words."""
        wrapped = unwrap(asked)
        words = spelling(wrapped.text)
        known = self._exact.get(name_key(wrapped.text))
        if wrapped.mig_profile is not None:
            return self._read_slice(asked, wrapped, words, memory_bytes)
        if known is not None:
            how = AcceleratorMatch.READ
            return settled(asked, how, known, memory_bytes, shared=wrapped.shared)
        machine = self.get(self._instances.accelerator_of(name_key(wrapped.text)) or "")
        if machine is not None:
            return settled(asked, AcceleratorMatch.INSTANCE, KnownName(machine), memory_bytes)
        candidates = self._families.candidates(words)
        if not candidates:
            raise self._unknown(asked, words, wrapped.text)
        sized = memory_bytes is not None and len(sizes(candidates)) > 1
        how = AcceleratorMatch.MEMORY if sized else AcceleratorMatch.READ
        found = self._chosen(asked, words, candidates, memory_bytes)
        return settled(asked, how, found, memory_bytes, shared=wrapped.shared)

    def _chosen(
        self,
        asked: str,
        words: Spelling,
        candidates: Sequence[Accelerator],
        memory_bytes: int | None,
    ) -> KnownName:
        """Return the candidate that an alias or the memory picks, or the usual one of their size.

        Raises:
            UnknownNameError: they differ in memory and nothing says which is meant.
        """
        usual = self._exact.get(words.model)
        if usual is not None and words.form_factor is None and words.memory_gb is None:
            return usual
        fitting = [c for c in candidates if memory_bytes is not None and c.may_hold(memory_bytes)]
        left = fitting or candidates
        if len(sizes(left)) > 1:
            raise undecided(asked, left)
        return KnownName(left[0])

    def _read_slice(
        self, asked: str, wrapped: Wrapped, words: Spelling, memory_bytes: int | None
    ) -> ResolvedAccelerator:
        """Return the slice of a profile on the card that the rest of the name means.

        Raises:
            UnknownNameError: no such card or profile, or slices of different sizes can be meant.
        """
        profile = wrapped.mig_profile or ""
        cards = self._cards_to_slice(wrapped, words)
        if not cards:
            raise self._unknown(asked, words, wrapped.text)
        slices = [mig for card in cards if (mig := self._slice(card, profile)) is not None]
        if not slices:
            raise no_profile(asked, profile, cards)
        if memory_bytes is not None:
            slices = [mig for mig in slices if mig.may_hold(memory_bytes)] or slices
        usable = [mig.usable_bytes for mig in slices]
        alike = (max(usable) - min(usable)) * _LIKE_SLICES <= max(usable)
        if len(slices) > 1 and not (alike and words.model):
            raise undecided(asked, slices)
        best = slices[usable.index(min(usable))]
        return ResolvedAccelerator(
            entry=best,
            asked=asked,
            how=AcceleratorMatch.READ,
            note=slice_note(asked, best, slices),
            shared=wrapped.shared,
        )

    def _cards_to_slice(self, wrapped: Wrapped, words: Spelling) -> Sequence[Accelerator]:
        known = self._exact.get(name_key(wrapped.text))
        if known is not None:
            return (known.card, *known.rivals)
        return self._families.candidates(words) if words.model else self.entries

    def _slice(self, card: Accelerator, name: str) -> Accelerator | None:
        profile = self._mig.profile_of(card, name)
        return None if profile is None else self._by_id.get(f"{card.name}-mig-{profile.name}")

    def _unknown(self, asked: str, words: Spelling, text: str) -> UnknownNameError:
        return unknown(asked, self._index.nearest(text)) if words.model else no_model(asked)


def _latest(cards: Iterable[Accelerator]) -> list[Accelerator]:
    """Return the last card of each id, in the order in which these last ones were stated."""
    latest: dict[str, Accelerator] = {}
    for card in cards:
        latest.pop(card.name, None)
        latest[card.name] = card
    return list(latest.values())


def _packaged(name: str) -> Any:  # noqa: ANN401 JSON
    return json.loads(importlib.resources.files("vramgate.catalog").joinpath(name).read_bytes())


@cache
def builtin_accelerators() -> AcceleratorCatalog:
    """Return the catalog shipped with the package; read from disk at the first call."""
    more = _packaged("accelerator_supplement.json")
    names: dict[str, list[str]] = {}
    for row in more["aliases"]:
        names.setdefault(row["accelerator"], []).extend(row["names"])
    counts = {
        name: {"multiprocessors": count, "multiprocessors_source": row["source"]}
        for row in more["multiprocessors"]
        for name, count in row["counts"].items()
    }
    return AcceleratorCatalog(
        [
            accelerator_from_row(_supplemented(row, names, counts))
            for row in _packaged("accelerators.json")
        ],
        mig=MigSupplement(
            multiprocessors={
                card: row["multiprocessors"]
                for row in more["mig_multiprocessors"]
                for card in row["accelerators"]
            },
            profile_names={row["accelerator"]: row["names"] for row in more["mig_profile_names"]},
        ),
        instances=InstanceNames(
            (pattern, row["accelerator"])
            for row in more["instances"]
            for pattern in row["patterns"]
        ),
        sized_names=[name for row in more["aliases"] for name in row["names"]],
    )


def _supplemented(
    row: Mapping[str, Any],
    names: Mapping[str, Sequence[str]],
    counts: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    name = row["name"]
    return {**row, **counts.get(name, {}), "aliases": [*row["aliases"], *names.get(name, ())]}
