"""What a policy may say and its author probably did not mean. Pointers lead into its document."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vramgate.admission.decision import Mode
from vramgate.admission.documents import moment_text
from vramgate.admission.patterns import includes, is_for_anything, may_meet
from vramgate.admission.policy import AdmissionPolicy, PolicyRule, Scope
from vramgate.errors import FieldError
from vramgate.json_text import pointer, shortened

LEAST_DENY_PROBABILITY = 0.2
"""Below, jobs are refused of which four in five would run."""
MOST_RISK = 0.2
"""Above, jobs are let through of which one in five runs out of memory."""
LONG_EXEMPTION = timedelta(days=90)
POWERLESS = (Mode.OFF, Mode.SHADOW)
"""Modes in which nothing is refused and nobody warned."""

_PATTERNS = ("cluster", "queue", "submitter", "external_id", "model")
_OVERRIDES = ("mode", "caller_may_choose", "risk", "deny_probability", "unknown_models")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is probably not meant: a stable code, a sentence, and where it stands."""

    code: str
    message: str
    pointer: str


def findings_in(policy: AdmissionPolicy, now: datetime) -> list[Finding]:
    """Return what is probably not meant, as it is at a moment."""
    return [
        *_mode_findings(policy),
        *_threshold_findings("", policy),
        *_rule_findings(policy, now),
        *_exemption_findings(policy, now),
        *_label_findings(policy),
        *_break_glass_findings(policy),
    ]


def finding_of(fault: FieldError) -> Finding:
    """Return a fault as a finding about a policy that is stored: its card left the catalog later."""
    words = f"{fault.detail[:1].upper()}{fault.detail[1:]}."
    return Finding(code=fault.code, message=words, pointer=fault.pointer)


def _mode_findings(policy: AdmissionPolicy) -> Iterator[Finding]:
    modes = {policy.mode, *(rule.mode for rule in policy.rules if rule.mode is not None)}
    choices = policy.caller_may_choose.union(
        *(rule.caller_may_choose or () for rule in policy.rules)
    )
    if modes == {Mode.OFF} and choices <= {Mode.OFF}:
        yield Finding(
            code="off_for_everything",
            message="The mode is off for every job, so that nothing is ever refused; shadow "
            "refuses nothing either, and its report shows what enforcing would have done.",
            pointer="/mode",
        )
    if policy.mode is Mode.ENFORCE:
        yield from _way_around("/caller_may_choose", policy.caller_may_choose)
    for index, rule in enumerate(policy.rules):
        if rule.mode is None and rule.caller_may_choose is None:
            continue
        if (rule.mode or policy.mode) is Mode.ENFORCE:
            inherits = rule.caller_may_choose is None
            name = "mode" if inherits else "caller_may_choose"
            choices = (
                policy.caller_may_choose
                if rule.caller_may_choose is None
                else rule.caller_may_choose
            )
            yield from _way_around(pointer("rules", index, name), choices)


def _way_around(where: str, choices: frozenset[Mode]) -> Iterator[Finding]:
    chosen = " or ".join(mode.value for mode in POWERLESS if mode in choices)
    if chosen:
        yield Finding(
            code="caller_can_switch_off",
            message=f"Under enforce a caller may ask for {chosen}, and nothing is refused.",
            pointer=where,
        )


def _threshold_findings(where: str, one: AdmissionPolicy | PolicyRule) -> Iterator[Finding]:
    if one.deny_probability is not None and one.deny_probability < LEAST_DENY_PROBABILITY:
        yield Finding(
            code="denies_what_would_run",
            message=f"With a deny_probability of {one.deny_probability:g} jobs are refused that "
            f"run out of memory with a probability of {one.deny_probability:.0%} only.",
            pointer=f"{where}/deny_probability",
        )
    if one.risk is not None and one.risk > MOST_RISK:
        yield Finding(
            code="allows_what_would_fail",
            message=f"With a risk of {one.risk:g} jobs are let through, without a warning, of "
            f"which {one.risk:.0%} run out of memory.",
            pointer=f"{where}/risk",
        )


