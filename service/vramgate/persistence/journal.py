"""Journal: records kept on this machine's disk until the database has them.

Whoever appends is answered once the record is on disk. Callers that wait meanwhile share the next
write, as they share a commit in ``group_commit.py``. A record goes only after the database has it;
that it may be handed over twice is for the writer to bear. The segments of a process that died are
taken over by any other that uses the folder.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from vramgate.errors import DomainError
from vramgate.persistence.journal_segments import Batch, Segment, bytes_in, framed, segments_in

_log = logging.getLogger("vramgate.persistence")

_Value = TypeVar("_Value")

Write = Callable[[Sequence[bytes]], Awaitable[Sequence[bytes]]]
"""Keeps the records elsewhere, durably, and returns those that can never be taken as they are."""

SEGMENT_BYTES = 4 * 2**20
MOST_SEGMENTS = 256
"""Each holds a file open: large journals have larger segments."""
MOST_QUEUED_BYTES = 16 * 2**20
"""What waits in memory for a disk that hardly answers."""
DISK_SECONDS = 5.0
"""How long a caller waits for the disk; a write takes milliseconds."""


class JournalError(DomainError):
    """The journal's disk does not take what is to be kept."""

    code = "journal_unavailable"


class JournalFullError(JournalError):
    """The journal holds all that it may."""

    code = "journal_full"


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    lines: bytes
    records: int
    done: asyncio.Future[None]


