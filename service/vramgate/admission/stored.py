"""StoredDecision: a decision as it is read again."""

from dataclasses import dataclass
from datetime import datetime

from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.errors import DomainError


class DecisionNotFoundError(DomainError):
    """The tenant has no decision of this id."""

    code = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDecision:
    """One kept decision, as a list shows it."""

    decision_id: str
    tenant: str
    decided_at: datetime
    recorded_at: datetime
    """When it was written; later than it was made where a journal held it in between."""
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
    subject_digest: str
    answer_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision(ListedDecision):
    """A decision with what was asked, what was answered, and the run that reports under it."""

    subject: str
    """JSON, as it was digested."""
    answer: str
    """JSON, as it was digested."""
    run_id: str | None


def decision_not_found(decision_id: str) -> DecisionNotFoundError:
    """Return the failure that an id is which the tenant has no decision of."""
    return DecisionNotFoundError(
        f"There is no decision {decision_id!r}.",
        hint="GET /v1/admissions lists the tenant's own. One answered with recorded: false is there "
        "once the journal has been replayed.",
    )
