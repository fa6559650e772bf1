"""Ends the watch of a run whose trainer never says that it failed.

transformers calls no hook when training raises. An exception that ends the process passes
``sys.excepthook``; one that somebody catches leaves the run unfinished until the process ends.
"""

import atexit
import sys
from functools import cache
from types import TracebackType

from vramgate.reporter.outcome import Ending
from vramgate.reporter.session import PeakReporter

_unfinished: list[PeakReporter] = []


def finish_with_process(reporter: PeakReporter) -> None:
    """Report an ending for this run at the latest when the process ends."""
    _install()
    _unfinished.append(reporter)


def finished(reporter: PeakReporter) -> None:
    """Forget a run that reported its ending."""
    if reporter in _unfinished:
        _unfinished.remove(reporter)


@cache
def _install() -> None:
    previous = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        # The traceback first: nobody waits for it longer because of us.
        previous(kind, error, traceback)
        while _unfinished:
            _unfinished.pop().finish(error)

    sys.excepthook = hook
    atexit.register(_end_as_killed)


def _end_as_killed() -> None:
    while _unfinished:
        _unfinished.pop().end(Ending(outcome="killed"))
