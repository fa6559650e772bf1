"""Decisions where ten million are stored, beside an empty database, in one run."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import sqlalchemy as sa

from tests.bench.admissions import MANY, WAYS, question_seconds
from tests.bench.asked import Asked, admitting
from tests.bench.harness import Comparison, Latencies, Latency, Shown, in_turn
from tests.bench.processes import postgres
from vramgate.persistence.engine import Database

FULL_ROWS = 10_000_000
FILL_ROWS = 500_000
JOBS = 100_000
"""Distinct ones that the stored decisions are about."""
FULL_SHARE = 0.9
"""Of the throughput with nothing stored, at least."""
PAGES = 30
"""Each list is asked for so often."""


def admissions_beside_ten_million() -> list[Shown]:
    """Compare an empty database with one that holds ten million decisions; then list those."""
    with postgres() as server, ExitStack() as stack:
        full_url = server.fresh()
        asyncio.run(_fill(full_url))
        empty = stack.enter_context(admitting(server.fresh()))
        full = stack.enter_context(admitting(full_url))
        compared = [_compared(kind, empty, full) for kind in WAYS]
        return [*compared, _lists(full)]


def _compared(kind: str, empty: Asked, full: Asked) -> Comparison:
    none, many = in_turn(
        {
            "none stored": partial(question_seconds, empty, WAYS[kind], MANY),
            "ten million stored": partial(question_seconds, full, WAYS[kind], MANY),
        }
    )
    return Comparison(
        title=f"Decisions kept, {MANY} connections, {kind}",
        unit="question",
        timings=[none, replace(many, budget_seconds=none.seconds / FULL_SHARE)],
        notes=[
            f"Throughput with ten million: {none.seconds / many.seconds:.2f} of that with none."
        ],
    )


def _lists(full: Asked) -> Latencies:
    with full.client() as client:
        rows = [
            Latency(name=name, seconds=[_page_seconds(client, asked) for _ in range(PAGES)])
            for name, asked in _selections()
        ]
    return Latencies(
        title="GET /v1/admissions, the first page of 50, ten million stored", rows=rows
    )


def _selections() -> Iterator[tuple[str, Mapping[str, str]]]:
    now = datetime.now(UTC)
    month = {
        "since": (now - timedelta(days=60)).isoformat(),
        "until": (now - timedelta(days=30)).isoformat(),
    }
    yield "the newest", {}
    yield "the oldest", {"order": "oldest"}
    yield "of a month", month
    yield "one external_id", {"external_id": f"full-{FULL_ROWS // 2}"}
    yield "a verdict of one in ten", {"verdict": "deny"}
    yield "a submitter of one in a thousand, of a month", {"submitter": "user-7", **month}
    yield "a queue that none is of", {"queue": "elsewhere"}


def _page_seconds(client: httpx.Client, asked: Mapping[str, str]) -> float:
    started = time.perf_counter()
    client.get("/v1/admissions", params=asked).raise_for_status()
    return time.perf_counter() - started


async def _fill(url: str) -> None:
    """Put ten million decisions of a year on a hundred thousand jobs where decisions are kept."""
    database = Database(url)
    try:
        # A key that is sorted once takes minutes less than one that grows in no order.
        await _execute(database, "ALTER TABLE decision_keys DROP CONSTRAINT pk_decision_keys")
        for table, name in (("admission_subjects", "subject"), ("admission_answers", "answer")):
            await _execute(database, _FILL_DOCUMENTS.format(table=table, name=name), jobs=JOBS)
        for first in range(0, FULL_ROWS, FILL_ROWS):
            rows = {"first": first, "last": first + FILL_ROWS - 1, "all": FULL_ROWS, "jobs": JOBS}
            await _execute(database, _FILL_DECISIONS, **rows)
        await _execute(
            database,
            "INSERT INTO decision_keys SELECT tenant, decision_id, decided_at FROM decisions",
        )
        await _execute(
            database,
            "ALTER TABLE decision_keys "
            "ADD CONSTRAINT pk_decision_keys PRIMARY KEY (tenant, decision_id)",
        )
        await _tidy(database)
    finally:
        await database.close()


async def _execute(database: Database, statement: str, **given: int) -> None:
    async with database.writing() as connection:
        await connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        await connection.execute(sa.text(statement), given)


async def _tidy(database: Database) -> None:
    """Do now what PostgreSQL would begin by itself under the load: a year's table is past it."""
    async with database.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in ("SET statement_timeout = 0", "VACUUM ANALYZE", "CHECKPOINT"):
            await connection.exec_driver_sql(statement)


_FILL_DOCUMENTS = """
INSERT INTO {table} (tenant, {name}_digest, format_version, document)
SELECT 'team-a', md5('{name}' || n) || md5(n::text), 1,
  json_build_object('text', repeat(md5(n::text), 20))::text
FROM generate_series(1, (:jobs)::bigint) AS n
"""
# A row every three seconds until now, so that all but the last months lie in the default partition
# and this month's has its share. Its id is a digest's, as under a scheduler's own id.
_FILL_DECISIONS = """
INSERT INTO decisions (decided_at, decision_id, tenant, recorded_at, caller, cluster, queue, channel,
  submitter, external_id, mode, verdict, decision, reason_code, oom_probability, required_bytes,
  usable_bytes, model, accelerator, policy_version, calibration_version, model_version,
  inputs_digest, subject_digest, answer_digest)
SELECT at, md5(n::text)::uuid::text, 'team-a', at, 'trainer', 'hpc-1', 'gpu', 'slurm',
  'user-' || n % 1000, 'full-' || n, 'warn', verdict, replace(verdict, 'deny', 'warn'),
  CASE verdict WHEN 'deny' THEN 'does_not_fit' ELSE 'fits' END, 0.001, 20000000000 + n,
  83000000000, 'meta-llama/Llama-3.1-8B', 'a100-sxm4-80gb', 'built-in', 'uncalibrated', '1',
  md5('inputs' || job) || md5(job::text), md5('subject' || job) || md5(job::text),
  md5('answer' || job) || md5(job::text)
FROM (
  SELECT n, 1 + n % (:jobs)::bigint AS job,
    CASE WHEN n % 10 = 0 THEN 'deny' ELSE 'allow' END AS verdict,
    now() - make_interval(secs => 3.0 * ((:all)::bigint - n)) AS at
  FROM generate_series((:first)::bigint, (:last)::bigint) AS n
) AS row
"""
