"""Kept reports as they are asked for, and as their readers see them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from vramgate.calibration.report import Outcome, Standing
from vramgate.wire.job_parts import WireIn
from vramgate.wire.lists import Page
from vramgate.wire.numbers import MAX_DEVICES, TEXT
from vramgate.wire.plain_text import PLAIN, RunId
from vramgate.wire.reports import DoubtOut, Moment, ResidualOut

MAX_NAME = 512
MAX_REASON = 500


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("moment", "The time should lie before the year 10000") from None


UtcMoment: TypeAlias = Annotated[Moment, AfterValidator(_in_utc)]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME), TEXT]


class ReportFilters(BaseModel):
    """Which reports of any status are meant; what is left out leaves it open."""

    model_config = ConfigDict(extra="forbid")

    run_id: RunId | None = None
    decision_id: RunId | None = Field(
        default=None, description="The reports of the run that reports under this decision."
    )
    rank: Annotated[int, Field(ge=0, le=MAX_DEVICES)] | None = None
    outcome: Outcome | None = None
    submitter: Name | None = Field(default=None, description="The name of the token that sent it.")
    model: Name | None = Field(default=None, description="The catalog's name of the model.")
    accelerator: Name | None = Field(default=None, description="The catalog's name of the card.")
    since: UtcMoment | None = Field(
        default=None, description="Received at this moment or later; RFC 3339."
    )
    until: UtcMoment | None = Field(default=None, description="Received before this; RFC 3339.")


class StatusFilters(ReportFilters):
    """Which reports are meant, by status as well."""

    status: Standing | None = None


class MeasuredOut(BaseModel):
    """The peaks of one rank by the meter that gave them; null where nobody looked."""

    model_config = ConfigDict(from_attributes=True)

    max_allocated_bytes: int | None
    max_reserved_bytes: int | None
    device_used_bytes: int | None
    context_bytes: int | None


class EstimatedOut(BaseModel):
    """What the cost model said of the same job when the report came in."""

    model_config = ConfigDict(from_attributes=True, protected_namespaces=())

    allocated_bytes: int
    required_bytes: int
    reserved_bytes: int
    device_bytes: int
    model_version: str = Field(description="The version of the cost model.")


class ReportOut(BaseModel):
    """One kept report of one rank of one run, with its estimate beside it."""

    model_config = ConfigDict(from_attributes=True)

    report_id: str
    run_id: str
    rank: int
    status: Standing
    reasons: list[DoubtOut] = Field(
        description="Why it was quarantined; they stay when it is released."
    )
    received_at: datetime = Field(
        description="When it last changed: came in, was raised, or was released."
    )
    first_received_at: datetime
    measured_at: datetime | None
    submitter: str
    outcome: Outcome
    model: str | None
    job_digest: str | None
    accelerator: str | None
    accelerator_total_bytes: int | None
    measured: MeasuredOut
    estimate: EstimatedOut | None
    residuals: dict[str, ResidualOut] = Field(description="By layer: allocated, reserved, device.")
    step_seconds: float | None
    tokens_per_second: float | None
    labels: Mapping[str, str]


class ReportDetail(ReportOut):
    """One kept report, with what was sent."""

    document: Mapping[str, Any] = Field(
        description="As it was sent; instead of its job only the job's digest."
    )
    job: Mapping[str, Any] | None = Field(
        description="The job as it was sent, unless a launch was."
    )


class ReportPage(Page[ReportOut]):
    """Some reports, and the cursors of what follows."""

    resume_cursor: str | None = Field(
        description="With order=oldest: from here on, now or later, come the reports that change "
        "after the last one seen. null before there was any."
    )


class ReleaseRequest(WireIn):
    """Why a quarantined report may count."""

    reason: Annotated[
        str, StringConstraints(strict=True, min_length=1, max_length=MAX_REASON), PLAIN
    ]
