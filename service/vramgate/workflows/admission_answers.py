"""An admission as it is answered, and as it is kept."""

from collections.abc import Iterator

from vramgate.admission.decision import Reason
from vramgate.admission.evidence import Gap
from vramgate.admission.known import OpenField
from vramgate.admission.message import LONGEST_MESSAGE, Need, fit_message, one_line
from vramgate.admission.offer import DeviceVerdict
from vramgate.admission.ruling import evidence_code
from vramgate.calibration.versions import CalibrationStamp
from vramgate.changes.change import FittingChange
from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.costmodel.coefficients import MODEL_VERSION
from vramgate.launch.draft import UnknownField
from vramgate.reporter.redaction import masked
from vramgate.units import format_gib
from vramgate.wire.admissions import (
    AdmissionAnswer,
    DeviceAnswer,
    FieldChangeAnswer,
    ReasonAnswer,
    SuggestionAnswer,
)
from vramgate.wire.answers import shown_assumptions, shown_warnings
from vramgate.wire.estimates import capacity_answer, peak_answer
from vramgate.wire.launch_answers import LaunchProblemAnswer, UnknownAnswer, shown_problems
from vramgate.workflows.admit_job import Admission, assumptions_of


def admission_answer(
    admission: Admission, *, calibration: CalibrationStamp, inputs_digest: str
) -> AdmissionAnswer:
    """Return the answer, but for what belongs to one question: id, token, whether it is recorded."""
    finding, ruling, terms = admission.finding, admission.ruling, admission.terms
    memory, check, resolved = finding.memory, finding.check, finding.resolved
    reasons = [_evidence_reason(admission), *ruling.notes]
    return AdmissionAnswer(
        verdict=ruling.verdict,
        decision=ruling.decision,
        mode=ruling.mode,
        reason_code=ruling.reason_code,
        message=_shown(reasons[0]),
        reasons=[
            ReasonAnswer(code=one.code, message=_shown(one), evidence=dict(one.evidence))
            for one in reasons
        ],
        peak=None if memory is None or check is None else peak_answer(memory, check),
        capacity=None if resolved is None or check is None else capacity_answer(resolved, check),
        oom_probability=finding.evidence.oom_probability,
        devices=_devices(admission, terms.risk),
        suggestions=[_suggestion(one) for one in admission.suggestions],
        unknown=list(_unknown(admission)),
        problems=_problems(admission),
        assumptions=shown_assumptions(assumptions_of(admission)),
        warnings=shown_warnings(_warnings(admission)),
        policy_version=terms.policy_version,
        calibration_version=calibration.version,
        model_version=MODEL_VERSION,
        inputs_digest=inputs_digest,
    )


def _shown(reason: Reason) -> str:
    # Masked before it is cut: half a secret has the form of none.
    return one_line(masked(reason.message))


def _evidence_reason(admission: Admission) -> Reason:
    """Return the reason that the verdict rests on; its message is the answer's."""
    gap = admission.finding.evidence.gap
    code = evidence_code(admission.finding.evidence, admission.ruling.verdict, admission.terms)
    if gap is None:
        return Reason(code=code, message=_fit_sentence(admission), evidence=_figures(admission))
    return Reason(code=code, message=_gap_sentence(admission, gap), evidence=_figures(admission))


def _fit_sentence(admission: Admission) -> str:
    finding = admission.finding
    if finding.memory is None or finding.check is None or finding.resolved is None:
        raise ValueError("a probability comes from an estimate")
    hardware = finding.resolved.job.hardware
    need = Need(
        required_bytes=int(finding.memory.peak.required_bytes),
        phase=finding.memory.peak.phase.value,
        accelerator="the card" if hardware.device is None else hardware.device.name,
        devices=int(hardware.devices),
        check=finding.check,
    )
    sentence = fit_message(admission.ruling.verdict, need, finding.evidence.open_fields)
    for one in admission.suggestions[:1]:
        way = _in_short(one)
        if len(sentence) + len(way) < LONGEST_MESSAGE:
            return f"{sentence} {way}"
    return sentence


def _in_short(change: FittingChange) -> str:
    # What had no value before goes along with a field that had one.
    fields = ", ".join(
        f"{one.field} {one.after}" for one in change.fields if one.before is not None
    )
    required = format_gib(int(change.memory.peak.required_bytes))
    return f"Fits with {fields}: {required}."


