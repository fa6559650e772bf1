"""What the database holds, against what was acknowledged."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from tests.chaos.clients import Acknowledged, Key
from tests.databases import rows_of
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import commit_clock, idempotency_keys, jobs, report_keys, reports

MEASURED = ("max_allocated_bytes", "max_reserved_bytes", "device_used_bytes", "context_bytes")
IN_BOTH = ("report_id", "received_at", "position", "digest", "status", "outcome", *MEASURED)
"""Columns that ``reports`` and ``report_keys`` share."""
TENANT = "default"

Row = sa.RowMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All that the database holds of reports."""

    reports: Sequence[Row]
    keys: Sequence[Row]
    jobs: Mapping[str, Row]
    """By their digest."""
    answers: Mapping[str, str]
    """By their idempotency key."""
    clock: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found, each in a sentence; all empty where nothing was lost."""

    stored: int
    lost: Sequence[str]
    """Acknowledged reports that are not there, or not as they were acknowledged."""
    doubled: Sequence[str]
    half: Sequence[str]
    """Rows that contradict themselves or that another row should go with and does not."""
    stray: Sequence[str]
    """Rows that nobody was told of."""

    @property
    def findings(self) -> list[str]:
        """Return everything that must not be."""
        return [*self.lost, *self.doubled, *self.half, *self.stray]


async def settings_of(database: Database) -> dict[str, str]:
    """Return how durably a connection of the service commits."""
    names = ["server_version", "fsync", "synchronous_commit", "full_page_writes"]
    ask = "SHOW {}"
    if database.is_sqlite:
        names = ["journal_mode", "synchronous"]
        ask = "PRAGMA {}"
    async with database.reading() as connection:
        return {
            name: str((await connection.execute(sa.text(ask.format(name)))).scalar_one())
            for name in names
        }


def check_durable(settings: Mapping[str, str]) -> None:
    """Fail where commits do not wait for the disk: the test would mean nothing."""
    # SQLite: 2 is FULL.
    needed = {"journal_mode": "wal", "synchronous": "2"}
    if "fsync" in settings:
        needed = dict.fromkeys(("fsync", "synchronous_commit", "full_page_writes"), "on")
    assert needed.items() <= settings.items(), f"commits are not durable: {settings}"


async def stored_in(database: Database) -> Stored:
    """Return what a database holds, read table by table.

    Raises:
        AssertionError: SQLite finds its own file damaged.
    """
    if database.is_sqlite:
        async with database.reading() as connection:
            found = (await connection.execute(sa.text("PRAGMA integrity_check"))).scalar_one()
        assert found == "ok", found
    (clock,) = await rows_of(database, commit_clock)
    return Stored(
        reports=await rows_of(database, reports),
        keys=await rows_of(database, report_keys),
        jobs={row["job_digest"]: row for row in await rows_of(database, jobs)},
        answers={row["key"]: row["answer"] for row in await rows_of(database, idempotency_keys)},
        clock=clock,
    )


def verdict(
    stored: Stored, acknowledged: Mapping[Key, Acknowledged], answers: Mapping[str, str]
) -> Verdict:
    """Hold what is stored against what was acknowledged, and against itself.

    ``answers`` are those that were given under an idempotency key.
    """
    return Verdict(
        stored=len(stored.reports),
        lost=list(_lost(stored, acknowledged)),
        doubled=list(_doubled(stored)),
        half=[
            *_half(stored),
            *_apart(stored),
            *_out_of_order(stored),
            *_otherwise(stored, answers),
        ],
        stray=[
            f"{_key(row)} is stored and was never acknowledged"
            for row in (*stored.reports, *stored.keys)
            if _key(row) not in acknowledged or row["tenant"] != TENANT
        ],
    )


def _key(row: Row) -> Key:
    return row["run_id"], row["rank"]


def _lost(stored: Stored, acknowledged: Mapping[Key, Acknowledged]) -> Iterator[str]:
    rows = {_key(row): row for row in stored.reports}
    for key, told in acknowledged.items():
        row = rows.get(key)
        if row is None:
            yield f"{key} was acknowledged and is not there"
        elif row["report_id"] != told.report_id:
            yield f"{key} was acknowledged as {told.report_id} and is {row['report_id']}"
        elif _content(row, stored.jobs) != told.report:
            yield f"{key} was acknowledged as {told.report} and holds {row['document']}"
        elif (row["status"] == "quarantined") != told.is_quarantined:
            yield f"{key} is {row['status']}"


def _content(row: Row, known_jobs: Mapping[str, Row]) -> dict[str, Any]:
    """Return the report as it was sent."""
    report: dict[str, Any] = json.loads(row["document"])
    if row["job_digest"] is not None and report["job"] == {"sha256": row["job_digest"]}:
        job = known_jobs.get(row["job_digest"])
        report["job"] = None if job is None else json.loads(job["document"])
    return report


def _doubled(stored: Stored) -> Iterator[str]:
    for name in ("report_id", "position"):
        counts = Counter(row[name] for row in stored.reports)
        yield from (f"{name} {one} is there {n} times" for one, n in counts.items() if n > 1)
    counts = Counter(_key(row) for row in stored.reports)
    yield from (f"{one} is there {n} times" for one, n in counts.items() if n > 1)


def _half(stored: Stored) -> Iterator[str]:
    for row in stored.reports:
        if _sha256(row["document"]) != row["digest"]:
            yield f"{_key(row)} has not the digest of its document"
        report = json.loads(row["document"])
        if (report["run_id"], report["rank"], report["outcome"]) != (*_key(row), row["outcome"]):
            yield f"{_key(row)} is not the report in its document"
        if any(row[name] != report["measured"].get(name) for name in MEASURED):
            yield f"{_key(row)} has other bytes than its document"
        if row["first_received_at"] > row["received_at"]:
            yield f"{_key(row)} was received before it first was"
        if "job" in report and row["job_digest"] not in stored.jobs:
            yield f"{_key(row)} has job {row['job_digest']}, which is not there"
    for digest, job in stored.jobs.items():
        if _sha256(job["document"]) != digest:
            yield f"job {digest} has not the digest of its document"


def _apart(stored: Stored) -> Iterator[str]:
    """Yield where reports and their keys do not say the same."""
    by_report = {_key(row): row for row in stored.reports}
    by_key = {_key(row): row for row in stored.keys}
    for one in by_report.keys() ^ by_key.keys():
        yield f"{one} is in only one of reports and report_keys"
    for one in by_report.keys() & by_key.keys():
        for name in IN_BOTH:
            if by_report[one][name] != by_key[one][name]:
                yield f"{one}: {name} is {by_report[one][name]}, its key says {by_key[one][name]}"


def _out_of_order(stored: Stored) -> Iterator[str]:
    ordered = sorted(stored.reports, key=lambda row: int(row["position"]))
    for before, after in pairwise(ordered):
        if before["received_at"] > after["received_at"]:
            yield f"position {after['position']} was received before {before['position']}"
    if ordered and ordered[-1]["position"] > stored.clock["position"]:
        yield "the clock stands before the last position"


def _otherwise(stored: Stored, answers: Mapping[str, str]) -> Iterator[str]:
    """Yield the idempotency keys under which not the answer is kept that was given."""
    for key in stored.answers.keys() | answers.keys():
        kept, given = stored.answers.get(key), answers.get(key)
        if kept != given:
            yield f"under key {key} the answer {given} was given and {kept} is kept"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
