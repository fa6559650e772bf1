"""Takes reports from the training and brings them to disk and to the service, in its own thread.

The training hands over a function that makes the report and goes on at once. Only the newest one
waits: a report of the same run and rank replaces the one before it. Nothing here raises.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vramgate.reporter.notices import harmless, say_once
from vramgate.reporter.settings import Destination
from vramgate.reporter.spool import Spool

if TYPE_CHECKING:
    from vramgate.reporter.drain import Drained
    from vramgate.reporter.send import Sender

_LEAST_PATIENCE_SECONDS = 0.05

MakeReport = Callable[[], Mapping[str, Any] | None]
"""Returns a report, or None where there is nothing to tell."""

FIRST_RETRY_SECONDS = 15.0
LONGEST_RETRY_SECONDS = 600.0
_GROWTH = 2.0
_TURN_SECONDS = 30.0
"""Of sending what others left, before this run's own newer report gets its turn."""
PATIENCE_FRACTION = 0.001
"""Of the run's time: how long the end of a run waits for a service that did not answer before."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Own:
    """This run's newest report: a file of the spool, or in memory where no file can be written."""

    path: Path | None
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The last report of a run, and how long its making and sending may hold the process up."""

    make: MakeReport
    wait_seconds: float
    elapsed_seconds: float


class Outbox:
    """One run's way to the service."""

    def __init__(self, destination: Destination, spool_folder: Path) -> None:
        self._destination = destination
        self._spool = Spool(spool_folder)
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._next: MakeReport | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._own: _Own | None = None
        self._tried: _Own | None = None
        self._answers = True
        self._retry_seconds = FIRST_RETRY_SECONDS

    def submit(self, make: MakeReport) -> None:
        """Leave a report to be made and sent; returns at once."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            if self._closed:
                return
            self._next = make
            self._start()
            self._changed.notify_all()

    def close(self, last: Last) -> None:
        """Bring the last report to disk, then wait a little for the service to have it.

        A service that did not answer before gets a small share of the run's time, so that even a
        short run is not held up. What is not acknowledged by then stays on disk, and the thread
        goes on trying while the process lives.
        """
        if os.getpid() != self._pid:
            return
        deadline = time.monotonic() + last.wait_seconds
        patience = last.elapsed_seconds * PATIENCE_FRACTION
        with self._changed:
            self._closed = True
            self._next = None
        self._write_apart(last)
        with self._changed:
            own = self._own
            if own is None:
                self._changed.notify_all()
                return
            self._start()
            self._changed.notify_all()
            if not self._answers:
                deadline = min(deadline, time.monotonic() + patience)
            self._wait(lambda: self._tried is own, deadline)
            # What others left is on its way now: cut off, it would be sent again.
            rest = min(deadline, time.monotonic() + max(patience, _LEAST_PATIENCE_SECONDS))
            self._wait(lambda: not self._answers, rest)

    def _wait(self, is_done: Callable[[], bool], deadline: float) -> None:
        """Wait while a thread of ours works; the caller holds the condition."""
        left = max(deadline - time.monotonic(), 0.0)
        self._changed.wait_for(lambda: self._thread is None or is_done(), left)

    def _write_apart(self, last: Last) -> None:
        """Write the last report, in a thread: a folder that hangs must not hang the training."""
        writing = threading.Thread(
            target=self._write_last, args=(last.make,), name="vramgate-last-report", daemon=True
        )
        try:
            writing.start()
        except RuntimeError:
            # From Python 3.12 on, an interpreter that ends starts no more threads.
            self._write_last(last.make)
        else:
            writing.join(last.wait_seconds)

    def _start(self) -> None:
        """Start the thread where none runs; the caller holds the condition."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="vramgate-reporter", daemon=True)
            # As above: then the file waits for the next process.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _work(self) -> None:
        with harmless("sending reports"):
            while self._turn():
                pass
        with self._changed:
            # Where a failure of ours ended the loop, the next report starts a new one.
            if self._thread is threading.current_thread():
                self._thread = None
                self._changed.notify_all()

    def _turn(self) -> bool:
        """Wait for a report or for the next try, and see to it; False once all is done."""
        with self._changed:
            self._changed.wait_for(self._has_work, self._pause())
            if self._closed and self._own is None:
                # Within the lock, so that the last report never waits for a thread that is leaving.
                self._thread = None
                self._changed.notify_all()
                return False
            make, self._next = self._next, None
        if make is not None:
            self._write_unless_closed(make)
        self._send()
        return True

    def _has_work(self) -> bool:
        is_untried = self._own is not None and self._tried is not self._own
        return is_untried or self._next is not None or (self._closed and self._own is None)

    def _pause(self) -> float | None:
        """Return how long to wait for the next try; None where nothing waits."""
        return None if self._answers and self._own is None else self._retry_seconds

    def _write_unless_closed(self, make: MakeReport) -> None:
        # Never behind the last report: it would look newer.
        with self._writing:
            if not self._closed:
                self._write(make)

    def _write_last(self, make: MakeReport) -> None:
        with self._writing:
            self._write(make)

    def _write(self, make: MakeReport) -> None:
        with harmless("making a report"):
            report = make()
            if report is None:
                return
            path = None
            try:
                path = self._spool.put(report, self._destination.url)
            except OSError as error:
                words = "vramgate: %s cannot be written (%s); reports are kept in memory only"
                say_once("spool", words, self._spool.folder, error.strerror)
            with self._changed:
                self._own = _Own(path=path, report=report)

    def _send(self) -> None:
        """Send this run's own report, then what else waits."""
        # httpx takes a tenth of a second to load: here, beside the training.
        from vramgate.reporter.send import Sender  # noqa: PLC0415

        own = self._own
        with closing(Sender(self._destination)) as sender:
            done = _sent(own, self._spool, sender) if own is not None else None
            self._note(own, done)
            if done is None or not (done.trouble or done.waiting):
                until = time.monotonic() + _TURN_SECONDS
                self._note(own, self._drained(sender, until))

    def _drained(self, sender: "Sender", until: float) -> "Drained":
        """Send what other runs left, as far as the token is for them."""
        from vramgate.reporter.drain import drain  # noqa: PLC0415 with httpx, as above

        to = self._destination
        return drain(self._spool, sender, to.url, until=until, decision_id=to.decision_id)

    def _note(self, own: _Own | None, done: "Drained | None") -> None:
        """Keep what a try taught, and wake whoever waits for it."""
        with self._changed:
            if done is not None:
                self._answers = not done.trouble
                is_done = not done.trouble and not done.waiting
                grown = min(self._retry_seconds * _GROWTH, LONGEST_RETRY_SECONDS)
                self._retry_seconds = (
                    FIRST_RETRY_SECONDS if is_done else max(grown, done.retry_after_seconds)
                )
                if own is not None and own is self._own and is_done:
                    self._own = None
            self._tried = own
            self._changed.notify_all()


def _sent(own: _Own, spool: Spool, sender: "Sender") -> "Drained":
    from vramgate.reporter.drain import Drained, send_file  # noqa: PLC0415 with httpx, as above

    if own.path is not None:
        return send_file(spool, sender, sender.destination.url, own.path)
    answer = sender.post([own.report])
    return Drained(trouble=answer.trouble, retry_after_seconds=answer.retry_after_seconds)


def without_service() -> None:
    """Say that nothing is reported, once."""
    say_once(
        "no service",
        "vramgate: VRAMGATE_URL names no service, so this run's peaks are not reported",
    )