def _gap_sentence(admission: Admission, gap: Gap) -> str:
    finding = admission.finding
    needs = ""
    if finding.memory is not None:
        needs = f"Needs {format_gib(int(finding.memory.peak.required_bytes))} a device. "
    failure = finding.failure
    if failure is None:
        return f"{needs}{_WITHOUT_FAILURE[gap]}"
    message = _sentence(failure.message)
    lead = "Invalid job: " if gap is Gap.INVALID_JOB else ""
    hint = _sentence(failure.hint)
    return f"{lead}{message if lead else _capital(message)} {needs}{_capital(hint)}".strip()


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "?", "!")) else f"{text}."


def _capital(text: str) -> str:
    if "_" in text.partition(" ")[0]:
        # A field is called what it is called.
        return text
    return f"{text[:1].upper()}{text[1:]}"


_WITHOUT_FAILURE = {
    Gap.UNKNOWN_CAPACITY: "Nobody said which card it gets: say hardware.accelerator.",
    Gap.OUT_OF_TIME: "Not checked: there was no time left.",
    Gap.INCOMPLETE_LAUNCH: "The launch does not say all that its peak depends on.",
}


def _figures(admission: Admission) -> dict[str, object]:
    """Return what a person can check the reason by."""
    finding, terms = admission.finding, admission.terms
    figures: dict[str, object] = {"risk": terms.risk, "deny_probability": terms.deny_probability}
    if terms.rule is not None:
        figures["rule"] = terms.rule
    if finding.memory is not None:
        figures["required_bytes"] = int(finding.memory.peak.required_bytes)
    if finding.check is not None:
        figures["upper_bytes"] = finding.check.upper_bytes
        figures["usable_bytes"] = finding.check.usable_bytes
        figures["oom_probability"] = finding.check.oom_probability
    if finding.failure is not None:
        figures["fields"] = [
            {"pointer": one.pointer, "code": one.code, "detail": one.detail}
            for one in finding.failure.fields
        ]
        suggestions = finding.failure.data.get("suggestions")
        if suggestions:
            figures["suggestions"] = list(suggestions)
    return figures


def _devices(admission: Admission, risk: float) -> list[DeviceAnswer] | None:
    offered, verdicts = admission.subject.devices, admission.finding.devices
    if not offered:
        return None
    # A job that cannot be estimated can be estimated on none of them.
    failure = admission.finding.failure
    why = "" if failure is None else failure.message
    without = (
        DeviceVerdict(id=one.id, accelerator=None, check=None, problem=why) for one in offered
    )
    return [_device(one, risk) for one in verdicts or without]


def _device(one: DeviceVerdict, risk: float) -> DeviceAnswer:
    return DeviceAnswer(
        id=one.id,
        accelerator=one.accelerator,
        can_take=one.can_take(risk),
        usable_bytes=None if one.check is None else one.check.usable_bytes,
        oom_probability=one.oom_probability,
        problem=one.problem or None,
    )


def _suggestion(change: FittingChange) -> SuggestionAnswer:
    return SuggestionAnswer(
        change=[
            FieldChangeAnswer(field=one.field, before=one.before, after=one.after)
            for one in change.fields
        ],
        text=change.text,
        peak=peak_answer(change.memory, change.check),
        oom_probability=change.check.oom_probability or 0.0,
        slowdown=change.slowdown,
        cost=change.cost,
    )


def _unknown(admission: Admission) -> Iterator[UnknownAnswer]:
    launch = admission.subject.launch
    hidden: tuple[UnknownField | OpenField, ...] = () if launch is None else launch.unknown
    for one in (*hidden, *admission.finding.evidence.open_fields):
        yield UnknownAnswer.model_validate(
            {"field": one.field, "from": one.source, "reason": one.reason, "hint": one.hint}
        )


def _problems(admission: Admission) -> list[LaunchProblemAnswer]:
    launch = admission.subject.launch
    return [] if launch is None else shown_problems(launch.problems)


def _warnings(admission: Admission) -> Iterator[EstimateWarning]:
    if admission.subject.launch is not None:
        yield from admission.subject.launch.warnings
    if admission.finding.resolved is not None:
        yield from admission.finding.resolved.warnings
    if admission.finding.memory is not None:
        yield from admission.finding.memory.warnings
