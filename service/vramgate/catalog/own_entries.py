"""A tenant's own models and accelerators, which win over the site's and the built-in ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vramgate.catalog.accelerator_facts import Accelerator
from vramgate.catalog.clashes import TENANT
from vramgate.catalog.models import ModelEntry
from vramgate.catalog.site import Catalogs
from vramgate.catalog.site_entries import (
    EntryId,
    EntryKind,
    entry_faults,
    site_card,
    site_model,
)
from vramgate.errors import DomainError, FieldError

MOST_FAULTS = 50
"""Told of one entry; a list of aliases can hold a thousand."""


class InvalidEntryError(DomainError):
    """An entry cannot be used; ``fields`` lists everything wrong with it."""

    code = "validation_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEntry:
    """An entry of a tenant, checked, and the digest of the document it was read from."""

    kind: EntryKind
    digest: str
    value: ModelEntry | Accelerator

    @property
    def id(self) -> EntryId:
        """Return what there is one of in a tenant."""
        return entry_id(self.kind, self.value.name)


def entry_id(kind: EntryKind, name: str) -> EntryId:
    """Return what there is one of in a tenant: names differ in more than their case.

    >>> entry_id(EntryKind.MODEL, "Acme/Titan")
    (<EntryKind.MODEL: 'model'>, 'acme/titan')
    """
    return kind, name.casefold()


def read_entry(kind: EntryKind, row: object, *, digest: str, site: Catalogs) -> OwnEntry:
    """Return the entry that a document describes, one of the fields of a site's file.

    A card with the id of one of the site's, or of a built-in one, states only what differs.

    Raises:
        InvalidEntryError: something is wrong with it; every fault is listed.
    """
    faults = entry_faults(kind, row, site.accelerators)
    if faults or not isinstance(row, dict):
        raise invalid_entry(faults)
    return OwnEntry(kind=kind, digest=digest, value=_value(kind, row, site))


def with_own(site: Catalogs, own: Iterable[OwnEntry]) -> Catalogs:
    """Return the site's catalogs with a tenant's own entries over them.

    A catalog that the tenant adds nothing to is the site's.
    """
    entries = list(own)
    models = [one.value for one in entries if isinstance(one.value, ModelEntry)]
    cards = [one.value for one in entries if isinstance(one.value, Accelerator)]
    clashes = (*site.models.clashes_with(models), *site.accelerators.clashes_with(cards))
    return Catalogs(
        models=site.models.merged_with(models) if models else site.models,
        accelerators=site.accelerators.merged_with(cards) if cards else site.accelerators,
        clashes=(*site.clashes, *(replace(one, owner=TENANT) for one in clashes)),
        own={one.id: one.digest for one in entries},
    )


def invalid_entry(faults: Iterable[FieldError]) -> InvalidEntryError:
    """Return all faults of an entry as one error, the first spelt out."""
    found = list(faults)
    first = found[0]
    more = f" ({len(found) - 1} more)" if len(found) > 1 else ""
    return InvalidEntryError(
        f"{first.pointer or 'The entry'}: {first.detail}{more}.",
        hint="Correct it and send it again; nothing of it was taken.",
        fields=found[:MOST_FAULTS],
    )


def _value(kind: EntryKind, row: Mapping[str, Any], site: Catalogs) -> ModelEntry | Accelerator:
    if kind is EntryKind.MODEL:
        return site_model(row, TENANT)
    return site_card(row, site.accelerators, TENANT)
