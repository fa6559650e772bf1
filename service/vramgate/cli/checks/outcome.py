"""Outcome: what became of a file, and the exit code that says so."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vramgate.admission.decision import Verdict
from vramgate.admission.evidence import Gap
from vramgate.errors import DomainError
from vramgate.wire.admissions import AdmissionAnswer

_INVALID = frozenset({Gap.INVALID_JOB, Gap.UNREADABLE_LAUNCH})
"""Gaps that no card and no policy closes: the file itself must change."""


class Outcome(StrEnum):
    """The verdict on a file's job, or that the file is no job that could run."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"
    INVALID = "invalid"
    UNCHECKED = "unchecked"


_EXIT_CODES = {
    Outcome.ALLOW: 0,
    Outcome.WARN: 0,
    Outcome.DENY: 1,
    Outcome.INVALID: 2,
    Outcome.UNCHECKED: 3,
}
_WORST_FIRST = (Outcome.INVALID, Outcome.DENY, Outcome.UNCHECKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """A file, and the answer about it or why there is none."""

    path: Path
    outcome: Outcome
    counts_as: Outcome
    """As ``outcome``, but for warnings that count as denials."""
    code: str
    """Of the reason that the outcome rests on."""
    message: str
    answer: AdmissionAnswer | None = None
    failure: DomainError | None = None
    """Why there is no answer."""
    line: int | None = None
    """Where in the file it is said, counted from 1."""
    seconds: float

    @property
    def shown_path(self) -> str:
        """The path as text that any output can hold."""
        return printable(os.fsencode(self.path).decode("utf-8", "replace"))


def outcome_of(verdict: Verdict, gap: Gap | None) -> Outcome:
    """Return what a verdict says of the file.

    >>> outcome_of(Verdict.WARN, Gap.INVALID_JOB).value, outcome_of(Verdict.DENY, None).value
    ('invalid', 'deny')
    """
    return Outcome.INVALID if gap in _INVALID else Outcome(verdict.value)


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return the exit code of the worst outcome: invalid, then deny, then unchecked.

    >>> exit_code([Outcome.UNCHECKED, Outcome.DENY, Outcome.ALLOW]), exit_code([Outcome.WARN])
    (1, 0)
    """
    found = set(outcomes)
    worst = next((one for one in _WORST_FIRST if one in found), Outcome.ALLOW)
    return _EXIT_CODES[worst]


def printable(text: str) -> str:
    r"""Return a text without what would move a terminal's cursor, or is not for XML.

    >>> printable("a\x1b[2Jb")
    'a�[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\u00a0" else "�" for one in text)
