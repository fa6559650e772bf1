"""Reports written: each once a tenant, run and rank, whatever is sent again.

All writers of a database take turns at ``commit_clock``: what they decide on cannot change before
they commit, and positions become visible in order.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.calibration.plausibility import rank_doubts
from vramgate.calibration.report import (
    Doubt,
    KeptReport,
    Outcome,
    Receipt,
    Report,
    ReportKey,
    Standing,
    conflict_of,
    receipt_of,
)
from vramgate.persistence.bulk_insert import insert_rows
from vramgate.persistence.decision_runs import OtherRunError, RunsOfDecisions
from vramgate.persistence.engine import is_outage
from vramgate.persistence.idempotency import AnsweredKeys, Claim, StoredAnswer
from vramgate.persistence.identifiers import time_ordered_id
from vramgate.persistence.report_keys import MEASURED, Known, Place, Run, look_up
from vramgate.persistence.tables import commit_clock, jobs, report_keys, reports

_log = logging.getLogger("vramgate.reports")

JOB_FORMAT_VERSION = 1
"""Of ``jobs.document``: the job of DESIGN section 2 as it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of one report; without a receipt nothing: it was refused, or its row was."""

    report_id: str | None
    receipt: Receipt | None
    reasons: tuple[Doubt, ...]
    refusal: OtherRunError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """The reports of one request, and the idempotency key it came under."""

    reports: tuple[Report, ...]
    claim: Claim | None = None
    answer: Callable[[Sequence[Recorded]], StoredAnswer]
    """Makes the answer that is kept under the key, in the same transaction."""


@dataclass(slots=True)
class _Work:
    """What one commit changes; one entry a key, the last one wins."""

    received_at: datetime
    position: int
    known: dict[ReportKey, Known]
    ranges: dict[Run, tuple[int, int]]
    """Lowest and highest peak of the settled, accepted ranks of a run."""
    runs: RunsOfDecisions
    inserted: dict[ReportKey, tuple[Report, Recorded, int]] = field(default_factory=dict)
    raised: dict[ReportKey, tuple[Report, Recorded, int, Place]] = field(default_factory=dict)


async def write_submissions(
    connection: AsyncConnection, submissions: Sequence[Submission]
) -> list[StoredAnswer]:
    """Write the reports of several requests and return the answer to each, in order."""
    received_at, position = await take_turn(connection, sum(len(s.reports) for s in submissions))
    claims = [one.claim for one in submissions if one.claim is not None]
    answered = await AnsweredKeys.of(connection, claims, received_at)
    new = [r for s in submissions if answered.under(s.claim) is None for r in s.reports]
    work = await _look(connection, new, received_at, position)
    answers = []
    for submission in submissions:
        answer = answered.under(submission.claim)
        if answer is None:
            answer = submission.answer([_decide(work, one) for one in submission.reports])
            answered.add(submission.claim, answer)
        answers.append(answer)
    await _write(connection, work)
    await answered.keep(connection)
    return answers


async def write_submission_row_by_row(
    connection: AsyncConnection, submissions: Sequence[Submission]
) -> list[StoredAnswer]:
    """Write requests whose group failed: a row that the database refuses fails alone."""
    return [await _row_by_row(connection, submission) for submission in submissions]


async def _row_by_row(connection: AsyncConnection, submission: Submission) -> StoredAnswer:
    received_at, position = await take_turn(connection, len(submission.reports))
    claims = [submission.claim] if submission.claim else []
    answered = await AnsweredKeys.of(connection, claims, received_at)
    answer = answered.under(submission.claim)
    if answer is None:
        recorded = [
            await _alone(connection, report, received_at, position + offset)
            for offset, report in enumerate(submission.reports)
        ]
        answer = submission.answer(recorded)
        answered.add(submission.claim, answer)
        await answered.keep(connection)
    return answer


async def _alone(
    connection: AsyncConnection, report: Report, received_at: datetime, position: int
) -> Recorded:
    try:
        async with connection.begin_nested():
            work = await _look(connection, [report], received_at, position)
            recorded = _decide(work, report)
            await _write(connection, work)
    except DBAPIError as error:
        if is_outage(error):
            raise
        _log.exception("the database refused a report")
        return Recorded(report_id=None, receipt=None, reasons=())
    return recorded


async def take_turn(connection: AsyncConnection, rows: int) -> tuple[datetime, int]:
    """Wait for other writers, then return the time of receipt and the first free position."""
    given = {"rows": rows, "now": datetime.now(UTC)}
    row = (await connection.execute(_tick(connection.dialect.name), given)).one()
    return row.received_at, row.position - rows + 1


# Statements are built once: building one takes longer than PostgreSQL takes to answer it.


@cache
def _tick(dialect: str) -> sa.UpdateBase:
    clock = commit_clock.c
    now = sa.bindparam("now", type_=clock.received_at.type)
    if dialect == "postgresql":
        # The database's own clock, as the replicas' may differ; ours where it is ahead.
        later = sa.func.greatest(clock.received_at, sa.func.clock_timestamp())
    else:
        later = sa.func.max(clock.received_at, now, type_=clock.received_at.type)
    return (
        sa.update(commit_clock)
        .values(
            position=clock.position + sa.bindparam("rows", type_=sa.BigInteger), received_at=later
        )
        .returning(clock.position, clock.received_at)
    )


async def _look(
    connection: AsyncConnection, new: Sequence[Report], received_at: datetime, position: int
) -> _Work:
    """Return what is kept under the keys of the reports, their runs and their decisions."""
    keys = {one.key for one in new}
    known, ranges = await look_up(connection, keys) if keys else ({}, {})
    return _Work(received_at, position, known, ranges, await RunsOfDecisions.of(connection, new))


def _is_compared(report: Report) -> bool:
    """Return whether the report's peak says what the other ranks of its run must have."""
    return (
        report.ranks_hold_equal_shares
        and report.outcome is not Outcome.RUNNING
        and report.measured.max_allocated_bytes is not None
    )


