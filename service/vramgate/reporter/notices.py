"""What the reporter says, and how it keeps its own failures out of the training."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("vramgate.reporter")

_said: set[str] = set()


def say_once(kind: str, message: str, *arguments: object) -> None:
    """Log a warning, the first time only: a training log is not ours to fill."""
    if kind not in _said:
        _said.add(kind)
        log.warning(message, *arguments)


def forget_what_was_said() -> None:
    """Let every warning be said again, as in a fresh process."""
    _said.clear()


def say_failed(doing: str, error: Exception) -> None:
    """Log a failure of ours, once per place."""
    # Never the text of the failure alone: it may quote what must not leave.
    kind = type(error).__name__
    say_once(doing, "vramgate: %s failed (%s); the training goes on", doing, kind)
    log.debug("vramgate: %s failed", doing, exc_info=error)


@contextmanager
def harmless(doing: str) -> Iterator[None]:
    """Keep any failure of ours from the training."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 a reporter must not end the run it watches
        say_failed(doing, error)
