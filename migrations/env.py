"""How Alembic meets the database: one transaction per revision, short locks, one at a time."""

import asyncio

import sqlalchemy as sa
from alembic import context

from vramgate.persistence.engine import Database
from vramgate.persistence.migrate import is_ours
from vramgate.persistence.tables import metadata

LOCK_SECONDS = 4
STATEMENT_SECONDS = 5
ADVISORY_LOCK = 7_120_415_302_114_551
"""Any number that no other program takes on this database."""


def run(connection: sa.Connection) -> None:
    """Run what Alembic was asked for on the connection."""
    if connection.dialect.name == "postgresql":
        # Waits for another migration under the lock's own limit, then holds it for the session.
        connection.execute(sa.text(f"SET lock_timeout = '{LOCK_SECONDS}s'"))
        connection.execute(sa.text(f"SET statement_timeout = '{STATEMENT_SECONDS}s'"))
        connection.execute(sa.text("SELECT pg_advisory_lock(:n)"), {"n": ADVISORY_LOCK})
        connection.commit()
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transaction_per_migration=True,
        # SQLite as well: we begin its transactions ourselves.
        transactional_ddl=True,
        compare_type=True,
        include_object=is_ours,
    )
    with context.begin_transaction():
        context.run_migrations()
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_unlock(:n)"), {"n": ADVISORY_LOCK})
        connection.commit()


async def run_on(url: str) -> None:
    """Open the database at the address and run there."""
    database = Database(url)
    try:
        async with database.engine.connect() as connection:
            await connection.execution_options(writes=True)
            await connection.run_sync(run)
    finally:
        await database.close()


if context.is_offline_mode():
    context.configure(
        url=context.config.get_main_option("sqlalchemy.url"),
        target_metadata=metadata,
        literal_binds=True,
        transaction_per_migration=True,
        include_object=is_ours,
    )
    with context.begin_transaction():
        context.run_migrations()
else:
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
    else:
        asyncio.run(run_on(context.config.get_main_option("sqlalchemy.url") or ""))
