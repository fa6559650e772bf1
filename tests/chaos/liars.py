"""The service with a lie built in: ``python -m tests.chaos.liars LIE serve …``."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import Enum
from unittest.mock import patch

from vramgate.admission.record import KeptDecision
from vramgate.cli.main import main
from vramgate.persistence.journal import Journal
from vramgate.workflows.record_decisions import DecisionIntake, Kept

_keep = DecisionIntake.keep
_under_way: set[asyncio.Task[Kept]] = set()


class Lie(Enum):
    """What the service says that is not so."""

    TOLD_TOO_EARLY = "told-too-early"
    KEPT_NOWHERE = "kept-nowhere"


async def _told_too_early(
    self: DecisionIntake, decision: KeptDecision, *, within_seconds: float
) -> Kept:
    """Say that a decision is a row when it is only about to become one."""
    task = asyncio.create_task(_keep(self, decision, within_seconds=within_seconds))
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return Kept.STORED


async def _kept_nowhere(_self: Journal, _records: Sequence[bytes]) -> None:
    """Say that records are on disk."""


def with_lie(lie: Lie) -> AbstractContextManager[object]:
    """Return a block in which the service lies."""
    if lie is Lie.TOLD_TOO_EARLY:
        return patch.object(DecisionIntake, "keep", _told_too_early)
    return patch.object(Journal, "append", _kept_nowhere)


if __name__ == "__main__":
    with with_lie(Lie(sys.argv.pop(1))):
        main()
