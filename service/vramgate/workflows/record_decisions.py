"""Decisions in, each kept: as a row, or in the journal until the database has it.

An answer never waits longer than its bound for the database. Once that is known to be away, answers
do not wait for it at all; it is asked now and then, and given what the journal holds when it is back.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

from vramgate.admission.record import KeptDecision
from vramgate.errors import DomainError, shortened
from vramgate.persistence.decision_codec import (
    UnreadableDecisionError,
    decode_decision,
    encode_decision,
)
from vramgate.persistence.decisions import write_decisions
from vramgate.persistence.engine import Database, DatabaseUnavailableError, is_about_values
from vramgate.persistence.group_commit import (
    GroupCommit,
    OverloadedError,
    StoppingError,
    in_one_transaction,
)
from vramgate.persistence.journal import Journal, JournalError
from vramgate.persistence.journal_folder import left_behind, prepare_folder
from vramgate.telemetry import logger
from vramgate.workflows.database_outage import Outage

MOST_ROWS_A_COMMIT = 500
MOST_WAITING_ROWS = 5_000
"""Several seconds of questions; beyond it the journal takes them."""
WRITE_SECONDS = 3.0
"""A commit takes milliseconds. One that takes this long hangs, and would hold up all that follow."""
FAIR_SECONDS = 0.05
"""A bound that a commit overruns for no fault of the database says nothing of it."""
REPLAY_SECONDS = 5.0
"""The same for a batch of the journal, of which nobody waits for an answer."""
PROBE_SECONDS = 1.0
LOOK_SECONDS = 0.5
"""Between two looks whether the database is back, and whether another process left a journal."""
MOST_REASON_CHARACTERS = 300

_log = logger("vramgate.decisions")


class Kept(StrEnum):
    """Where a decision is when its answer goes out."""

    STORED = "stored"
    JOURNALLED = "journalled"
    LOST = "lost"
    """Nowhere, as far as is known: neither the database nor the journal's disk took it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """What the journal holds, and what became of what it held."""

    waiting: int
    """Decisions of this process that the database is yet to get."""
    waiting_bytes: int
    """Of all processes that use the folder."""
    dropped: int
    """Decisions that were kept nowhere."""
    damaged: int
    """Segments kept aside, as not all of them could be read."""
    refused: int
    """Decisions that neither this version nor its database can take; the journal still has them."""
    replayed: int
    database_away: bool


