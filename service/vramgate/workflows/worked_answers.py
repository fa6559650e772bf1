"""What a question came to: the answer's text but for its ids, and the row that keeps the decision."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from vramgate.admission.evidence import Evidence, Gap
from vramgate.admission.identity import digest_id
from vramgate.admission.policy import Terms
from vramgate.admission.record import KeptDecision
from vramgate.admission.ruling import Wish, ruling_of
from vramgate.calibration.versions import UNCALIBRATED
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.coefficients import MODEL_VERSION
from vramgate.errors import DomainError, shortened
from vramgate.json_text import canonical, digest_of
from vramgate.persistence.identifiers import time_ordered_id
from vramgate.reporter.redaction import masked, masked_everywhere
from vramgate.wire.admissions import MAX_NAME, AdmitRequest
from vramgate.workflows.admission_answers import admission_answer
from vramgate.workflows.admit_job import Admission, Finding
from vramgate.workflows.launch_secrets import hidden, secrets_in
from vramgate.workflows.read_question import Subject

_OF_THE_ANSWER = (
    "message", "reasons", "peak", "capacity", "devices", "suggestions", "unknown", "problems",
    "assumptions", "warnings",
)  # fmt: skip
"""What is kept of an answer beside the columns of its row."""
_LOST = {
    "code": "not_recorded",
    "message": "This decision could not be kept: the database is away, and the journal is full or broken.",
    "evidence": {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedAnswer:
    """The answer to a question as often as it is asked."""

    text: str
    """A JSON object without decision_id, recorded, report_token and expires_at."""
    row: Mapping[str, Any]
    """Fields of a ``KeptDecision`` that are the same however often it is asked."""
    terms: Terms
    catalogs: Catalogs | None = None
    """Held on to: whoever remembers an answer by its catalogs' place in memory needs them to stay."""
    subject: Subject | None = None
    """As ``catalogs``."""

    @property
    def characters(self) -> int:
        """How long the answer is, what is kept of it, and the question it holds on to."""
        held = 0 if self.subject is None else self.subject.characters
        return len(self.text) + len(self.row["subject"]) + len(self.row["answer"]) + held

    def text_for(
        self, decision_id: str, *, recorded: bool, token: str | None, ends: datetime | None
    ) -> str:
        """Return the answer to one question as JSON."""
        own = {
            "decision_id": decision_id,
            "recorded": recorded,
            "report_token": token,
            "expires_at": None
            if token is None or ends is None
            else ends.isoformat(timespec="seconds"),
        }
        return f"{json.dumps(own)[:-1]},{self.text[1:]}"

    def unrecorded(self) -> "WorkedAnswer":
        """Return the answer with the reason that nothing will be kept of it."""
        answer = json.loads(self.text)
        answer["reasons"].append(_LOST)
        return replace(self, text=_json(answer))


def worked_answer(
    request: AdmitRequest, done: Admission, catalogs: Catalogs | None
) -> WorkedAnswer:
    """Return the answer of an admission, with nothing secret in it."""
    answer = admission_answer(done, calibration=UNCALIBRATED, inputs_digest=request.inputs_digest)
    shown: Any = hidden(masked_everywhere(answer.model_dump(mode="json")), secrets_in(request))
    subject = canonical(done.subject.document)
    kept = canonical({name: shown[name] for name in _OF_THE_ANSWER})
    check, resolved = done.finding.check, done.finding.resolved
    row = {
        "mode": done.ruling.mode,
        "verdict": done.ruling.verdict,
        "decision": done.ruling.decision,
        "reason_code": done.ruling.reason_code,
        "oom_probability": done.finding.evidence.oom_probability,
        "required_bytes": shown["peak"] and shown["peak"]["required_bytes"],
        "usable_bytes": None if check is None else check.usable_bytes,
        "model": None if resolved is None else _as_name(resolved.model_name),
        "accelerator": shown["capacity"] and shown["capacity"]["accelerator"],
        "queue": _as_name(done.subject.place.queue),
        "policy_version": done.terms.policy_version,
        "calibration_version": UNCALIBRATED.version,
        "model_version": MODEL_VERSION,
        "inputs_digest": request.inputs_digest,
        "subject_digest": digest_of(subject),
        "subject": subject,
        "answer_digest": digest_of(kept),
        "answer": kept,
        "break_glass": _why(request) if done.ruling.broke_glass else None,
    }
    return WorkedAnswer(
        text=_json(shown), row=row, terms=done.terms, catalogs=catalogs, subject=done.subject
    )


def unchecked_answer(
    request: AdmitRequest, subject: Subject, terms: Terms, why: str
) -> WorkedAnswer:
    """Return the answer to a question that no verdict could be formed on in time."""
    evidence = Evidence(oom_probability=None, gap=Gap.OUT_OF_TIME)
    done = Admission(
        subject=subject,
        terms=terms,
        finding=Finding(evidence=evidence, failure=DomainError(why, hint=_ASK_AGAIN)),
        ruling=ruling_of(evidence, terms, Wish(mode=request.mode, break_glass=request.break_glass)),
        suggestions=(),
    )
    return worked_answer(request, done, None)


_ASK_AGAIN = "Ask again, with more time."


def kept_decision(
    request: AdmitRequest, caller: str, tenant: str, now: datetime, worked: WorkedAnswer
) -> KeptDecision:
    """Return the decision as it is kept; with an external id, the same question gets the same id."""
    decision_id = time_ordered_id()
    if request.external_id is not None:
        decision_id = digest_id(_identity(request, tenant, worked))
    return KeptDecision(
        decision_id=decision_id,
        tenant=tenant,
        decided_at=now,
        caller=caller,
        cluster=_as_name(request.cluster),
        channel=request.channel,
        submitter=_as_name(request.submitter),
        external_id=request.external_id,
        **worked.row,
    )


def _identity(request: AdmitRequest, tenant: str, worked: WorkedAnswer) -> dict[str, str | None]:
    """Return all that the decision follows from; of the terms, what a policy leaves to the moment.

    A site's own models and cards have no version: what came of them stands for it.
    """
    exemption, row = worked.terms.exemption, worked.row
    return {
        "tenant": tenant,
        "cluster": request.cluster,
        "external_id": request.external_id,
        "inputs": request.inputs_digest,
        "policy": worked.terms.policy_version,
        "rule": worked.terms.rule,
        "exemption": None if exemption is None else exemption.name,
        "calibration": UNCALIBRATED.version,
        "model": MODEL_VERSION,
        "verdict": row["verdict"],
        "required_bytes": _as_text(row["required_bytes"]),
        "usable_bytes": _as_text(row["usable_bytes"]),
    }


def _as_text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _why(request: AdmitRequest) -> str | None:
    return None if request.break_glass is None else masked(request.break_glass)


def _as_name(text: str | None) -> str | None:
    """Return a name that a caller, a config or a launch may have given, as it is listed."""
    return None if text is None else shortened(masked(text), MAX_NAME)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
