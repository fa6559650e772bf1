"""What decisions were made about and what was answered, read; and let go when no decision needs it.

A document that no decision refers to cannot simply be deleted: a decision that is just being
written found it there and brought none of its own. So it is set aside first, under another name,
and from then on who needs it brings it again. Once all that were being written are there, a look
at the decisions tells whether it is deleted or put back. Readers find it under both names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.partitions import DROP_LOCK_MILLISECONDS
from vramgate.persistence.purge import allow_long_search
from vramgate.persistence.tables import admission_answers, admission_subjects, decisions

_ASIDE = "aside:"
"""Before a digest, which is hexadecimal: the name of a document that is set aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """One of the tables of documents, and the column that decisions refer to it by."""

    table: sa.Table
    column: str

    @property
    def digest(self) -> sa.ColumnElement[str]:
        """Return the column of its own that has the digest."""
        return self.table.c[self.column]


SUBJECTS = DocumentKind(table=admission_subjects, column="subject_digest")
ANSWERS = DocumentKind(table=admission_answers, column="answer_digest")


def document_of_decision(kind: DocumentKind) -> sa.ScalarSelect[Any]:
    """Return the document of a row of ``decisions``, as a part of another statement."""
    digest = decisions.c[kind.column]
    table = kind.table.alias()
    return (
        sa.select(table.c.document)
        .where(
            table.c.tenant == decisions.c.tenant,
            table.c[kind.column].in_([digest, sa.literal(_ASIDE) + digest]),
        )
        .limit(1)
        .correlate(decisions)
        .scalar_subquery()
    )


async def unused_documents(
    connection: AsyncConnection, kind: DocumentKind, tenant: str
) -> list[str]:
    """Return the digests of a tenant's documents that no decision refers to now."""
    await allow_long_search(connection)
    kept = sa.select(kind.digest).where(
        kind.table.c.tenant == tenant, sa.not_(kind.digest.startswith(_ASIDE))
    )
    found = (await connection.execute(sa.except_(kept, _used(kind, tenant)))).scalars()
    return sorted(found)


async def set_aside(
    connection: AsyncConnection, kind: DocumentKind, tenant: str, digests: Sequence[str]
) -> None:
    """Set documents aside, once every decision that is being written is there."""
    if connection.dialect.name == "postgresql":
        await connection.execute(sa.text(f"SET LOCAL lock_timeout = {DROP_LOCK_MILLISECONDS}"))
        lock = f"LOCK TABLE {kind.table.name} IN SHARE ROW EXCLUSIVE MODE"
        await connection.execute(sa.text(lock))
    chosen = (kind.table.c.tenant == tenant, kind.digest.in_(digests))
    named = sa.literal(_ASIDE) + kind.digest
    await connection.execute(_copied(connection, kind, named, chosen))
    await connection.execute(sa.delete(kind.table).where(*chosen))


async def used_of_aside(
    connection: AsyncConnection, kind: DocumentKind, tenant: str
) -> tuple[list[str], list[str]]:
    """Return the digests of what is set aside: of that which decisions refer to, and of the rest."""
    await allow_long_search(connection)
    bare = sa.func.substr(kind.digest, len(_ASIDE) + 1)
    aside = (kind.table.c.tenant == tenant, kind.digest.startswith(_ASIDE))
    query = sa.select(bare.label("digest"), bare.in_(_used(kind, tenant)).label("is_used"))
    rows = (await connection.execute(query.where(*aside))).all()
    used = sorted(row.digest for row in rows if row.is_used)
    return used, sorted(row.digest for row in rows if not row.is_used)


async def put_back(
    connection: AsyncConnection, kind: DocumentKind, tenant: str, digests: Sequence[str]
) -> None:
    """Put back documents that are set aside, where nobody brought them again meanwhile."""
    chosen = _aside(kind, tenant, digests)
    bare = sa.func.substr(kind.digest, len(_ASIDE) + 1)
    await connection.execute(_copied(connection, kind, bare, chosen))
    await connection.execute(sa.delete(kind.table).where(*chosen))


async def delete_aside(
    connection: AsyncConnection, kind: DocumentKind, tenant: str, digests: Sequence[str]
) -> int:
    """Delete documents that are set aside; return how many there were."""
    gone = await connection.execute(sa.delete(kind.table).where(*_aside(kind, tenant, digests)))
    return int(gone.rowcount)


def _used(kind: DocumentKind, tenant: str) -> sa.SelectBase:
    return sa.select(decisions.c[kind.column]).where(decisions.c.tenant == tenant)


def _aside(
    kind: DocumentKind, tenant: str, digests: Sequence[str]
) -> tuple[sa.ColumnElement[bool], ...]:
    names = [_ASIDE + digest for digest in digests]
    return kind.table.c.tenant == tenant, kind.digest.in_(names)


def _copied(
    connection: AsyncConnection,
    kind: DocumentKind,
    named: sa.ColumnElement[str],
    chosen: Sequence[sa.ColumnElement[bool]],
) -> sa.Insert:
    """Return the insertion of copies under other names, of those that are not there yet."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    columns = [named if one.name == kind.column else one for one in kind.table.c]
    return (
        insert(kind.table)
        .from_select([one.name for one in kind.table.c], sa.select(*columns).where(*chosen))
        .on_conflict_do_nothing()
    )
