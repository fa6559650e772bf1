"""Ruling: from evidence and terms to the decision, with every reason that a reader needs."""

from collections.abc import Iterator
from dataclasses import dataclass

from vramgate.admission.decision import Mode, Reason, Verdict, decision_of
from vramgate.admission.evidence import Evidence, verdict_of
from vramgate.admission.policy import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the caller asks for beside the question itself."""

    mode: Mode | None = None
    break_glass: str | None = None
    """Why the job must be let through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What is decided, and by what."""

    mode: Mode
    verdict: Verdict
    decision: Verdict
    reason_code: str
    notes: tuple[Reason, ...]
    """What the policy, not the evidence, added."""
    broke_glass: bool


def ruling_of(evidence: Evidence, terms: Terms, wish: Wish) -> Ruling:
    """Return the decision: the verdict after the mode, unless somebody is exempted or breaks the glass."""
    verdict = verdict_of(evidence, terms)
    mode = _mode(terms, wish)
    decision = decision_of(verdict, mode)
    code = evidence_code(evidence, verdict, terms)
    broke_glass = wish.break_glass is not None and terms.may_break_glass
    if decision is not Verdict.ALLOW and (broke_glass or terms.exemption is not None):
        decision = Verdict.ALLOW
        code = "break_glass" if broke_glass else "exempted"
    return Ruling(
        mode=mode,
        verdict=verdict,
        decision=decision,
        reason_code=code,
        notes=tuple(_notes(terms, wish, mode)),
        broke_glass=broke_glass,
    )


def evidence_code(evidence: Evidence, verdict: Verdict, terms: Terms) -> str:
    """Return the stable code of what the evidence says."""
    if evidence.gap is not None:
        return evidence.gap.value
    if verdict is Verdict.ALLOW:
        return "fits"
    if verdict is Verdict.DENY:
        return "peak_exceeds_capacity"
    probability = evidence.oom_probability or 0.0
    is_open = probability >= terms.deny_probability
    return "critical_fields_unknown" if is_open else "peak_may_exceed_capacity"


def _mode(terms: Terms, wish: Wish) -> Mode:
    if wish.mode is not None and wish.mode in terms.caller_may_choose:
        return wish.mode
    return terms.mode


def _notes(terms: Terms, wish: Wish, mode: Mode) -> Iterator[Reason]:
    if wish.mode is not None and wish.mode is not mode:
        granted = ", ".join(sorted(one.value for one in terms.caller_may_choose)) or "none"
        yield Reason(
            code="mode_not_granted",
            message=f"The policy does not let the caller choose {wish.mode.value}; {mode.value} holds.",
            evidence={"asked": wish.mode.value, "may_choose": granted},
        )
    exemption = terms.exemption
    if exemption is not None:
        yield Reason(
            code="exempted",
            message=f"Exempted by {exemption.name!r} until {exemption.until:%Y-%m-%d %H:%M} UTC:"
            f" {exemption.reason}",
            evidence={"exemption": exemption.name, "until": exemption.until.isoformat()},
        )
    if wish.break_glass is not None and terms.may_break_glass:
        yield Reason(
            code="break_glass",
            message=f"Let through, as this submitter may have it: {wish.break_glass}",
            evidence={},
        )
    elif wish.break_glass is not None:
        yield Reason(
            code="break_glass_not_granted",
            message="The policy does not let this submitter have jobs let through.",
            evidence={},
        )