def _decide(work: _Work, report: Report) -> Recorded:
    """Return what becomes of the report, and note in ``work`` what that changes."""
    refusal = work.runs.refusal_of(report)
    if refusal is not None:
        return Recorded(report_id=None, receipt=None, reasons=(), refusal=refusal)
    recorded = _receive(work, report)
    if recorded.receipt is not Receipt.CONFLICT:
        # Something of the run is kept: it came now, or had come before.
        work.runs.bind(report)
    return recorded


def _receive(work: _Work, report: Report) -> Recorded:
    """Return what becomes of a report that its decision does not stand against."""
    found = work.known.get(report.key)
    kept = None if found is None else found.kept
    run = (report.key.tenant, report.key.run_id)
    allocated = report.measured.max_allocated_bytes
    doubts = report.doubts
    if _is_compared(report):
        doubts += tuple(rank_doubts(allocated, work.ranges.get(run), report.key.run_id))
    receipt = receipt_of(report, kept, is_doubted=bool(doubts))
    if receipt is Receipt.DUPLICATE and kept is not None:
        return Recorded(report_id=kept.report_id, receipt=receipt, reasons=doubts)
    if receipt is Receipt.CONFLICT and kept is not None:
        reason = conflict_of(report, kept)
        return Recorded(report_id=kept.report_id, receipt=receipt, reasons=(reason,))
    report_id = time_ordered_id() if kept is None else kept.report_id
    recorded = Recorded(report_id=report_id, receipt=receipt, reasons=doubts)
    _note(work, report, recorded, found)
    if _is_compared(report) and not doubts and allocated is not None:
        low, high = work.ranges.get(run, (allocated, allocated))
        work.ranges[run] = (min(low, allocated), max(high, allocated))
    return recorded


