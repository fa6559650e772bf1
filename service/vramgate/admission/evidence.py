"""Evidence: what is known of a job's chance to run out of memory, and the verdict it allows."""

from dataclasses import dataclass
from enum import StrEnum

from vramgate.admission.decision import Verdict
from vramgate.admission.known import OpenField
from vramgate.admission.policy import Terms, UnknownModels


class Gap(StrEnum):
    """Why there is no probability; its value is the code of the reason that says so."""

    UNKNOWN_MODEL = "unknown_model"
    UNKNOWN_ACCELERATOR = "unknown_accelerator"
    UNKNOWN_CAPACITY = "unknown_capacity"
    INVALID_JOB = "invalid_job"
    INCOMPLETE_LAUNCH = "incomplete_launch"
    UNREADABLE_LAUNCH = "unreadable_launch"
    TOO_FEW_DEVICES = "too_few_devices"
    OUT_OF_TIME = "out_of_time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a verdict rests on; without a probability there is a gap that says why."""

    oom_probability: float | None
    gap: Gap | None = None
    open_fields: tuple[OpenField, ...] = ()


def verdict_of(evidence: Evidence, terms: Terms) -> Verdict:
    """Return what the evidence says under the terms.

    The one rule: ``allow`` where the probability is at most the risk; ``deny`` where it is at least
    the deny probability and every critical field is known; else ``warn``. Of a model that nobody
    knows the terms say what becomes.

    >>> verdict_of(Evidence(oom_probability=0.01), Terms(risk=0.01)).value
    'allow'
    >>> verdict_of(Evidence(oom_probability=0.5), Terms()).value
    'deny'
    """
    if evidence.gap is Gap.OUT_OF_TIME:
        return Verdict.UNCHECKED
    if evidence.gap is Gap.UNKNOWN_MODEL:
        return _OF_UNKNOWN_MODELS[terms.unknown_models]
    probability = evidence.oom_probability
    if evidence.gap is not None or probability is None:
        return Verdict.WARN
    if probability <= terms.risk:
        return Verdict.ALLOW
    if probability >= terms.deny_probability and not evidence.open_fields:
        return Verdict.DENY
    return Verdict.WARN


_OF_UNKNOWN_MODELS = {
    UnknownModels.ALLOW: Verdict.ALLOW,
    UnknownModels.WARN: Verdict.WARN,
    UnknownModels.DENY: Verdict.DENY,
}
