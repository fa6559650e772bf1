"""The monthly partitions of ``reports`` on PostgreSQL.

New reports go into the partition of their month, whose indexes are the only ones that grow; old
ones are dropped whole. Rows of a month that has no partition yet go to ``reports_default``.
"""

import re
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

MONTHS_AHEAD = 3
DROP_LOCK_MILLISECONDS = 500
"""How long readers may hold a drop up: whoever comes after it waits as long as it does."""
_MONTH = re.compile(r"reports_y(\d{4})m(\d{2})")
PARTITION_NAMES = re.compile(r"reports_(default|y\d{4}m\d{2})")

_PRESENT = sa.text(
    "SELECT child.relname FROM pg_inherits "
    "JOIN pg_class child ON child.oid = inhrelid "
    "WHERE inhparent = to_regclass('reports')"
)


async def ensure_partitions(connection: AsyncConnection, now: datetime | None = None) -> list[str]:
    """Make the partitions of this month and the next ones; return the names of the new ones.

    Without effect on SQLite, and where the table is not partitioned.
    """
    if connection.dialect.name != "postgresql":
        return []
    present = set((await connection.execute(_PRESENT)).scalars())
    if not present:
        return []
    made = []
    for first in _months(now or datetime.now(UTC)):
        name = f"reports_y{first.year:04}m{first.month:02}"
        if name in present or await _has_rows_in_default(connection, first):
            continue
        await connection.execute(
            sa.text(
                f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF reports "
                f"FOR VALUES FROM ('{first.isoformat()}') TO ('{_next_month(first).isoformat()}')"
            )
        )
        made.append(name)
    return made


async def partitions_before(connection: AsyncConnection, moment: datetime) -> list[str]:
    """Return the monthly partitions that end at the moment or before, the oldest first."""
    if connection.dialect.name != "postgresql":
        return []
    present = (await connection.execute(_PRESENT)).scalars()
    months = [(found, name) for name in present if (found := _MONTH.fullmatch(name))]
    return sorted(
        name
        for found, name in months
        if _next_month(datetime(int(found[1]), int(found[2]), 1, tzinfo=UTC)) <= moment
    )


async def drop_partition(connection: AsyncConnection, name: str) -> None:
    """Drop a monthly partition with what it holds; readers under way are waited for, briefly."""
    assert _MONTH.fullmatch(name), "names come from the catalog"  # noqa: S101 it goes into a statement
    await connection.execute(sa.text(f"SET LOCAL lock_timeout = {DROP_LOCK_MILLISECONDS}"))
    await connection.execute(sa.text(f"DROP TABLE {name}"))


async def _has_rows_in_default(connection: AsyncConnection, first: datetime) -> bool:
    """Return whether rows of the month already lie in the default partition, where they stay."""
    found = await connection.execute(
        sa.text(
            "SELECT EXISTS (SELECT FROM reports_default WHERE received_at >= :first "
            "AND received_at < :after)"
        ),
        {"first": first, "after": _next_month(first)},
    )
    return bool(found.scalar_one())


def _months(now: datetime) -> list[datetime]:
    months = [datetime(now.year, now.month, 1, tzinfo=UTC)]
    for _ in range(MONTHS_AHEAD):
        months.append(_next_month(months[-1]))
    return months


def _next_month(first: datetime) -> datetime:
    """Return the first moment of the month after.

    >>> _next_month(datetime(2026, 12, 1, tzinfo=UTC)).isoformat()
    '2027-01-01T00:00:00+00:00'
    """
    return datetime(first.year + first.month // 12, first.month % 12 + 1, 1, tzinfo=UTC)
