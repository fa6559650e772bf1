"""Reports on disk until the service has acknowledged them: one file a report, written whole.

Every report is written here before it is sent, so that no death of the process loses it. Several
processes share the folder: whoever sends a file holds its lock.
"""

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vramgate.reporter.notices import say_once

MOST_FILES = 2_000
MOST_BYTES = 64 * 2**20
MOST_REJECTED = 100
LARGEST_REPORT_BYTES = 2 * 2**20
"""Half of what the service takes in one request."""
_SUFFIX = ".json"
_REJECTED = ".rejected"
_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled:
    """A file of the spool, told by its name: no file need be read to sort them."""

    path: Path
    key: str
    written_ns: int
    is_running: bool


class Held:
    """A spooled report under its lock; close it to let others have it."""

    def __init__(self, entry: Spooled, descriptor: int, content: Mapping[str, Any]) -> None:
        self.entry = entry
        self.report: dict[str, Any] = content["report"]
        self.url: str | None = content.get("url")
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the lock."""
        self.close()

    def remove(self) -> None:
        """Delete the file: the service has the report."""
        self.entry.path.unlink(missing_ok=True)

    def reject(self, problem: object) -> None:
        """Set the file aside for a person, with the service's words beside it."""
        kept = {"report": self.report, "url": self.url, "problem": problem}
        path = self.entry.path
        _write_whole(path.with_suffix(_REJECTED), json.dumps(kept, indent=1).encode())
        path.unlink(missing_ok=True)
        _drop_oldest(sorted(path.parent.glob(f"*{_REJECTED}"), key=_age), MOST_REJECTED)

    def close(self) -> None:
        """Let go of the lock, once."""
        if self._descriptor >= 0:
            # A process forked meanwhile has the descriptor too: closing ours would not unlock.
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


class Spool:
    """A folder of reports that wait."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, report: Mapping[str, Any], url: str | None) -> Path:
        """Write a report, durably, and drop what it supersedes.

        Raises:
            OSError: the folder cannot be written.
            ValueError: the report is larger than any request may be, or no JSON.
        """
        content = json.dumps({"url": url, "report": report}, allow_nan=False).encode()
        if len(content) > LARGEST_REPORT_BYTES:
            raise ValueError(f"a report of {len(content)} bytes is too large to send")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_running = report.get("outcome") == "running"
        key = _key(report, url)
        state = "running" if is_running else "ended"
        path = self.folder / f"{time.time_ns():020d}-{key}-{os.getpid()}.{state}{_SUFFIX}"
        _write_whole(path, content)
        self._drop_superseded(key, path)
        self._bound()
        return path

    def entries(self) -> list[Spooled]:
        """Return what waits, oldest first."""
        try:
            names = sorted(os.listdir(self.folder))  # noqa: PTH208 names only, thousands of them
        except OSError:
            return []
        found = [_told_by_name(self.folder / name) for name in names if name.endswith(_SUFFIX)]
        return [entry for entry in found if entry is not None]

    def hold(self, entry: Spooled) -> Held | None:
        """Return a report under its lock; None where another process has it or it is gone."""
        try:
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        if not _lock(descriptor) or not _is_still(entry.path, descriptor):
            os.close(descriptor)
            return None
        try:
            content = json.loads(_read_all(descriptor))
            return Held(entry, descriptor, content)
        except (ValueError, KeyError, TypeError, RecursionError):
            # Not ours: our own files appear whole.
            os.close(descriptor)
            with suppress(OSError):
                entry.path.rename(entry.path.with_suffix(_REJECTED))
            say_once("unreadable", "vramgate: %s is no report; set aside", entry.path.name)
            return None

    def _drop_superseded(self, key: str, newest: Path) -> None:
        """Drop the running reports that a newer report of the same run and rank replaces."""
        for entry in self.entries():
            if entry.key == key and entry.is_running and entry.path != newest:
                held = self.hold(entry)
                # Where it is being sent just now, its sender removes it.
                if held is not None:
                    with held:
                        held.remove()

    def _bound(self) -> None:
        """Keep the folder small: the oldest running reports go first, and it is said."""
        entries = self.entries()
        sizes = {entry.path: _size(entry.path) for entry in entries}
        total = sum(sizes.values())
        count = len(entries)
        for entry in sorted(entries, key=lambda one: not one.is_running):
            if count <= MOST_FILES and total <= MOST_BYTES:
                break
            entry.path.unlink(missing_ok=True)
            count -= 1
            total -= sizes[entry.path]
            say_once("full", "vramgate: the spool %s is full; oldest reports drop", self.folder)
        self._sweep_abandoned()

    def _sweep_abandoned(self) -> None:
        """Remove what a process left that died while writing."""
        for path in self.folder.glob("*.part"):
            if time.time() - _age(path) > _ABANDONED_SECONDS:
                path.unlink(missing_ok=True)


def _key(report: Mapping[str, Any], url: str | None) -> str:
    words = json.dumps([url, report.get("run_id"), report.get("rank", 0)])
    return hashlib.sha256(words.encode()).hexdigest()[:24]


def _told_by_name(path: Path) -> Spooled | None:
    stem, _, state = path.name.removesuffix(_SUFFIX).rpartition(".")
    parts = stem.split("-")
    if len(parts) != 3 or not parts[0].isdigit():  # noqa: PLR2004 time, key, process
        return None
    return Spooled(path=path, key=parts[1], written_ns=int(parts[0]), is_running=state == "running")


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole and durably, or not at all; only its owner reads it."""
    descriptor, written = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(written).rename(path)
    except BaseException:
        Path(written).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # The rename itself survives a power cut only so.
        os.fsync(folder)
    finally:
        os.close(folder)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: sent twice is the same as once, the service tells them apart.
        return True
    return True


def _is_still(path: Path, descriptor: int) -> bool:
    """Return whether the path is the locked file: another process may have sent and removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _drop_oldest(paths: list[Path], most: int) -> None:
    for path in paths[: max(len(paths) - most, 0)]:
        path.unlink(missing_ok=True)
