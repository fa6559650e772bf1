"""AdmissionPolicy: a tenant's document, and the terms that hold for one question under it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeVar

from vramgate.admission.decision import Channel, Mode
from vramgate.admission.patterns import matches

_Value = TypeVar("_Value")

DEFAULT_VERSION = "default"
"""The policy of a tenant that never activated one."""
DEFAULT_RISK = 0.01
DEFAULT_DENY_PROBABILITY = 0.5
WEEK_SECONDS = 7 * 24 * 3600
"""A job waits, and then it runs; after a week its report needs a token of its own."""


class UnknownModels(StrEnum):
    """What becomes of a job whose model nobody knows, so that there is no evidence."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which questions a part of a policy is about; None is any. Patterns take ``*`` and ``?``."""

    cluster: str | None = None
    queue: str | None = None
    channel: Channel | None = None
    submitter: str | None = None
    external_id: str | None = None
    model: str | None = None

    def covers(self, asked: "Asked") -> bool:
        """Return whether a question is one of these; what a question leaves out matches no pattern.

        >>> Scope(queue="prod-*").covers(Asked(queue="prod-a100"))
        True
        >>> Scope(queue="prod-*").covers(Asked())
        False
        """
        if self.channel is not None and self.channel is not asked.channel:
            return False
        pairs = (
            (self.cluster, asked.cluster),
            (self.queue, asked.queue),
            (self.submitter, asked.submitter),
            (self.external_id, asked.external_id),
            (self.model, asked.model),
        )
        return all(
            pattern is None or (value is not None and matches(pattern, value))
            for pattern, value in pairs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Of a question, what a policy may depend on."""

    cluster: str | None = None
    queue: str | None = None
    channel: Channel = Channel.REST
    submitter: str | None = None
    external_id: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """An override for some questions, of which the first that covers one counts; None overrides nothing."""

    name: str
    scope: Scope
    until: datetime | None = None
    """From this moment on it is as if the rule were not there; None is for good."""
    mode: Mode | None = None
    caller_may_choose: frozenset[Mode] | None = None
    risk: float | None = None
    deny_probability: float | None = None
    unknown_models: UnknownModels | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """Jobs that are let through whatever the verdict is, until a moment."""

    name: str
    scope: Scope
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityMap:
    """The cards behind a site's own words, for jobs that name none."""

    queues: Mapping[str, str] = field(default_factory=dict)
    """Queue or partition to accelerator."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """``label=value`` of a node to accelerator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """One immutable version of a tenant's policy; the default is safe: warn, at a risk of 1 %."""

    version: str = DEFAULT_VERSION
    mode: Mode = Mode.WARN
    caller_may_choose: frozenset[Mode] = frozenset()
    """Modes that a question may ask for instead."""
    risk: float = DEFAULT_RISK
    deny_probability: float = DEFAULT_DENY_PROBABILITY
    unknown_models: UnknownModels = UnknownModels.WARN
    capacity: CapacityMap = field(default_factory=CapacityMap)
    rules: tuple[PolicyRule, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    break_glass_submitters: tuple[str, ...] = ()
    """Patterns of who may have any job let through by saying why; each use is audited."""
    report_token_seconds: int = WEEK_SECONDS

    @property
    def depends_on_model(self) -> bool:
        """Return whether some part of it is about some models only."""
        parts: tuple[_Temporary, ...] = (*self.rules, *self.exemptions)
        return any(one.scope.model is not None for one in parts)

    def terms(self, asked: Asked, now: datetime) -> "Terms":
        """Return what holds for one question at a moment."""
        rule = _first(self.rules, asked, now) or _NO_RULE
        exemption = _first(self.exemptions, asked, now)
        return Terms(
            policy_version=self.version,
            rule=rule.name or None,
            mode=_or(rule.mode, self.mode),
            caller_may_choose=_or(rule.caller_may_choose, self.caller_may_choose),
            risk=_or(rule.risk, self.risk),
            deny_probability=_or(rule.deny_probability, self.deny_probability),
            unknown_models=_or(rule.unknown_models, self.unknown_models),
            exemption=exemption,
            may_break_glass=asked.submitter is not None
            and any(matches(one, asked.submitter) for one in self.break_glass_submitters),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a policy says for one question at one moment."""

    policy_version: str = DEFAULT_VERSION
    rule: str | None = None
    mode: Mode = Mode.WARN
    caller_may_choose: frozenset[Mode] = frozenset()
    risk: float = DEFAULT_RISK
    deny_probability: float = DEFAULT_DENY_PROBABILITY
    unknown_models: UnknownModels = UnknownModels.WARN
    exemption: Exemption | None = None
    may_break_glass: bool = False


DEFAULT_POLICY = AdmissionPolicy()
_NO_RULE = PolicyRule(name="", scope=Scope())


class _Temporary(Protocol):
    @property
    def scope(self) -> Scope: ...

    @property
    def until(self) -> datetime | None: ...


_Part = TypeVar("_Part", bound=_Temporary)


def _first(parts: Sequence[_Part], asked: Asked, now: datetime) -> _Part | None:
    """Return the first part in force that covers the question."""
    for part in parts:
        if (part.until is None or now < part.until) and part.scope.covers(asked):
            return part
    return None


def _or(override: _Value | None, value: _Value) -> _Value:
    return value if override is None else override