class DecisionIntake:
    """Where decisions are handed in; an async context manager around the service's life."""

    def __init__(
        self, database: Database, journal: Journal, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._journal = journal
        self._outage = Outage(clock=clock)
        # SQLite ends a wait by itself, and its driver does not give up one that is under way.
        self._bounded = not database.is_sqlite
        self._writer: GroupCommit[KeptDecision, bool] = GroupCommit(
            database,
            write_decisions,
            write_alone=write_decisions,
            most_rows=MOST_ROWS_A_COMMIT,
            most_waiting_rows=MOST_WAITING_ROWS,
            most_seconds=WRITE_SECONDS if self._bounded else None,
            is_one_statement=True,
        )
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._underway = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def state(self) -> JournalState:
        """Return the journal's state now."""
        journal = self._journal
        return JournalState(
            waiting=journal.waiting,
            waiting_bytes=journal.waiting_bytes,
            dropped=journal.dropped,
            damaged=journal.damaged,
            refused=journal.refused,
            replayed=journal.replayed,
            database_away=self._outage.is_on,
        )

    async def __aenter__(self) -> Self:
        """Start; what a process before left is replayed as soon as the database answers.

        Raises:
            InvalidJournalFolderError: the journal cannot be written.
        """
        prepare_folder(self._journal.folder)
        for folder in left_behind(self._journal.folder):
            _log.warning("a journal of another database waits", folder=str(folder))
        self._tasks = [
            asyncio.create_task(self._writer.run(), name="decision writer"),
            asyncio.create_task(self._tend_journal(), name="journal replay"),
        ]
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Write or journal what was taken, then leave the journal to the next process."""
        self._stop.set()
        self._writer.close()
        await asyncio.gather(*self._tasks)
        await self._idle.wait()
        await self._journal.close()

    async def keep(self, decision: KeptDecision, *, within_seconds: float) -> Kept:
        """Keep the decision: in the database, if that takes no longer than the bound, or on disk."""
        with self._counted():
            if not self._outage.is_on and await self._is_stored(decision, within_seconds):
                return Kept.STORED
            return await self._journalled(decision)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count the decisions whose fate is open: the journal is not closed before."""
        self._underway += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._underway -= 1
            if not self._underway:
                self._idle.set()

    async def _is_stored(self, decision: KeptDecision, within_seconds: float) -> bool:
        try:
            async with asyncio.timeout(within_seconds):
                await self._writer.submit(decision)
        except TimeoutError:
            # It may be stored after all; then the journal brings it a second time, which is nothing.
            if within_seconds >= FAIR_SECONDS:
                self._outage.add_overrun()
        except DatabaseUnavailableError as error:
            self._outage.begin(error.message)
        except (OverloadedError, StoppingError):
            pass
        except Exception as error:  # noqa: BLE001 a verdict is not withheld for a fault in its record
            reason = _in_words(error)
            _log.error("a decision was refused", decision_id=decision.decision_id, reason=reason)
            if not is_about_values(error):
                self._outage.begin(reason)
        else:
            self._outage.add_commit()
            return True
        return False

    async def _journalled(self, decision: KeptDecision) -> Kept:
        try:
            await self._journal.append([encode_decision(decision)])
        except JournalError as error:
            _log.error(
                "a decision is lost",
                decision_id=decision.decision_id,
                reason=error.message,
                dropped=self._journal.dropped,
            )
            return Kept.LOST
        return Kept.JOURNALLED

    async def _tend_journal(self) -> None:
        known = None
        while not self._stop.is_set():
            trouble = await self._trouble_of_look()
            if trouble not in {None, known}:
                _log.error("journal not replayed", reason=trouble)
            known = trouble
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), LOOK_SECONDS)

    async def _trouble_of_look(self) -> str | None:
        """Look once, and return what went wrong; answers do not depend on it."""
        try:
            await self._look()
        except StoppingError:
            pass
        except DatabaseUnavailableError as error:
            self._outage.begin(error.message)
        except JournalError as error:
            # The database may be back all the same.
            if await self._database.answers(within_seconds=PROBE_SECONDS):
                self._outage.end()
            return error.message
        except Exception as error:  # noqa: BLE001 tried again
            return _in_words(error)
        return None

    async def _look(self) -> None:
        """Take over what processes left that ended, and replay what there is, if that can be."""
        await self._journal.adopt()
        if not self._outage.is_on and not self._journal.waiting:
            return
        if not await self._database.answers(within_seconds=PROBE_SECONDS):
            return
        replayed = await self._journal.replay(self._write_back)
        self._outage.end()
        if replayed:
            _log.info("journal replayed", decisions=replayed)

    async def _write_back(self, records: Sequence[bytes]) -> list[bytes]:
        """Write journalled decisions; return the records that can never be written as they are."""
        if self._stop.is_set():
            raise StoppingError("The service is stopping; the rest stays in the journal.")
        readable = {}
        refused = []
        for record in records:
            try:
                readable[record] = decode_decision(record)
            except UnreadableDecisionError as error:
                _log.error("a journalled decision is not read", reason=error.message)
                refused.append(record)
        refused += await self._unwritable(readable)
        # Answers need not wait until the whole journal is replayed.
        self._outage.end()
        return refused

    async def _unwritable(self, decisions: dict[bytes, KeptDecision]) -> list[bytes]:
        """Write the decisions; return the records of those whose very own fault it is if not."""
        try:
            await self._written(list(decisions.values()))
        except Exception as error:
            if isinstance(error, DatabaseUnavailableError) or not is_about_values(error):
                raise
            if len(decisions) == 1:
                _log.error("a journalled decision was refused", reason=_in_words(error))
                return list(decisions)
            alone = [{record: decision} for record, decision in decisions.items()]
            return [record for one in alone for record in await self._unwritable(one)]
        return []

    async def _written(self, decisions: Sequence[KeptDecision]) -> None:
        if decisions:
            await in_one_transaction(
                self._database,
                lambda connection: write_decisions(connection, decisions),
                most_seconds=REPLAY_SECONDS if self._bounded else None,
                is_one_statement=True,
            )


def _in_words(error: Exception) -> str:
    """Return an error on one line, without the statement and the values a driver would add."""
    if isinstance(error, DomainError):
        return error.message
    cause = getattr(error, "orig", None) or error
    text = " ".join(f"{type(cause).__name__}: {cause}".split())
    return shortened(text, MOST_REASON_CHARACTERS)