class Journal:
    """One process's part of the journal in a folder; what fails is told as ``JournalError``.

    Methods that are not coroutines, but for the checks of room, run in a thread, one at a time.
    """

    def __init__(self, folder: Path, *, most_bytes: int) -> None:
        """Use the folder, which exists; ``most_bytes`` holds for all processes that use it."""
        self.dropped = 0
        """Records that were refused."""
        self.damaged = 0
        """Segments that were not read whole, and are kept aside."""
        self.refused = 0
        """Records that the database, or this version, cannot take; they stay for a later one."""
        self.replayed = 0
        self.folder = folder
        self._most_bytes = most_bytes
        self._segment_bytes = max(SEGMENT_BYTES, most_bytes // MOST_SEGMENTS)
        self._folder_bytes = 0
        self._queue: list[_Waiting] = []
        self._queued_bytes = 0
        self._flushing: asyncio.Task[None] | None = None
        self._disk = CapacityLimiter(1)
        self._active: Segment | None = None
        self._sealed: list[Segment] = []
        self._retained: list[Segment] = []
        self._unreadable: set[Path] = set()
        self._replaying = asyncio.Lock()
        self._is_failing = False
        self._is_closed = False

    @property
    def waiting(self) -> int:
        """Return how many records this process holds that are to be replayed."""
        active = self._active
        return sum(one.records for one in [*self._sealed, *([] if active is None else [active])])

    @property
    def waiting_bytes(self) -> int:
        """Return what all processes' segments came to when it was last looked."""
        return self._folder_bytes

    async def append(self, records: Sequence[bytes]) -> None:
        """Keep the records; returns once they are on disk.

        Raises:
            JournalFullError: there is no room for them; nothing of them was kept.
            JournalError: the disk does not take them, or does not answer.
        """
        try:
            await self._append(b"".join(map(framed, records)), len(records))
        except JournalError:
            self.dropped += len(records)
            raise

    async def adopt(self) -> None:
        """Take over the segments of processes that have ended.

        Raises:
            JournalError: the disk does not answer.
        """
        await self._on_disk(self._adopt)

    async def replay(self, write: Write) -> int:
        """Hand every record to the writer, the oldest segment first, and return how many it took.

        What the writer raises is passed on; all that it has not taken is handed over next time.

        Raises:
            JournalError: the disk does not answer.
        """
        before = self.replayed
        async with self._replaying:
            await self._on_disk(self._gather)
            for segment in sorted(self._sealed, key=lambda one: one.path.name):
                await self._replay_segment(segment, write)
        return self.replayed - before

    async def close(self) -> None:
        """Write what was taken, and leave the segments to others. Nothing more is taken."""
        self._is_closed = True
        if self._flushing is not None:
            await self._flushing
        async with self._replaying:
            await self._on_disk(self._release)

    async def _append(self, lines: bytes, records: int) -> None:
        self._check_room(len(lines))
        waiting = _Waiting(lines, records, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._queued_bytes += len(lines)
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._flush(), name="journal writer")
        try:
            async with asyncio.timeout(DISK_SECONDS):
                await waiting.done
        except TimeoutError as error:
            raise JournalError(
                f"The disk of {self.folder} does not answer within {DISK_SECONDS:g} s."
            ) from error

    def _check_room(self, new_bytes: int) -> None:
        if self._is_closed:
            raise JournalError("The journal is closed.")
        if self._folder_bytes + self._queued_bytes + new_bytes > self._most_bytes:
            raise JournalFullError(
                f"The journal in {self.folder} holds {self._folder_bytes:,} bytes already.",
                hint="It empties once the database answers.",
            )
        if self._queue and self._queued_bytes + new_bytes > MOST_QUEUED_BYTES:
            raise JournalFullError(f"{self._queued_bytes:,} bytes wait for the disk already.")

    async def _flush(self) -> None:
        while self._queue:
            group, self._queue = self._queue, []
            failure: Exception | None = None
            try:
                await self._on_disk(partial(self._write, group))
            except Exception as error:  # noqa: BLE001 each is told, where it waits
                failure = error
            self._queued_bytes -= sum(len(one.lines) for one in group)
            self._log_change(failure)
            _tell(group, failure)

    def _log_change(self, failure: Exception | None) -> None:
        """Log that the disk fails, or works again, once each: a full disk may hold the log as well."""
        if failure is not None and not self._is_failing:
            _log.error("the journal cannot be written: %s", failure)
        elif failure is None and self._is_failing:
            _log.warning("the journal is written again")
        self._is_failing = failure is not None

    async def _replay_segment(self, segment: Segment, write: Write) -> None:
        while (batch := await self._read(segment)) is not None:
            refused = await write(batch.records) if batch.records else ()
            self._count(segment, batch, len(refused))
        if segment not in self._retained:
            await self._on_disk(partial(self._finish, segment))

    async def _read(self, segment: Segment) -> Batch | None:
        """Return the next batch; None at the end, or where the disk no longer gives it."""
        try:
            return await to_thread.run_sync(segment.next_batch)
        except OSError as error:
            _log.error("the journal's %s cannot be read and is left: %s", segment.path.name, error)
            self.damaged += 1
            await self._on_disk(partial(self._retain, segment))
            return None

    def _count(self, segment: Segment, batch: Batch, refused: int) -> None:
        segment.pass_over(batch)
        self.replayed += len(batch.records) - refused
        self.refused += refused
        segment.has_refused |= refused > 0

    async def _on_disk(self, work: Callable[[], _Value]) -> _Value:
        try:
            return await to_thread.run_sync(work, limiter=self._disk)
        except OSError as error:
            raise JournalError(
                f"The disk of {self.folder} fails: {error.strerror or error}."
            ) from error

    def _write(self, group: Sequence[_Waiting]) -> None:
        lines = b"".join([one.lines for one in group])
        self._folder_bytes = bytes_in(self.folder) + len(lines)
        if self._active is None or self._active.size >= self._segment_bytes:
            self._seal()
            self._active = Segment.create(self.folder)
        try:
            self._active.append(lines, records=sum(one.records for one in group))
        except OSError:
            # A kernel reports a failed write once; what it says of the file afterwards may be wrong.
            self._seal()
            raise

    def _seal(self) -> None:
        """Write no more to the active segment; nobody waits for one that holds no record."""
        segment, self._active = self._active, None
        if segment is None:
            return
        if segment.records:
            self._sealed.append(segment)
            return
        with suppress(OSError):
            segment.remove()
        # A file that could not be deleted is an empty one, of which nothing will be replayed.
        segment.release()

    def _adopt(self) -> None:
        held = self._unreadable.union(one.path for one in [*self._sealed, *self._retained])
        for path in segments_in(self.folder):
            # Of our own, the lock is taken.
            segment = None if path in held else self._adopted(path)
            if segment is not None:
                self._sealed.append(segment)
        self._folder_bytes = bytes_in(self.folder)

    def _adopted(self, path: Path) -> Segment | None:
        try:
            return Segment.adopt(path)
        except OSError as error:
            _log.error("the journal's %s cannot be read and is left: %s", path.name, error)
            self._unreadable.add(path)
            return None

    def _gather(self) -> None:
        self._seal()
        self._adopt()

    def _finish(self, segment: Segment) -> None:
        if segment.has_refused:
            self._retain(segment)
            return
        if segment.is_damaged:
            segment.set_aside()
            self.damaged += 1
        else:
            segment.remove()
        self._sealed.remove(segment)
        self._folder_bytes = bytes_in(self.folder)

    def _retain(self, segment: Segment) -> None:
        """Leave it to the next process that starts, which may be of another version."""
        segment.records = 0
        self._sealed.remove(segment)
        self._retained.append(segment)

    def _release(self) -> None:
        self._seal()
        for segment in [*self._sealed, *self._retained]:
            segment.release()
        self._sealed, self._retained = [], []


def _tell(group: Sequence[_Waiting], failure: Exception | None) -> None:
    """Let each caller go on that still waits."""
    for one in group:
        if one.done.done():
            continue
        if failure is None:
            one.done.set_result(None)
        else:
            one.done.set_exception(failure)
