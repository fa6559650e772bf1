"""A kept decision made again, and what is different about it."""

from pydantic import Field

from vramgate.admission.decision import Mode, Verdict
from vramgate.wire.answers import Answer
from vramgate.wire.job_parts import WireIn
from vramgate.wire.numbers import Text

ACTIVE = "active"


class ReplayRequest(WireIn):
    """Under which policy the question is asked again."""

    policy_version: Text | None = Field(
        default=None,
        description="`active`, or a version of the tenant's, drafts too; without it the decision's own.",
    )


class DecidedAnswer(Answer):
    """What was decided, and on which figures."""

    verdict: Verdict
    decision: Verdict
    mode: Mode
    reason_code: str
    message: str
    oom_probability: float | None
    required_bytes: int | None
    usable_bytes: int | None
    policy_version: str
    calibration_version: str
    model_version: str


class ReplayAnswer(Answer):
    """A decision as it was made, and as it comes out now."""

    decision_id: str
    same: bool = Field(description="Nothing differs but versions and words.")
    differences: list[str] = Field(description="The members that differ, versions among them.")
    then: DecidedAnswer
    now: DecidedAnswer
