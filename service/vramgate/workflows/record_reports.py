"""Reports in, kept durably, one answer a request."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from vramgate.persistence.engine import Database
from vramgate.persistence.group_commit import GroupCommit
from vramgate.persistence.idempotency import StoredAnswer
from vramgate.persistence.reports import (
    Submission,
    write_submission_row_by_row,
    write_submissions,
)

MOST_ROWS_A_COMMIT = 2_000
MOST_WAITING_ROWS = 50_000
"""Some hundred megabytes of reports; beyond it trainers are asked to come again."""


class ReportIntake:
    """Where reports are handed in; an async context manager around the service's life."""

    def __init__(self, database: Database) -> None:
        self._writer: GroupCommit[Submission, StoredAnswer] = GroupCommit(
            database,
            write_submissions,
            write_alone=write_submission_row_by_row,
            most_rows=MOST_ROWS_A_COMMIT,
            most_waiting_rows=MOST_WAITING_ROWS,
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the writer."""
        self._task = asyncio.create_task(self._writer.run(), name="report writer")
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Write what was taken, then stop."""
        self._writer.close()
        if self._task is not None:
            with suppress(asyncio.CancelledError):
                await self._task

    async def take(self, submission: Submission) -> StoredAnswer:
        """Return the answer once everything in the submission is committed.

        Raises:
            DatabaseUnavailableError: the database does not answer; nothing is acknowledged.
            OverloadedError: too much waits already.
        """
        return await self._writer.submit(submission, rows=len(submission.reports))
