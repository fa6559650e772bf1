"""What is looked up before reports are written, and how."""

from typing import Any

import sqlalchemy as sa

from tests.databases import Databases
from vramgate.calibration.report import Outcome, ReportKey, Standing
from vramgate.persistence.engine import Database
from vramgate.persistence.report_keys import look_up
from vramgate.persistence.tables import report_keys


def key(run_id: str, rank: int = 0, tenant: str = "t") -> ReportKey:
    return ReportKey(tenant=tenant, run_id=run_id, rank=rank)


async def keep(database: Database, *keys: ReportKey, **columns: Any) -> None:  # noqa: ANN401
    rows = [
        {
            "tenant": one.tenant,
            "run_id": one.run_id,
            "rank": one.rank,
            "report_id": f"{one.tenant}/{one.run_id}/{one.rank}",
            "received_at": sa.func.now(),
            "position": 1,
            "digest": "d",
            "subject_digest": "s",
            "status": Standing.ACCEPTED.value,
            "outcome": Outcome.COMPLETED.value,
            "max_allocated_bytes": 10 + one.rank,
            **columns,
        }
        for one in keys
    ]
    async with database.writing() as connection:
        for row in rows:
            await connection.execute(sa.insert(report_keys).values(**row))


async def test_taken_keys_are_found_and_the_span_of_their_runs(database: Database) -> None:
    await keep(database, key("a"), key("a", 1), key("a", 7), key("b"))
    await keep(database, key("a", 2), status=Standing.QUARANTINED.value)
    await keep(database, key("a", 3), outcome=Outcome.RUNNING.value)
    await keep(database, key("a", tenant="other"), max_allocated_bytes=99)
    wanted = [key("a", 1), key("a", 5), key("b"), key("c")]
    async with database.reading() as connection:
        known, ranges = await look_up(connection, wanted)
    assert {one: found.kept.report_id for one, found in known.items()} == {
        key("a", 1): "t/a/1",
        key("b"): "t/b/0",
    }
    # Ranks 0, 1 and 7: the quarantined and the running one do not count.
    assert ranges == {("t", "a"): (10, 17), ("t", "b"): (10, 10)}


async def test_postgresql_reads_the_wanted_keys_alone_however_the_table_has_grown(
    postgres: Databases,
) -> None:
    database = Database(postgres.fresh())
    wanted = [key(f"run-{n}") for n in range(100, 116)]
    try:
        # Nothing analyzes it: the planner goes on taking the table for a small one.
        await _run(database, "ALTER TABLE report_keys SET (autovacuum_enabled = off)")
        async with database.engine.connect() as connection:
            # After five times PostgreSQL keeps the plan, made for the table as it is now.
            for _ in range(8):
                await look_up(connection, wanted)
                await connection.commit()
            await _run(
                database,
                "INSERT INTO report_keys (tenant, run_id, rank, report_id, received_at, position, "
                "digest, subject_digest, status, outcome) SELECT 't', 'run-' || n, 0, n::text, "
                "now(), n, 'd', 's', 'accepted', 'completed' FROM generate_series(1, 50000) AS n",
            )
            known, _ = await look_up(connection, wanted)
            read = await connection.execute(
                sa.text(
                    "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables "
                    "WHERE relname = 'report_keys'"
                )
            )
            assert len(known) == 16
            # Each of the sixteen for itself and for its run.
            assert read.scalar_one() == 32
    finally:
        await database.close()


async def _run(database: Database, statement: str) -> None:
    async with database.writing() as connection:
        await connection.execute(sa.text(statement))
