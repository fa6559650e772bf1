"""Kept decisions and the shadow report, as they are asked for and as their readers see them."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.calibration.report import Outcome
from vramgate.wire.lists import Page, invalid_cursor, moment_in_cursor
from vramgate.wire.report_lists import Name, UtcMoment

DECISION_ID = r"^[0-9A-Za-z-]{1,64}$"


class AdmissionFilters(BaseModel):
    """Which decisions are meant; what is left out leaves it open."""

    model_config = ConfigDict(extra="forbid")

    verdict: Verdict | None = Field(default=None, description="What the evidence said.")
    decision: Verdict | None = Field(default=None, description="What the scheduler was told.")
    mode: Mode | None = None
    reason_code: Name | None = None
    cluster: Name | None = None
    queue: Name | None = None
    channel: Channel | None = None
    submitter: Name | None = Field(default=None, description="Who sent the job to the scheduler.")
    external_id: Name | None = Field(default=None, description="The scheduler's own id.")
    model: Name | None = Field(default=None, description="The catalog's name of the model.")
    accelerator: Name | None = Field(default=None, description="The catalog's name of the card.")
    policy_version: Name | None = None
    since: UtcMoment | None = Field(
        default=None, description="Made at this moment or later; RFC 3339."
    )
    until: UtcMoment | None = Field(default=None, description="Made before this; RFC 3339.")


class AdmissionListItem(BaseModel):
    """One kept decision, without what was asked and the explanation of the answer."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())

    decision_id: str
    decided_at: datetime
    recorded_at: datetime = Field(
        description="When it was written: later, where it waited in a journal."
    )
    caller: str = Field(description="The name of the token that asked.")
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
    model_version: str = Field(description="Of the cost model.")
    inputs_digest: str


class AdmissionDetail(AdmissionListItem):
    """One kept decision whole: what was asked, what was answered, and how its run ended.

    The answer's other members stand beside these: `suggestions`, `devices`, `assumptions`, and so on.
    """

    model_config = ConfigDict(extra="allow")

    message: str
    reasons: list[Mapping[str, Any]]
    peak: Mapping[str, Any] | None
    capacity: Mapping[str, Any] | None
    subject: Mapping[str, Any] = Field(description="What was asked: the job or the launch.")
    run_id: str | None = Field(description="The run that reports under this decision.")
    outcome: Outcome | None = Field(
        description="Of its run: `oom` where any rank ran out of memory, else `completed` where any "
        "rank completed, else `killed`, else `running`; null while no report counts."
    )
    reports: int = Field(description="How many reports of its run count.")


class AdmissionPage(Page[AdmissionListItem]):
    """Some decisions, and the cursor of what follows."""


def place_of_cursor(cursor: str, filters: str) -> tuple[datetime, str]:
    """Return the time and the id that the cursor stands behind.

    Raises:
        InvalidCursorError: this list did not give it, or gave it under other filters.
    """
    decided_at, decision_id = moment_in_cursor(cursor, filters)
    if re.fullmatch(DECISION_ID, decision_id) is None:
        raise invalid_cursor()
    return decided_at, decision_id


# ---------------------------------------------------------------- the shadow report


class ShadowFilters(BaseModel):
    """Which decisions the shadow report is about."""

    model_config = ConfigDict(extra="forbid")

    since: UtcMoment | None = Field(
        default=None,
        description="Weeks from the one that holds this moment on; RFC 3339. Left out: four weeks.",
    )
    until: UtcMoment | None = Field(
        default=None,
        description="Weeks before this moment, and the one it lies in; left out: the present week.",
    )
    queue: Name | None = None
    channel: Channel | None = None
    cluster: Name | None = None


Count = Annotated[int, Field(ge=0)]


class ReportedOut(BaseModel):
    """Of how many decisions it is known how the job ended."""

    model_config = ConfigDict(from_attributes=True)

    count: Count
    of: Count
    fraction: float | None


class ShareOut(ReportedOut):
    """So many of so many, with the Wilson score interval at 95 %; fraction is null of nothing."""

    low: float
    high: float


class TallyOut(BaseModel):
    """How many decisions have a verdict, and what became of their jobs."""

    model_config = ConfigDict(from_attributes=True)

    count: Count
    ran: Count = Field(description="The run reported `completed`, and no rank `oom`.")
    ran_out_of_memory: Count
    quarantined: Count = Field(
        description="Of unknown: reported, and every report is quarantined. Released, they count."
    )
    unknown: Count = Field(
        description="Did not run, did not report, still runs, or was killed for another reason."
    )


class ShadowFiguresOut(BaseModel):
    """The decisions of some whole weeks, by verdict and by what became of the jobs."""

    model_config = ConfigDict(from_attributes=True)

    since: datetime
    until: datetime = Field(description="The first moment that does not belong to them.")
    decisions: Count
    by_mode: dict[Mode, Count]
    refused: Count = Field(description="Told to deny (mode enforce); these jobs did not run.")
    would_deny: TallyOut = Field(description="Verdict `deny`: what enforcing would have refused.")
    would_warn: TallyOut = Field(description="Verdict `warn`.")
    allowed: TallyOut = Field(description="Verdict `allow`.")
    unchecked: TallyOut
    reported: ReportedOut = Field(description="What all intervals rest on.")
    false_denials: ShareOut = Field(description="Of would_deny with a known end: those that ran.")
    missed_ooms: ShareOut = Field(
        description="Of allowed with a known end: those that ran out of memory."
    )
    warned_ooms: ShareOut = Field(
        description="Of would_warn with a known end: those that ran out of memory."
    )


class ShadowWeekOut(ShadowFiguresOut):
    """One week."""

    week: str = Field(description="As ISO 8601 counts them, in UTC: `2026-W48`.")


class ShadowReportOut(BaseModel):
    """What enforcing would have done, week by week and in all, and was it right."""

    tenant: str
    weeks: list[ShadowWeekOut]
    total: ShadowFiguresOut
    notes: list[str]
