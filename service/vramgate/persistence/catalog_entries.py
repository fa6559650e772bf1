"""The models and accelerators of tenants' own, as rows. Every statement is bound to one tenant."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.catalog.site_entries import EntryId, EntryKind
from vramgate.persistence.identifiers import time_ordered_id
from vramgate.persistence.tables import catalog_entries, catalog_versions

NAMED_AT_MOST = 50
"""Documents asked for by their digests; where more are wanted, all are read: that is quicker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRow:
    """One entry to be written: its document, and what the document says of it."""

    id: EntryId
    name: str
    names: Sequence[str]
    """Every name it claims, as ``claimed_names`` writes them."""
    digest: str
    document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a tenant has."""

    entries: int
    characters: int
    """Of all documents together."""


async def version_of(connection: AsyncConnection, tenant: str) -> str | None:
    """Return the version of a tenant's entries; None where it never had any.

    Versions are equal or not; nothing else is to be read into them.
    """
    found: str | None = await connection.scalar(_VERSION, {"tenant": tenant})
    return found


async def begin_change(connection: AsyncConnection, tenant: str) -> None:
    """Give the tenant's entries a new version, and hold off other changes of them to the commit."""
    given = {"tenant": tenant, "version": time_ordered_id(), "changed_at": datetime.now(UTC)}
    await connection.execute(_new_version(connection.dialect.name), given)


async def digests_of(connection: AsyncConnection, tenant: str) -> dict[EntryId, str]:
    """Return which entries a tenant has, each with the digest of its document."""
    rows = await connection.execute(_DIGESTS, {"tenant": tenant})
    return {(EntryKind(row.kind), row.key): row.digest for row in rows}


async def documents_of(
    connection: AsyncConnection, tenant: str, digests: Sequence[str]
) -> dict[str, str]:
    """Return the documents of these digests that a tenant has; maybe others of its own as well."""
    if not digests:
        return {}
    if len(digests) > NAMED_AT_MOST:
        everything = await connection.execute(_ALL_DOCUMENTS, {"tenant": tenant})
        return {row.digest: row.document for row in everything}
    given = {"tenant": tenant, "digests": list(digests)}
    rows = await connection.execute(_DOCUMENTS, given)
    return {row.digest: row.document for row in rows}


async def digest_of(connection: AsyncConnection, tenant: str, one: EntryId) -> str | None:
    """Return the digest of an entry's document; None where the tenant has no such entry."""
    found: str | None = await connection.scalar(sa.select(_OWN.digest).where(*_is(tenant, one)))
    return found


async def owners_of_names(
    connection: AsyncConnection, tenant: str, beside: EntryId
) -> dict[str, str]:
    """Return the names that a tenant's other entries of the kind claim, with the claiming entry's."""
    kind, key = beside
    rows = await connection.execute(
        sa.select(_OWN.name, _OWN.names).where(
            _OWN.tenant == tenant, _OWN.kind == kind, _OWN.key != key
        )
    )
    return {name: row.name for row in rows for name in json.loads(row.names)}


async def holdings_of(connection: AsyncConnection, tenant: str, beside: EntryId) -> Holdings:
    """Return what a tenant has beside one entry."""
    kind, key = beside
    row = (
        await connection.execute(
            sa.select(
                sa.func.count(), sa.func.coalesce(sa.func.sum(sa.func.length(_OWN.document)), 0)
            ).where(_OWN.tenant == tenant, sa.or_(_OWN.kind != kind, _OWN.key != key))
        )
    ).one()
    return Holdings(entries=row[0], characters=row[1])


async def add_entry(connection: AsyncConnection, tenant: str, row: EntryRow) -> None:
    """Store an entry that is not there yet."""
    kind, key = row.id
    now = datetime.now(UTC)
    await connection.execute(
        sa.insert(catalog_entries).values(
            tenant=tenant, kind=kind, key=key, created_at=now, updated_at=now, **_written(row)
        )
    )


async def replace_entry(connection: AsyncConnection, tenant: str, row: EntryRow) -> None:
    """Store an entry in the place of the one there."""
    await connection.execute(
        sa.update(catalog_entries)
        .where(*_is(tenant, row.id))
        .values(updated_at=datetime.now(UTC), **_written(row))
    )


async def remove_entry(connection: AsyncConnection, tenant: str, one: EntryId) -> None:
    """Delete an entry."""
    await connection.execute(sa.delete(catalog_entries).where(*_is(tenant, one)))


_OWN = catalog_entries.c

# Statements are built once: building one takes longer than PostgreSQL takes to answer it.
_VERSION = sa.select(catalog_versions.c.version).where(
    catalog_versions.c.tenant == sa.bindparam("tenant")
)
_DIGESTS = sa.select(_OWN.kind, _OWN.key, _OWN.digest).where(_OWN.tenant == sa.bindparam("tenant"))
_ALL_DOCUMENTS = sa.select(_OWN.digest, _OWN.document).where(_OWN.tenant == sa.bindparam("tenant"))
_DOCUMENTS = _ALL_DOCUMENTS.where(_OWN.digest.in_(sa.bindparam("digests", expanding=True)))


@cache
def _new_version(dialect: str) -> sa.UpdateBase:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = insert(catalog_versions)
    return statement.on_conflict_do_update(
        index_elements=["tenant"],
        set_={
            "version": statement.excluded.version,
            "changed_at": statement.excluded.changed_at,
        },
    )


def _is(tenant: str, one: EntryId) -> tuple[sa.ColumnElement[bool], ...]:
    kind, key = one
    return _OWN.tenant == tenant, _OWN.kind == kind, _OWN.key == key


def _written(row: EntryRow) -> dict[str, str]:
    return {
        "name": row.name,
        "names": json.dumps(list(row.names), ensure_ascii=False),
        "digest": row.digest,
        "document": row.document,
    }
