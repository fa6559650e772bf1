"""What a person reads: one sentence with numbers that can be checked."""

from collections.abc import Iterable
from dataclasses import dataclass

from vramgate.admission.decision import Verdict
from vramgate.admission.known import OpenField
from vramgate.calibration.capacity import CapacityCheck
from vramgate.errors import shortened
from vramgate.units import format_gib

LONGEST_MESSAGE = 200
"""Characters: what a scheduler's terminal, or a warning of kubectl, shows on one line."""
_NEVER = 0.001
_CERTAIN = 0.995
_NAMED_FIELDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a job requires of a card, and the card."""

    required_bytes: int
    phase: str
    accelerator: str
    devices: int
    check: CapacityCheck


def fit_message(verdict: Verdict, need: Need, open_fields: Iterable[OpenField]) -> str:
    """Return the sentence about a job whose peak and card are known."""
    each = "" if need.devices == 1 else f" on each of {need.devices} devices"
    usable = need.check.usable_bytes or 0
    needs = f"needs {format_gib(need.required_bytes)}{each} ({need.phase})"
    gives = f"{need.accelerator} gives {format_gib(usable)}"
    chance = percent(need.check.oom_probability or 0.0)
    if verdict is Verdict.ALLOW:
        return f"Fits: {needs}, {gives}; P(out of memory) {chance}."
    if verdict is Verdict.DENY:
        return f"Does not fit: {needs}, {gives}; P(out of memory) {chance}."
    named = [one.field for one in open_fields]
    open_words = f"; nobody said {_listed(named)}" if named else ""
    return f"May run out of memory: {needs}, {gives}; P(out of memory) {chance}{open_words}."


def one_line(text: str) -> str:
    r"""Return a text as one line that a terminal shows whole.

    >>> one_line("a model\nof two  lines")
    'a model of two lines'
    """
    return shortened(" ".join(text.split()), LONGEST_MESSAGE)


def percent(probability: float) -> str:
    """Return a probability for people; never 0 % or 100 % where it is neither.

    >>> percent(0.0), percent(0.0004), percent(0.0123), percent(0.9991), percent(1.0)
    ('under 0.1 %', 'under 0.1 %', '1.2 %', 'over 99.5 %', 'over 99.5 %')
    """
    if probability < _NEVER:
        return "under 0.1 %"
    if probability > _CERTAIN:
        return "over 99.5 %"
    return f"{100 * probability:.2g} %"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED_FIELDS])
    more = len(names) - _NAMED_FIELDS
    return f"{shown} and {more} more" if more > 0 else shown
