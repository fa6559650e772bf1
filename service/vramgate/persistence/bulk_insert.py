"""Many rows into several tables at once.

On PostgreSQL in one statement, whatever the number of rows: a parameter a column, one plan, one
round trip in which other writers wait. On SQLite, which is no round trip away, row by row.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.tables import KEPT_ONCE

Rows: TypeAlias = Sequence[Mapping[str, Any]]
"""Rows of one table, all with the same columns."""


async def insert_rows(connection: AsyncConnection, rows_of: Mapping[sa.Table, Rows]) -> None:
    """Insert the rows; those whose primary key is taken are left out where ``KEPT_ONCE`` says so."""
    filled = {table: rows for table, rows in rows_of.items() if rows}
    if not filled:
        return
    if connection.dialect.name != "postgresql":
        for table, rows in filled.items():
            await connection.execute(_insert_each(table), list(rows))
        return
    columns = tuple((table, tuple(rows[0])) for table, rows in filled.items())
    given = {
        f"{table.name}_{name}": [row[name] for row in filled[table]]
        for table, names in columns
        for name in names
    }
    await connection.execute(_insert_all(columns), given)


@cache
def _insert_each(table: sa.Table) -> sa.Insert:
    insert = sqlite_insert(table)
    return insert.on_conflict_do_nothing() if table.info.get(KEPT_ONCE) else insert


@cache
def _insert_all(columns: tuple[tuple[sa.Table, tuple[str, ...]], ...]) -> sa.UpdateBase:
    """Return one statement that inserts into the tables: the first, with the others before it."""
    first, *others = (_insert_unnested(table, names) for table, names in columns)
    whole: sa.UpdateBase = first.add_cte(
        *(one.cte(f"into_{number}") for number, one in enumerate(others))
    )
    return whole


def _insert_unnested(table: sa.Table, names: tuple[str, ...]) -> Any:  # noqa: ANN401 Insert's dialect of PostgreSQL has no common name
    kinds = [table.c[name].type for name in names]
    arrays: list[sa.BindParameter[Any]] = [
        sa.bindparam(f"{table.name}_{name}", type_=sa.ARRAY(kind))
        for name, kind in zip(names, kinds, strict=True)
    ]
    rows = (
        sa.func.unnest(*arrays)
        .table_valued(
            *(sa.column(name, kind) for name, kind in zip(names, kinds, strict=True)),
            name=f"new_{table.name}",
        )
        .render_derived()
    )
    insert = postgres_insert(table).from_select(list(names), sa.select(*rows.c))
    return insert.on_conflict_do_nothing() if table.info.get(KEPT_ONCE) else insert
