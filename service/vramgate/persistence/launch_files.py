"""Files that launches name by their digest, as rows. Every statement is bound to one tenant."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.tables import launch_files

_FILES = launch_files.c


async def bytes_of(connection: AsyncConnection, tenant: str) -> int:
    """Return how many bytes a tenant's files take together."""
    found: int | None = await connection.scalar(
        sa.select(sa.func.sum(_FILES.bytes)).where(_FILES.tenant == tenant)
    )
    return int(found or 0)


async def sent_at(connection: AsyncConnection, tenant: str, sha256: str) -> datetime | None:
    """Return when a file was last sent; None where the tenant has none of this digest."""
    found: datetime | None = await connection.scalar(
        sa.select(_FILES.sent_at).where(_FILES.tenant == tenant, _FILES.sha256 == sha256)
    )
    return found


async def size_of(connection: AsyncConnection, tenant: str, sha256: str) -> int | None:
    """Return the bytes of a file; None where the tenant has none of this digest."""
    found: int | None = await connection.scalar(
        sa.select(_FILES.bytes).where(_FILES.tenant == tenant, _FILES.sha256 == sha256)
    )
    return found


async def keep(
    connection: AsyncConnection, tenant: str, sha256: str, text: str, now: datetime
) -> None:
    """Store a file, or note that it was sent again."""
    row = {
        "tenant": tenant,
        "sha256": sha256,
        "bytes": len(text.encode()),
        "text": text,
        "sent_at": now,
    }
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    await connection.execute(
        insert(launch_files)
        .values(**row)
        .on_conflict_do_update(index_elements=["tenant", "sha256"], set_={"sent_at": now})
    )


async def texts_of(
    connection: AsyncConnection, tenant: str, digests: Collection[str]
) -> dict[str, str]:
    """Return the texts of the files of these digests that a tenant has."""
    rows = await connection.execute(
        sa.select(_FILES.sha256, _FILES.text).where(
            _FILES.tenant == tenant, _FILES.sha256.in_(sorted(digests))
        )
    )
    return {row.sha256: row.text for row in rows}


async def forget_unsent(connection: AsyncConnection, before: datetime) -> int:
    """Delete the files that nobody has sent since a moment; return how many."""
    gone = await connection.execute(sa.delete(launch_files).where(_FILES.sent_at < before))
    return int(gone.rowcount)
