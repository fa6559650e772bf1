"""A tenant's own entry written or deleted, where the conditions of the request hold."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from anyio import to_thread

from vramgate.access import Caller
from vramgate.catalog.own_entries import OwnEntry, entry_id, invalid_entry, read_entry
from vramgate.catalog.site import Catalogs
from vramgate.catalog.site_entries import EntryKind, claimed_faults, claimed_names, is_name
from vramgate.errors import DomainError, FieldError, shortened
from vramgate.json_text import canonical, digest_of
from vramgate.persistence import audit
from vramgate.persistence import catalog_entries as rows
from vramgate.persistence.catalog_entries import EntryRow, Holdings
from vramgate.persistence.engine import Database

MOST_ENTRIES = 2_000
"""Of a tenant, of both kinds together."""
MOST_CHARACTERS = 4 * 2**20
"""Of a tenant's documents together."""
MOST_OF_ONE = 64 * 2**10
"""Characters of one document; Hugging Face configs of language models take 1 000 to 5 000."""


class PreconditionRequiredError(DomainError):
    """What is there may be changed only by who says which state of it is meant."""

    code = "precondition_required"


class PreconditionFailedError(DomainError):
    """What is there is not what the request says it is."""

    code = "precondition_failed"


class CatalogFullError(DomainError):
    """The tenant has as many entries as one may have."""

    code = "catalog_full"


class NoOwnEntryError(DomainError):
    """The tenant has no entry of its own by the name."""

    code = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a request says must be there (If-Match) or not (If-None-Match); None: it says nothing.

    Tags are beginnings of digests, or ``*`` for whatever is there.
    """

    match: frozenset[str] | None
    none_match: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An entry as it was stored, and whether there was none before."""

    entry: OwnEntry
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    entry: OwnEntry
    row: EntryRow


async def put_entry(
    database: Database,
    site: Catalogs,
    caller: Caller,
    *,
    kind: EntryKind,
    name: str,
    document: object,
    conditions: Conditions,
) -> Written:
    """Store an entry of the caller's tenant under a name, which the document must have as well.

    Raises:
        InvalidEntryError: something is wrong with it; every fault is listed.
        PreconditionRequiredError: there is one already, and nothing was said of it.
        PreconditionFailedError: what is there is not what was said.
        CatalogFullError: the tenant has too many.
    """
    checked = await to_thread.run_sync(partial(_checked, kind, name, document, site))
    tenant, row = caller.tenant.name, checked.row
    async with database.writing() as connection:
        await rows.begin_change(connection, tenant)
        before = await rows.digest_of(connection, tenant, row.id)
        _check_put(before, conditions, row.name)
        _check_room(await rows.holdings_of(connection, tenant, row.id), row)
        _check_names(await rows.owners_of_names(connection, tenant, row.id), kind, document)
        store = rows.add_entry if before is None else rows.replace_entry
        await store(connection, tenant, row)
        await audit.append(
            connection,
            tenant=tenant,
            actor=caller.name,
            action="catalog.put",
            subject=_subject(kind, row.name),
            detail={"digest": row.digest, "replaced": before},
        )
    return Written(entry=checked.entry, is_new=before is None)


async def delete_entry(
    database: Database, caller: Caller, *, kind: EntryKind, name: str, conditions: Conditions
) -> None:
    """Delete an entry of the caller's tenant.

    Raises:
        NoOwnEntryError: the tenant has none by the name.
        PreconditionRequiredError: nothing was said of which state of it is meant.
        PreconditionFailedError: what is there is not what was said.
    """
    tenant, one = caller.tenant.name, entry_id(kind, name)
    if not is_name(name):
        raise _no_entry(kind, name)
    async with database.writing() as connection:
        await rows.begin_change(connection, tenant)
        before = await rows.digest_of(connection, tenant, one)
        if before is None:
            raise _no_entry(kind, name)
        _check_match(before, conditions, name)
        await rows.remove_entry(connection, tenant, one)
        await audit.append(
            connection,
            tenant=tenant,
            actor=caller.name,
            action="catalog.delete",
            subject=_subject(kind, name),
            detail={"digest": before},
        )


def tag_of(digest: str) -> str:
    """Return the beginning of a digest that tags an entry."""
    return digest[:32]


def _checked(kind: EntryKind, name: str, document: object, site: Catalogs) -> _Checked:
    text = canonical(document)
    if len(text) > MOST_OF_ONE:
        raise _fault("", "too_large", f"may have {MOST_OF_ONE:,} characters, not {len(text):,}")
    # As every replica will read it, so that all show the same.
    entry = read_entry(kind, json.loads(text), digest=digest_of(text), site=site)
    written = entry.value.name
    if entry_id(kind, written) != entry_id(kind, name):
        raise _fault("/name", "other_name", f"must be the name in the path, {name!r}", written)
    row = EntryRow(
        id=entry.id,
        name=written,
        names=claimed_names(kind, document) if isinstance(document, dict) else (),
        digest=entry.digest,
        document=text,
    )
    return _Checked(entry=entry, row=row)


def _check_put(before: str | None, conditions: Conditions, name: str) -> None:
    if before is None:
        if conditions.match is not None:
            raise PreconditionFailedError(
                f"There is no entry of your own called {name!r}, which If-Match speaks of.",
                hint="Send it without If-Match, or with `If-None-Match: *`, to make it.",
            )
        return
    if conditions.none_match is not None and _names(conditions.none_match, before):
        raise PreconditionFailedError(
            f"There is an entry of your own called {name!r} already.",
            hint="Get it, and send its ETag as If-Match to replace it.",
        )
    _check_match(before, conditions, name)


def _check_match(before: str, conditions: Conditions, name: str) -> None:
    if conditions.match is None:
        raise PreconditionRequiredError(
            f"{name!r} is an entry of your own: say which state of it you mean.",
            hint="Get it, and send its ETag as If-Match.",
        )
    if not _names(conditions.match, before):
        raise PreconditionFailedError(
            f"{name!r} is no longer what If-Match says.",
            hint="Get it again, and send its present ETag, in double quotes, as If-Match.",
        )


def _names(tags: frozenset[str], digest: str) -> bool:
    return "*" in tags or tag_of(digest) in tags


def _check_room(held: Holdings, row: EntryRow) -> None:
    if held.entries >= MOST_ENTRIES or held.characters + len(row.document) > MOST_CHARACTERS:
        raise CatalogFullError(
            f"A tenant may have {MOST_ENTRIES:,} entries of {MOST_CHARACTERS:,} characters together; "
            f"beside this one there are {held.entries:,} of {held.characters:,}.",
            hint="Delete what nobody needs, or put what everybody needs into the site's file.",
        )


def _check_names(owners: Mapping[str, str], kind: EntryKind, document: object) -> None:
    """Refuse names that another entry of the tenant claims."""
    taken = list(claimed_faults(kind, document, owners)) if isinstance(document, dict) else []
    if taken:
        raise invalid_entry(taken)


def _fault(pointer: str, code: str, detail: str, value: object = None) -> DomainError:
    return invalid_entry([FieldError(pointer=pointer, code=code, detail=detail, value=value)])


def _no_entry(kind: EntryKind, name: str) -> NoOwnEntryError:
    """Return the error; the same whether nobody has such an entry or another tenant does."""
    return NoOwnEntryError(
        f"There is no {kind.value} of your own called {shortened(name, 120)!r}.",
        hint="Only entries with the origin `tenant` can be deleted.",
    )


def _subject(kind: EntryKind, name: str) -> str:
    return f"{kind.value} {name}"
