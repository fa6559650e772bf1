"""Verdict and decision: what the evidence says, what the mode makes of it, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """What a verdict may do: nothing (off, and shadow while its report is watched), warn, or refuse."""

    OFF = "off"
    SHADOW = "shadow"
    WARN = "warn"
    ENFORCE = "enforce"


class Verdict(StrEnum):
    """What the evidence says; as a decision, what the scheduler is told to do."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"
    UNCHECKED = "unchecked"
    """No verdict could be formed in time."""


class Channel(StrEnum):
    """Through which door a question came; policies may differ by it."""

    REST = "rest"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    KUEUE = "kueue"
    VOLCANO = "volcano"
    RAY = "ray"
    CLI = "cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that decided, or that a reader must know: a stable code and a sentence."""

    code: str
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What a person can check: bytes, fields with where they come from, probabilities."""


def decision_of(verdict: Verdict, mode: Mode) -> Verdict:
    """Return what the scheduler is told, by DESIGN section 6's one rule.

    >>> [decision_of(Verdict.DENY, mode).value for mode in Mode]
    ['allow', 'allow', 'warn', 'deny']
    >>> decision_of(Verdict.UNCHECKED, Mode.ENFORCE).value
    'unchecked'
    """
    if mode in {Mode.OFF, Mode.SHADOW}:
        return Verdict.ALLOW
    if mode is Mode.WARN and verdict is Verdict.DENY:
        return Verdict.WARN
    return verdict
