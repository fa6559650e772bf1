"""A quarantined report made to count, by somebody who answers for it."""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.calibration.report import Standing
from vramgate.calibration.stored_report import StoredReport
from vramgate.errors import DomainError
from vramgate.persistence import audit
from vramgate.persistence.report_lists import whole_report
from vramgate.persistence.reports import take_turn
from vramgate.persistence.tables import report_keys, reports


class ReportNotFoundError(DomainError):
    """The tenant has no report of this id."""

    code = "not_found"


class NotQuarantinedError(DomainError):
    """The report counts already."""

    code = "not_quarantined"


class JobUnknownError(DomainError):
    """Without an estimate of its job a report teaches nothing, whoever vouches for it."""

    code = "job_unknown"


async def release(
    connection: AsyncConnection, *, tenant: str, report_id: str, actor: str, reason: str
) -> None:
    """Accept a quarantined report; it moves to the end, as everything that changes does.

    Its doubts stay with it; who released it, when and why is in the audit trail.

    Raises:
        ReportNotFoundError: the tenant has no such report.
        NotQuarantinedError: it is accepted already.
        JobUnknownError: there is no estimate to hold it against.
    """
    # Before anything is read: nobody changes it from here to the commit.
    received_at, position = await take_turn(connection, 1)
    found = await whole_report(connection, tenant=tenant, report_id=report_id)
    if found is None:
        raise not_found(report_id)
    _check(found)
    moved = {"status": Standing.ACCEPTED.value, "received_at": received_at, "position": position}
    # On PostgreSQL this takes the row to the partition of the new time.
    await connection.execute(
        sa.update(reports)
        .where(reports.c.received_at == found.received_at, reports.c.position == found.position)
        .values(moved)
    )
    await connection.execute(
        sa.update(report_keys).where(report_keys.c.report_id == report_id).values(moved)
    )
    await audit.append(
        connection,
        tenant=tenant,
        actor=actor,
        action="report.release",
        subject=report_id,
        detail={
            "reason": reason,
            "run_id": found.run_id,
            "rank": found.rank,
            "doubts": [one.code for one in found.reasons],
        },
    )


def not_found(report_id: str) -> ReportNotFoundError:
    """Return the error; the same whether nobody has such a report or another tenant does."""
    return ReportNotFoundError(f"There is no report {report_id!r}.")


def _check(found: StoredReport) -> None:
    if found.status is not Standing.QUARANTINED:
        raise NotQuarantinedError(f"Report {found.report_id} is {found.status.value} already.")
    if found.estimate is None:
        doubts = " ".join(one.message for one in found.reasons)
        raise JobUnknownError(
            f"Report {found.report_id} has no estimate to be held against. {doubts}".rstrip(),
            hint="Report the run again with its job under a new run_id, once the catalog knows it.",
        )
