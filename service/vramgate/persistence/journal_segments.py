"""Segment: a file of records that one process at a time owns, append-only.

A line is the CRC-32 of a record in hexadecimal, a space, the record, and a line feed. A process owns
a segment as long as it holds its lock, which the kernel takes back when the process ends, however.
"""

import fcntl
import logging
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from vramgate.persistence.identifiers import time_ordered_id

_log = logging.getLogger("vramgate.persistence")

SUFFIX = ".journal"
DAMAGED_SUFFIX = ".damaged"
BATCH_RECORDS = 100
BATCH_BYTES = 2**20
"""What is read of a segment at once: more would keep answers waiting while it is worked on."""

_CHECKSUM_DIGITS = 8
_RELEASED = -1


def framed(record: bytes) -> bytes:
    r"""Return the line that a record is kept as.

    Raises:
        ValueError: the record holds a line feed.

    >>> framed(b'{"v":1}')
    b'84dbe73d {"v":1}\n'
    """
    if b"\n" in record:
        raise ValueError("a record is one line")
    return b"%08x %b\n" % (zlib.crc32(record), record)


def unframed(line: bytes) -> bytes | None:
    """Return the record of a whole line, or None where its checksum is another one."""
    record = line[_CHECKSUM_DIGITS + 1 : -1]
    return record if framed(record) == line else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Some lines of a segment, in their order."""

    records: tuple[bytes, ...]
    end: int
    """Where the next batch begins."""
    damaged: int
    """Lines whose checksum does not fit."""
    torn_bytes: int
    """The length of a last line that was never finished: its writer was told of no success."""


class Segment:
    """A file of the journal that this process holds the lock of."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = 0
        self.records = 0
        """Acknowledged, and not handed to the database yet."""
        self.is_damaged = False
        self.has_refused = False
        """Whether it holds records that the database, or this version, did not take."""
        self._descriptor = descriptor
        self._position = 0

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Return a new, empty segment; its name is on disk.

        Raises:
            OSError: the disk does not take it.
        """
        while True:
            path = folder / f"{time_ordered_id()}{SUFFIX}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            descriptor = os.open(path, flags, 0o600)
            # Another process may have taken it for one whose owner has died.
            if _is_locked(descriptor):
                segment = cls(path, descriptor)
                try:
                    _sync_folder(folder)
                except OSError:
                    segment.release()
                    raise
                return segment

    @classmethod
    def adopt(cls, path: Path) -> Self | None:
        """Return a segment whose owner has ended, or None where it is owned or gone.

        Raises:
            OSError: it cannot be read.
        """
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return None
        if not _is_locked(descriptor):
            return None
        segment = cls(path, descriptor)
        try:
            with path.open("rb") as file:
                segment.records = sum(line.endswith(b"\n") for line in file)
                segment.size = file.tell()
        except OSError:
            segment.release()
            raise
        return segment

    def append(self, lines: bytes, *, records: int) -> None:
        """Write lines; returns once they are on disk.

        Raises:
            OSError: the disk does not take them. What is in the file afterwards is not known, and a
                later success says nothing about it.
        """
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fdatasync(self._descriptor)
        self.size += len(lines)
        self.records += records

    def next_batch(self) -> Batch | None:
        """Return what follows the last batch passed over, or None at the end.

        Raises:
            OSError: it cannot be read.
        """
        records: list[bytes] = []
        damaged = torn_bytes = 0
        with self.path.open("rb") as file:
            end = file.seek(self._position)
            while len(records) < BATCH_RECORDS and end - self._position < BATCH_BYTES:
                line = file.readline()
                end += len(line)
                if not line.endswith(b"\n"):
                    torn_bytes = len(line)
                    break
                record = unframed(line)
                if record is None:
                    damaged += 1
                else:
                    records.append(record)
        if end == self._position:
            return None
        return Batch(records=tuple(records), end=end, damaged=damaged, torn_bytes=torn_bytes)

    def pass_over(self, batch: Batch) -> None:
        """Go on behind a batch whose records were written elsewhere."""
        self._position = batch.end
        self.records = max(0, self.records - len(batch.records) - batch.damaged)
        if batch.torn_bytes:
            _log.warning(
                "the journal's last line was never finished: %d bytes of %s are skipped",
                batch.torn_bytes,
                self.path.name,
            )
        if batch.damaged:
            self.is_damaged = True
            _log.error("%d lines of the journal's %s are damaged", batch.damaged, self.path.name)

    def remove(self) -> None:
        """Delete the file, and let it go.

        Raises:
            OSError: the disk does not let it be deleted; it is still owned.
        """
        self.path.unlink(missing_ok=True)
        self.release()

    def set_aside(self) -> None:
        """Give the file a name that is not replayed, and let it go.

        Raises:
            OSError: the disk does not let it be renamed; it is still owned.
        """
        self.path.rename(self.path.with_suffix(DAMAGED_SUFFIX))
        self.release()

    def release(self) -> None:
        """Let another process have it; a second time does nothing."""
        descriptor, self._descriptor = self._descriptor, _RELEASED
        if descriptor != _RELEASED:
            # What a disk complains of at the end was reported when it was written.
            with suppress(OSError):
                os.close(descriptor)


def segments_in(folder: Path) -> list[Path]:
    """Return the segments of every process, the oldest first."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def bytes_in(folder: Path) -> int:
    """Return the bytes of all that the journal keeps in its folder, whoever wrote it."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            # Another process may be done with one in this moment.
            with suppress(FileNotFoundError):
                if entry.name.endswith((SUFFIX, DAMAGED_SUFFIX)):
                    total += entry.stat().st_size
    return total


def _is_locked(descriptor: int) -> bool:
    """Return whether we hold the lock now and the file still has a name; else let it go."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return True
    except BlockingIOError:
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return False


def _sync_folder(folder: Path) -> None:
    """Have the names of a folder's files on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
