"""Reports accepted per second over HTTP on PostgreSQL, beside a bare endpoint in the same run."""

import asyncio
import json
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from tests.bench.harness import Comparison, in_turn
from tests.bench.load import post_for
from tests.bench.processes import bare_endpoint, service
from tests.databases import postgres_server
from tests.reports import a_report
from vramgate.persistence.engine import Database

ROUND_SECONDS = 3.0
MANY = 64
FEW = 16
BATCH_CONNECTIONS = 4
BATCH = 100
FULL_ROWS = 10_000_000
FILL_ROWS = 500_000


def reports_of_many_trainers() -> Comparison:
    """Compare one row a request by a bare endpoint with our reports, singly and a hundred at once."""
    return _beside_bare(MANY)


def reports_of_few_trainers() -> Comparison:
    """The same where few wait together, so that few share a commit."""
    return _beside_bare(FEW)


def _beside_bare(connections: int) -> Comparison:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vg"))
        server = stack.enter_context(postgres_server(Path(folder)))
        bare = stack.enter_context(bare_endpoint(server.fresh()))
        ours = stack.enter_context(service(server.fresh()))
        return _compared(
            f"Reports kept, {connections} connections, PostgreSQL, one process",
            {
                "bare endpoint, one row a request": (bare, 1),
                "POST /v1/reports, singly": (ours, 1),
                f"POST /v1/reports, {BATCH} at once": (ours, BATCH),
            },
            connections,
        )


def reports_beside_ten_million() -> Comparison:
    """Compare an empty database with one that holds ten million reports, singly and in batches."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vg"))
        server = stack.enter_context(postgres_server(Path(folder)))
        full = server.fresh()
        asyncio.run(_fill(full))
        empty_url = stack.enter_context(service(server.fresh()))
        full_url = stack.enter_context(service(full))
        return _compared(
            f"Reports kept, {MANY} connections, with {FULL_ROWS:,} in the table and with none",
            {
                "none, singly": (empty_url, 1),
                "ten million, singly": (full_url, 1),
                f"none, {BATCH} at once": (empty_url, BATCH),
                f"ten million, {BATCH} at once": (full_url, BATCH),
            },
            MANY,
        )


def _compared(title: str, ways: dict[str, tuple[str, int]], connections: int) -> Comparison:
    timings = in_turn(
        {
            name: partial(_seconds_a_report, url, rows, connections=connections)
            for name, (url, rows) in ways.items()
        }
    )
    return Comparison(title=title, unit="report", timings=timings)


async def _fill(url: str) -> None:
    """Put ten million reports of a year, a million runs of ten ranks, where reports are kept."""
    database = Database(url)
    try:
        for first in range(0, FULL_ROWS, FILL_ROWS):
            async with database.writing() as connection:
                await connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
                rows = {"first": first, "last": first + FILL_ROWS - 1, "all": FULL_ROWS}
                await connection.execute(_FILL_REPORTS, rows)
                await connection.execute(_FILL_KEYS, rows)
        async with database.writing() as connection:
            await connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
            await connection.execute(
                sa.text("UPDATE commit_clock SET position = position + 100000000")
            )
            await connection.execute(sa.text("ANALYZE"))
    finally:
        await database.close()


# A row every three seconds until now, so that all but the last months lie in the default partition
# and this month's has its share.
_ROW = """
  SELECT n, md5(n::text) || md5((n + 1)::text) AS digest, 'full-' || n / 10 AS run_id,
         (n % 10)::int AS rank,
         now() - make_interval(secs => 3.0 * ((:all)::bigint - n)) AS at,
         '01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS report_id,
         20000000000 + n AS bytes
  FROM generate_series((:first)::bigint, (:last)::bigint) AS n
"""
_FILL_REPORTS = sa.text(f"""
INSERT INTO reports (received_at, position, report_id, tenant, run_id, rank, submitter, status,
  reasons, first_received_at, job_digest, model, outcome, max_allocated_bytes, digest, document)
SELECT at, n + 1, report_id, 'default', run_id, rank, 'local', 'accepted', '[]', at, digest,
  'meta-llama/Llama-3.1-8B', 'completed', bytes, digest, repeat(digest, 8)
FROM ({_ROW}) AS row
""")  # noqa: S608 constants of this file
_FILL_KEYS = sa.text(f"""
INSERT INTO report_keys (tenant, run_id, rank, report_id, received_at, position, digest,
  subject_digest, status, outcome, max_allocated_bytes)
SELECT 'default', run_id, rank, report_id, at, n + 1, digest, digest, 'accepted', 'completed', bytes
FROM ({_ROW}) AS row
""")  # noqa: S608 constants of this file


def _seconds_a_report(url: str, rows: int, turn: int, *, connections: int) -> float:
    done = post_for(
        f"{url}/v1/reports",
        lambda number: _body(f"{turn}-{rows}-{number}", rows),
        connections=connections if rows == 1 else BATCH_CONNECTIONS,
        seconds=ROUND_SECONDS,
        first=0,
    )
    return 1 / (done.per_second * rows)


_TEMPLATE = json.dumps(a_report(run_id="RUN", rank=987654321))


def _body(run: str, rows: int) -> bytes:
    one = _TEMPLATE.replace("RUN", f"bench-{run}")
    items = [one.replace("987654321", str(rank)) for rank in range(rows)]
    return f'{{"reports":[{",".join(items)}]}}'.encode()