def _note(work: _Work, report: Report, recorded: Recorded, found: Known | None) -> None:
    position, work.position = work.position, work.position + 1
    if found is None or found.place is None:
        work.inserted[report.key] = (report, recorded, position)
    else:
        work.raised[report.key] = (report, recorded, position, found.place)
    place = None if found is None else found.place
    kept = KeptReport(
        report_id=str(recorded.report_id),
        digest=report.digest,
        subject_digest=report.subject_digest,
        standing=_standing(recorded),
        outcome=report.outcome,
        measured=report.measured,
    )
    work.known[report.key] = Known(kept, place)


async def _write(connection: AsyncConnection, work: _Work) -> None:
    await work.runs.write(connection, work.received_at)
    if not work.inserted and not work.raised:
        return
    changed = [*work.inserted.values(), *(one[:3] for one in work.raised.values())]
    first_received: dict[ReportKey, datetime] = {}
    for key, (_, _, _, place) in work.raised.items():
        first_received[key] = await _take_away(connection, place)
    rows = {
        reports: [_report_row(work, *one, first_received) for one in changed],
        report_keys: [_key_row(work, *one) for one in work.inserted.values()],
        jobs: _job_rows(report for report, _, _ in changed),
    }
    await insert_rows(connection, rows)
    for report, recorded, position, _ in work.raised.values():
        row = _key_row(work, report, recorded, position)
        keys = report_keys.c
        await connection.execute(
            sa.update(report_keys)
            .where(keys.tenant == row["tenant"], keys.run_id == row["run_id"])
            .where(keys.rank == row["rank"])
            .values(row)
        )


def _job_rows(changed: Iterable[Report]) -> list[dict[str, Any]]:
    rows = {
        (one.key.tenant, one.job_digest): {
            "tenant": one.key.tenant,
            "job_digest": one.job_digest,
            "format_version": JOB_FORMAT_VERSION,
            "document": one.job_document,
        }
        for one in changed
        if one.job_digest is not None
    }
    return list(rows.values())


async def _take_away(connection: AsyncConnection, place: Place) -> datetime:
    """Delete the row at a place, for the raised one that follows; return when it first came."""
    gone = await connection.execute(
        sa.delete(reports)
        .where(reports.c.received_at == place.received_at, reports.c.position == place.position)
        .returning(reports.c.first_received_at)
    )
    moment: datetime = gone.scalar_one()
    return moment


def _standing(recorded: Recorded) -> Standing:
    return Standing.QUARANTINED if recorded.reasons else Standing.ACCEPTED


def _key_row(work: _Work, report: Report, recorded: Recorded, position: int) -> dict[str, Any]:
    return {
        "tenant": report.key.tenant,
        "run_id": report.key.run_id,
        "rank": report.key.rank,
        "report_id": recorded.report_id,
        "received_at": work.received_at,
        "position": position,
        "digest": report.digest,
        "subject_digest": report.subject_digest,
        "status": _standing(recorded).value,
        "outcome": report.outcome.value,
        **{name: getattr(report.measured, name) for name in MEASURED},
    }


def _report_row(
    work: _Work,
    report: Report,
    recorded: Recorded,
    position: int,
    first_received: dict[ReportKey, datetime],
) -> dict[str, Any]:
    estimated = report.estimated
    key_row = _key_row(work, report, recorded, position)
    del key_row["subject_digest"]
    return {
        **key_row,
        "submitter": report.submitter,
        "reasons": json.dumps([asdict(one) for one in recorded.reasons], ensure_ascii=False),
        "first_received_at": first_received.get(report.key, work.received_at),
        "measured_at": report.measured_at,
        "job_digest": report.job_digest,
        "model": report.model,
        "accelerator": report.accelerator,
        "accelerator_total_bytes": report.accelerator_total_bytes,
        "estimated_allocated_bytes": estimated and estimated.allocated_bytes,
        "estimated_required_bytes": estimated and estimated.required_bytes,
        "estimated_reserved_bytes": estimated and estimated.reserved_bytes,
        "estimated_device_bytes": estimated and estimated.device_bytes,
        "model_version": estimated and estimated.model_version,
        "step_seconds": report.step_seconds,
        "tokens_per_second": report.tokens_per_second,
        "document": report.document,
    }
