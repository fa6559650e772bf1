"""A site's own models and accelerators: read, checked whole, merged over the built-in ones."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

from vramgate.catalog.accelerator_facts import Accelerator
from vramgate.catalog.accelerators import AcceleratorCatalog, builtin_accelerators
from vramgate.catalog.clashes import NameClash
from vramgate.catalog.models import ModelCatalog, ModelEntry
from vramgate.catalog.site_entries import EntryId, document_faults, site_card, site_model
from vramgate.errors import DomainError, FieldError
from vramgate.units import MIB

MAX_FILE_BYTES = 16 * MIB


class InvalidSiteCatalogError(DomainError):
    """A site's catalog cannot be used; ``fields`` lists everything wrong with it."""

    code = "invalid_site_catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogs:
    """Both catalogs, and which names a site's entries took over."""

    models: ModelCatalog
    accelerators: AcceleratorCatalog
    clashes: tuple[NameClash, ...] = ()
    own: Mapping[EntryId, str] = field(default_factory=dict)
    """Which entries are a tenant's own, with the digest of each one's document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCatalog:
    """A site's own entries, checked."""

    source: str
    models: tuple[ModelEntry, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()

    def merged(self, models: ModelCatalog, accelerators: AcceleratorCatalog) -> Catalogs:
        """Return new catalogs in which the site's entries win."""
        return Catalogs(
            models=models.merged_with(self.models),
            accelerators=accelerators.merged_with(self.accelerators),
            clashes=(
                *models.clashes_with(self.models),
                *accelerators.clashes_with(self.accelerators),
            ),
        )


def load_site_catalog(path: Path, accelerators: AcceleratorCatalog | None = None) -> SiteCatalog:
    """Return the entries of a site's JSON or YAML file.

    Form: ``{"models": [{"name", "aliases", "config" | "parameters"}], "accelerators": [{"name",
    …}]}``. An accelerator with the id of a known one states only what differs.

    Raises:
        InvalidSiteCatalogError: the file cannot be read, or an entry is wrong; every fault is
            listed.
    """
    source = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        _refuse(source, f"cannot be read: {error.strerror}", "Correct the path or its permissions.")
    if len(content) > MAX_FILE_BYTES:
        _refuse(source, f"is larger than {MAX_FILE_BYTES} bytes", "Split or shorten it.")
    try:
        document = _parsed(content, is_json=path.suffix.lower() == ".json")
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        _refuse(source, f"is not valid JSON or YAML: {error}", "Correct it there.")
    return parse_site_catalog(document, source=source, accelerators=accelerators)


def parse_site_catalog(
    document: object, *, source: str, accelerators: AcceleratorCatalog | None = None
) -> SiteCatalog:
    """Return the entries of a site's document that was parsed already.

    Raises:
        InvalidSiteCatalogError: an entry is wrong; every fault is listed.
    """
    known = builtin_accelerators() if accelerators is None else accelerators
    faults = document_faults(document, known)
    if faults or not isinstance(document, dict):
        raise _invalid(source, faults, document)
    return SiteCatalog(
        source=source,
        models=tuple(site_model(row, source) for row in document.get("models", ())),
        accelerators=tuple(
            site_card(row, known, source) for row in document.get("accelerators", ())
        ),
    )


def _parsed(content: bytes, *, is_json: bool) -> object:
    def refuse_constant(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number")

    text = content.decode("utf-8-sig")
    parsed: object = (
        json.loads(text, parse_constant=refuse_constant) if is_json else yaml.safe_load(text)
    )
    return {} if parsed is None else parsed


def _refuse(source: str, what: str, hint: str) -> NoReturn:
    raise InvalidSiteCatalogError(f"the site catalog {source} {what}", hint=hint, source=source)


def _invalid(source: str, faults: Sequence[FieldError], document: object) -> DomainError:
    """Return all faults as one error, the first spelt out: file, entry, field, value, way out."""
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    where = first.pointer or "the document"
    value = "" if first.value is None else f"{first.value!r} "
    return InvalidSiteCatalogError(
        f"the site catalog {source}: {where}{_entry_name(first.pointer, document)}: "
        f"{value}{first.detail}{more}",
        hint=f"Correct {source} and load it again; nothing of it was taken.",
        fields=faults,
        source=source,
    )


def _entry_name(pointer: str, document: object) -> str:
    """Return the name of the entry that a pointer leads into, in brackets, where it has one."""
    parts = pointer.split("/")[1:3]
    try:
        named = document[parts[0]][int(parts[1])]["name"]  # type: ignore[index]
    except (LookupError, TypeError, ValueError):
        return ""
    return f" ({named[:80]})" if isinstance(named, str) else ""
