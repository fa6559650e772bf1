"""The models whose configuration is known, and which of them a name in the wild means."""

import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from typing import Any

from vramgate.catalog.clashes import NameClash
from vramgate.catalog.model_lookup import Candidate, NameRecords, Undecided
from vramgate.catalog.model_names import (
    NAME_LIMIT,
    Location,
    ModelName,
    locate,
    read_model_name,
)
from vramgate.catalog.name_index import NameIndex
from vramgate.catalog.weight_formats import states_weight_format
from vramgate.errors import UnknownNameError, shortened

BUILT_IN = "built-in"
_WAY_OUT = "Or give model.config (the model's config.json), or model.parameters for a rough answer."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One model: its Hugging Face configuration and exact parameters, and how each is known.

    ``config`` is shared: read it, never change it.
    """

    name: str
    aliases: tuple[str, ...] = ()
    config: Mapping[str, Any] | None = None
    """Keys of ``config.json``; None where a site stated only a parameter count."""
    parameters: int | None = None
    """None where a site gave a config only: it is counted from that."""
    parameters_source: str = ""
    config_confidence: str = "high"  # high | medium | low
    verified: str | None = None
    active_parameters: int | None = None
    parameters_transformers5: int | None = None
    """What transformers 5 builds, where that differs from the checkpoint (T5's separate head)."""
    published_parameters: int | None = None
    published_source: str | None = None
    published_match: bool | None = None
    published_difference: str | None = None
    litgpt_dims_match: bool | None = None
    recalled_figure_disagreed: int | None = None
    config_fitted_to_total: str | None = None
    note: str | None = None
    origin: str = BUILT_IN
    """Where the entry comes from: "built-in", the site's file, or "tenant" for one of a tenant's own."""

    def __hash__(self) -> int:
        """Hash by name: names are unique in a catalog, and architectures are cached by entry."""
        return hash(self.name)


class NameMatch(StrEnum):
    """How a name led to its entry."""

    ID = "id"
    ALIAS = "alias"
    COPY = "copy"
    """Another organisation's repository of the same name."""
    VARIANT = "variant"
    """The same model after another training or spelling: tuned, base, converted, another date."""
    QUANTIZED = "quantized"
    """A copy with weights in another format."""
    PATH = "path"
    """A local folder or file, by the name it ends with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """The entry that a name means, and what had to be read into the name."""

    entry: ModelEntry
    asked: str
    how: NameMatch
    note: str = ""
    """One sentence for the answer's assumptions; empty where the name is the entry's own."""
    quantization: str | None = None
    """What the name says of the weights, as ``method.quantization`` takes it (gptq-int4, nf4)."""
    weight_format: str | None = None
    """The same in words, also for formats that no training method takes (GGUF Q4_K_M, FP8)."""


class ModelCatalog:
    """Known models by every name they go by; ``merged_with`` returns another catalog."""

    def __init__(self, entries: Sequence[ModelEntry], *, site: Sequence[ModelEntry] = ()) -> None:
        """Index built-in entries and, over them, a site's own; later entries win over earlier ones."""
        self._built_in, self._site = tuple(entries), tuple(site)
        self._exact: dict[str, ModelEntry] = {}
        latest: dict[str, ModelEntry] = {}
        spelt: dict[str, list[str]] = {}
        for entry in (*entries, *site):
            key = entry.name.casefold()
            before = latest.pop(key, None)
            latest[key] = entry
            spellings = spelt.setdefault(key, [])
            # What still means the entry it replaces, means this one from now on.
            inherited = [one for one in spellings if self._exact[one] is before]
            spellings.extend(_spellings(entry))
            self._exact.update(dict.fromkeys((*inherited, *_spellings(entry)), entry))
        self.entries = tuple(latest.values())

    def resolve(self, name: str) -> ResolvedModel:
        """Return the entry that a name in the wild means.

        Exact names and aliases, whatever their case, cost one dictionary look-up. Other names are
        read: other organisations' copies, quantised and tuned variants, local paths. Sizes and
        versions must agree.

        Raises:
            UnknownNameError: no entry, or more than one, can be meant; ``data["suggestions"]`` has
                up to five ids.
        """
        entry = self._exact.get(name.casefold())
        if entry is None:
            return self._read(name)
        if name.casefold() == entry.name.casefold():
            return ResolvedModel(entry=entry, asked=name, how=NameMatch.ID)
        return self._by_alias(name, entry)

    def search(self, text: str, limit: int = 10) -> tuple[ModelEntry, ...]:
        """Return the entries whose names fit what was typed so far, best first."""
        return tuple(self._exact[i] for i in self._index.matching(text, limit=limit))

    def merged_with(self, entries: Sequence[ModelEntry]) -> "ModelCatalog":
        """Return a catalog in which a site's entries win over those of the same names.

        An entry with the own name of another replaces it and inherits its aliases.
        """
        return ModelCatalog(self._built_in, site=(*self._site, *entries))

    def prepare(self) -> None:
        """Make now what is otherwise made for the first name that has to be read: some 20 ms."""
        _ = self._records, self._index

    def clashes_with(self, entries: Iterable[ModelEntry]) -> tuple[NameClash, ...]:
        """Return which names of a site's entries mean something in this catalog already."""
        return tuple(
            NameClash(name=name, ours=known.name, theirs=entry.name)
            for entry in entries
            for name in (entry.name, *entry.aliases)
            if (known := self._exact.get(name.casefold())) is not None
        )

    @cached_property
    def _index(self) -> NameIndex:
        return NameIndex(
            (name, entry.name.casefold())
            for entry in self.entries
            for name in (entry.name, *entry.aliases)
        )

    @cached_property
    def _records(self) -> NameRecords[ModelEntry]:
        records: NameRecords[ModelEntry] = NameRecords()
        for entry in self.entries:
            for name in (entry.name, *entry.aliases):
                records.add(name, entry, is_id=name is entry.name, is_site=entry.origin != BUILT_IN)
        return records

    def _by_alias(self, name: str, entry: ModelEntry) -> ResolvedModel:
        if "/" not in name:
            return ResolvedModel(entry=entry, asked=name, how=NameMatch.ALIAS)
        weights = None
        if states_weight_format(name):
            weights = read_model_name(locate(name).bare).weight_format
        return ResolvedModel(
            entry=entry,
            asked=name,
            how=NameMatch.ALIAS,
            note=f"{name} has the shape of {entry.name}.",
            quantization=weights.quantization if weights else None,
            weight_format=weights.words if weights else None,
        )

    def _read(self, asked: str) -> ResolvedModel:
        """Resolve a name that is nobody's exact name."""
        where = locate(asked[:NAME_LIMIT])
        known = self._exact.get(where.repository.casefold())
        if known is None and where.organisation is None:
            known = self._exact.get(where.bare.casefold())
        name = read_model_name(where.bare, organisation=where.organisation)
        try:
            found = (
                Candidate(known)
                if known is not None
                else self._records.find(where.bare, name)
                if len(asked) <= NAME_LIMIT
                else None
            )
        except Undecided as undecided:
            raise _undecided(asked, undecided) from None
        if found is None:
            raise self._unknown(asked, where)
        weights = name.weight_format
        reasons = [*_reasons(where, found.entry, name), *found.reasons]
        said = "; ".join(reasons) or "the same name written otherwise"
        return ResolvedModel(
            entry=found.entry,
            asked=asked,
            how=_how(where, found, name, organisation_known=known is not None),
            note=f"{_short(asked)} was taken as {found.entry.name}: {said}.",
            quantization=weights.quantization if weights else None,
            weight_format=weights.words if weights else None,
        )

    def _unknown(self, asked: str, where: Location) -> UnknownNameError:
        near = [self._exact[i].name for i in self._index.nearest(where.bare[:NAME_LIMIT])]
        hint = (
            f"Nearest in the catalog: {', '.join(near)}. {_WAY_OUT}"
            if near
            else _WAY_OUT.removeprefix("Or ").capitalize()
        )
        return UnknownNameError(
            f"no model in the catalog is called {_short(asked)!r}",
            hint=hint,
            asked=asked,
            suggestions=tuple(near),
        )


def _spellings(entry: ModelEntry) -> tuple[str, ...]:
    return tuple(name.casefold() for name in (entry.name, *entry.aliases))


def _short(name: str) -> str:
    return shortened(name, 120)


def _undecided(asked: str, undecided: Undecided) -> UnknownNameError:
    names = tuple(dict.fromkeys(undecided.names))[:5]
    return UnknownNameError(
        f"{_short(asked)!r} could mean {' or '.join(names)}",
        hint=f"Write it in full; the name does not say {undecided.missing}. {_WAY_OUT}",
        asked=asked,
        suggestions=names,
    )


def _how(
    where: Location, found: Candidate[ModelEntry], name: ModelName, *, organisation_known: bool
) -> NameMatch:
    if where.is_path:
        return NameMatch.PATH
    if name.weight_format is not None:
        return NameMatch.QUANTIZED
    if organisation_known:
        return NameMatch.ALIAS
    return NameMatch.COPY if _is_elsewhere(where, found.entry) else NameMatch.VARIANT


def _is_elsewhere(where: Location, entry: ModelEntry) -> bool:
    """Return whether the name is a repository of another organisation than the entry's."""
    return where.organisation is not None and not entry.name.casefold().startswith(
        f"{where.organisation.casefold()}/"
    )


def _reasons(where: Location, entry: ModelEntry, name: ModelName) -> list[str]:
    """Return what was read into the place and the packing of a name, as clauses of one sentence."""
    reasons = []
    if where.is_path:
        reasons.append(f"a local path, read by its name {where.bare}")
    elif _is_elsewhere(where, entry):
        reasons.append(f"the copy of {where.organisation}, assumed to be the same model")
    if name.weight_format is not None:
        weights = name.weight_format
        taken = f" (read as {weights.quantization})" if weights.quantization else ""
        guess = ", the method behind it assumed" if weights.assumed else ""
        reasons.append(f"weights in {weights.words}{taken}{guess}")
    return reasons


@cache
def builtin_models() -> ModelCatalog:
    """Return the catalog shipped with the package; read from disk at the first call."""
    text = importlib.resources.files("vramgate.catalog").joinpath("models.json").read_bytes()
    return ModelCatalog(
        [ModelEntry(**{**row, "aliases": tuple(row["aliases"])}) for row in json.loads(text)]
    )
