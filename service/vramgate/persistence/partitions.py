"""The monthly partitions of ``reports`` and ``decisions`` on PostgreSQL.

New rows go into the partition of their month, whose indexes are the only ones that grow; old ones
are dropped whole. Rows of a month that has no partition yet go to ``reports_default`` or
``decisions_default``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

MONTHS_AHEAD = 3
DROP_LOCK_MILLISECONDS = 500
"""How long readers may hold a drop up: whoever comes after it waits as long as it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionedTable:
    """A table with a partition a month, and one for all other months."""

    name: str
    moment: str
    """The column that says in which month a row lies."""

    def month(self, first: datetime) -> str:
        """Return the name of the partition of the month that begins then.

        >>> REPORTS.month(datetime(2026, 12, 1, tzinfo=UTC))
        'reports_y2026m12'
        """
        return f"{self.name}_y{first.year:04}m{first.month:02}"

    @property
    def default(self) -> str:
        """Return the name of the partition of all other months."""
        return f"{self.name}_default"


REPORTS = PartitionedTable(name="reports", moment="received_at")
DECISIONS = PartitionedTable(name="decisions", moment="decided_at")
PARTITIONED = (REPORTS, DECISIONS)

_NAMES = "|".join(table.name for table in PARTITIONED)
_MONTH = re.compile(rf"(?:{_NAMES})_y(\d{{4}})m(\d{{2}})")
PARTITION_NAMES = re.compile(rf"(?:{_NAMES})_(?:default|y\d{{4}}m\d{{2}})")

_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_xact_lock(hashtext('vramgate partitions'))")
_PRESENT = sa.text(
    "SELECT child.relname FROM pg_inherits "
    "JOIN pg_class child ON child.oid = inhrelid "
    "WHERE inhparent = to_regclass(:parent)"
)


async def ensure_partitions(connection: AsyncConnection, now: datetime | None = None) -> list[str]:
    """Make the partitions of this month and the next ones; return the names of the new ones.

    Without effect on SQLite, and for a table that is not there or not partitioned.
    """
    if connection.dialect.name != "postgresql":
        return []
    # Of two that make the same one at once, the other would fail.
    await connection.execute(_ONE_AT_A_TIME)
    months = _months(now or datetime.now(UTC))
    return [
        name for table in PARTITIONED for name in await _ensure_months(connection, table, months)
    ]


async def partitions_before(
    connection: AsyncConnection, table: PartitionedTable, moment: datetime
) -> list[str]:
    """Return the table's monthly partitions that end at the moment or before, the oldest first."""
    if connection.dialect.name != "postgresql":
        return []
    present = await _present(connection, table)
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


async def _ensure_months(
    connection: AsyncConnection, table: PartitionedTable, months: Sequence[datetime]
) -> list[str]:
    present = await _present(connection, table)
    made: list[str] = []
    if not present:
        return made
    for first in months:
        name = table.month(first)
        if name in present or await _has_rows_in_default(connection, table, first):
            continue
        await connection.execute(
            sa.text(
                f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF {table.name} "
                f"FOR VALUES FROM ('{first.isoformat()}') TO ('{_next_month(first).isoformat()}')"
            )
        )
        made.append(name)
    return made


async def _present(connection: AsyncConnection, table: PartitionedTable) -> set[str]:
    return set((await connection.execute(_PRESENT, {"parent": table.name})).scalars())


async def _has_rows_in_default(
    connection: AsyncConnection, table: PartitionedTable, first: datetime
) -> bool:
    """Return whether rows of the month already lie in the default partition, where they stay."""
    found = await connection.execute(
        sa.text(
            f"SELECT EXISTS (SELECT FROM {table.default} WHERE {table.moment} >= :first "  # noqa: S608 our own names
            f"AND {table.moment} < :after)"
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