def _rule_findings(policy: AdmissionPolicy, now: datetime) -> Iterator[Finding]:
    idle = _idle_rules(policy)
    for index, rule in enumerate(policy.rules):
        where = pointer("rules", index)
        yield from _threshold_findings(where, rule)
        before = next((one for one in policy.rules[:index] if _hides(one, rule)), None)
        if rule.until is not None and rule.until <= now:
            yield _expired("rule", rule.name, rule.until, where)
        elif before is not None:
            yield Finding(
                code="unreachable_rule",
                message=f"The rule {rule.name!r} never counts: {before.name!r} stands before it "
                "and is for the same jobs. Put the narrower of them first.",
                pointer=where,
            )
        elif index in idle:
            yield Finding(
                code="rule_changes_nothing",
                message=f"The rule {rule.name!r} says what holds without it.",
                pointer=where,
            )


def _hides(first: PolicyRule, second: PolicyRule) -> bool:
    """Return whether the first rule surely counts wherever the second would."""
    outlives = first.until is None or (second.until is not None and second.until <= first.until)
    return outlives and _covers(first.scope, second.scope)


def _covers(wider: Scope, narrower: Scope) -> bool:
    if wider.channel is not None and wider.channel is not narrower.channel:
        return False
    return all(
        one is None or (other is not None and includes(one, other))
        for one, other in _pattern_pairs(wider, narrower)
    )


def _idle_rules(policy: AdmissionPolicy) -> set[int]:
    """Return the rules without which everything would be the same.

    One that repeats the policy's own values may keep its jobs from a later rule.
    """
    idle: set[int] = set()
    telling: list[PolicyRule] = []
    for index in reversed(range(len(policy.rules))):
        rule = policy.rules[index]
        says_more = any(
            getattr(rule, name) not in {None, getattr(policy, name)} for name in _OVERRIDES
        )
        if says_more or any(_may_meet(rule.scope, later.scope) for later in telling):
            telling.append(rule)
        else:
            idle.add(index)
    return idle


def _may_meet(one: Scope, other: Scope) -> bool:
    if one.channel and other.channel and one.channel is not other.channel:
        return False
    return all(
        first is None or second is None or may_meet(first, second)
        for first, second in _pattern_pairs(one, other)
    )


def _pattern_pairs(one: Scope, other: Scope) -> Sequence[tuple[str | None, str | None]]:
    return [(getattr(one, name), getattr(other, name)) for name in _PATTERNS]


def _exemption_findings(policy: AdmissionPolicy, now: datetime) -> Iterator[Finding]:
    for index, one in enumerate(policy.exemptions):
        where = pointer("exemptions", index)
        if one.until <= now:
            yield _expired("exemption", one.name, one.until, where)
        elif one.until - now > LONG_EXEMPTION:
            yield Finding(
                code="long_exemption",
                message=f"The exemption {one.name!r} holds until {moment_text(one.until)}, more "
                f"than {LONG_EXEMPTION.days} days; a rule says what is to hold for good.",
                pointer=f"{where}/until",
            )


def _expired(kind: str, name: str, until: datetime, where: str) -> Finding:
    return Finding(
        code=f"expired_{kind}",
        message=f"The {kind} {name!r} ended at {moment_text(until)} and does nothing any more.",
        pointer=f"{where}/until",
    )


def _label_findings(policy: AdmissionPolicy) -> Iterator[Finding]:
    for label in policy.capacity.node_labels:
        if "=" not in label:
            yield Finding(
                code="label_without_value",
                message=f"{shortened(label)!r} is no label of a node with its value: write "
                "label=value, as nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3.",
                pointer=pointer("capacity", "node_labels", label),
            )


def _break_glass_findings(policy: AdmissionPolicy) -> Iterator[Finding]:
    for index, pattern in enumerate(policy.break_glass_submitters):
        if is_for_anything(pattern):
            yield Finding(
                code="anybody_breaks_glass",
                message="Whoever submits a job may have it let through by giving a reason.",
                pointer=pointer("break_glass", "submitters", index),
            )
