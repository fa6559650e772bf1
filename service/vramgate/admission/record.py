"""KeptDecision: a decision as it is kept, with what it was made from."""

from dataclasses import dataclass
from datetime import datetime

from vramgate.admission.decision import Channel, Mode, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptDecision:
    """One answered question. Rows of one job share its subject and its answer, which are kept once.

    Nothing in it is secret: texts were masked before.
    """

    decision_id: str
    tenant: str
    decided_at: datetime
    caller: str
    """The name of the token that asked."""
    cluster: str | None
    queue: str | None
    channel: Channel
    submitter: str | None
    external_id: str | None
    mode: Mode
    verdict: Verdict
    decision: Verdict
    reason_code: str
    oom_probability: float | None
    required_bytes: int | None
    usable_bytes: int | None
    model: str | None
    accelerator: str | None
    policy_version: str
    calibration_version: str
    model_version: str
    """Of the cost model."""
    inputs_digest: str
    """SHA-256 of what was asked, so that it is the same for the same question, in hexadecimal."""
    subject_digest: str
    subject: str
    """Canonical JSON of what a replay needs: the job, or what was read of the launch, and the offer."""
    answer_digest: str
    answer: str
    """Canonical JSON of what was answered, but for ids, the token and whether it was recorded."""
    break_glass: str | None = None
    """Why somebody had it let through; goes to the audit trail as well."""
