"""The key that the service signs with where its site gives it none: one row, the same everywhere."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.tables import signing_keys

OWN_KEY_ID = "own"
"""One name for everybody's first offer, so that the primary key lets one of them through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A key as it is kept."""

    key_id: str
    key: bytes = field(repr=False)


async def signing_key(connection: AsyncConnection) -> StoredKey | None:
    """Return the key; None where none has been made yet."""
    query = sa.select(signing_keys).where(signing_keys.c.key_id == OWN_KEY_ID)
    row = (await connection.execute(query)).one_or_none()
    return None if row is None else StoredKey(key_id=row.key_id, key=bytes(row.key))


async def agree_on_key(connection: AsyncConnection, offered: bytes) -> StoredKey:
    """Return the key that was there first: the offered one, or another replica's."""
    insert = postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert
    row = {"key_id": OWN_KEY_ID, "key": offered, "created_at": datetime.now(UTC)}
    await connection.execute(insert(signing_keys).values(row).on_conflict_do_nothing())
    kept = await signing_key(connection)
    if kept is None:
        raise RuntimeError("the signing key was deleted while it was made")
    return kept
