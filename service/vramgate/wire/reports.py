"""Reports of measured peaks as they arrive, and what is answered."""

from datetime import datetime
from typing import Annotated, Any, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from vramgate.calibration.report import MeasuredBytes, Outcome, Receipt
from vramgate.costmodel.breakdown import Phase
from vramgate.launch.launch import Launch
from vramgate.wire.job import JobIn
from vramgate.wire.job_parts import WireIn
from vramgate.wire.launch import (
    MAX_FILES,
    MAX_VARIABLES,
    Command,
    Document,
    FileText,
    LongText,
)
from vramgate.wire.model_config import JsonObject
from vramgate.wire.numbers import (
    MAX_BYTES,
    MAX_DEVICES,
    MAX_PARAMETERS,
    NUMBER,
    TEXT,
    WHOLE,
    ByteCount,
    Flag,
    Text,
)
from vramgate.wire.plain_text import LabelName, LabelValue, RunId
from vramgate.wire.problems import Problem

MAX_REPORTS = 1000
MAX_STEP = 2**40
MAX_SECONDS = 10_000_000
MAX_RATE = 1e12
MAX_MESSAGE = 20_000
EARLIEST_YEAR = 2000

PeakBytes: TypeAlias = Annotated[int, Field(ge=1, le=MAX_BYTES), WHOLE]
Parameters: TypeAlias = Annotated[int, Field(ge=0, le=MAX_PARAMETERS), WHOLE]


def _moment(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value where it can be a moment in RFC 3339: text, with a time zone."""
    if not isinstance(value, str):
        raise PydanticCustomError("moment", "Input should be a time in RFC 3339, as text")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise PydanticCustomError(
            "moment", "Input should be a time in RFC 3339, as 2026-11-29T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise PydanticCustomError("moment", "The time should name its zone; Z stands for UTC")
    if moment.year < EARLIEST_YEAR:
        raise PydanticCustomError("moment", "The time should be of this century")
    return moment


Moment: TypeAlias = Annotated[datetime, BeforeValidator(_moment)]


class MeasuredIn(WireIn):
    """The peaks of one rank in bytes, by the meter that gave them; at least one."""

    max_allocated_bytes: PeakBytes | None = Field(
        default=None, description="`torch.cuda.max_memory_allocated()`"
    )
    max_reserved_bytes: PeakBytes | None = Field(
        default=None, description="`torch.cuda.max_memory_reserved()`"
    )
    device_used_bytes: PeakBytes | None = Field(
        default=None, description="What the driver (`nvidia-smi`, NVML) showed."
    )
    context_bytes: PeakBytes | None = Field(
        default=None, description="What the driver showed before the first tensor."
    )

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if (self.max_allocated_bytes or self.max_reserved_bytes or self.device_used_bytes) is None:
            raise PydanticCustomError(
                "nothing_measured",
                "Give at least one of max_allocated_bytes, max_reserved_bytes, device_used_bytes",
            )
        return self

    def to_domain(self) -> MeasuredBytes:
        """Return the domain value."""
        return MeasuredBytes(
            max_allocated_bytes=self.max_allocated_bytes,
            max_reserved_bytes=self.max_reserved_bytes,
            device_used_bytes=self.device_used_bytes,
            context_bytes=self.context_bytes,
        )


class ReportedLaunchIn(WireIn):
    """What a trainer was started with, as it told: its words, and its framework's settings."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    framework: Text | None = None
    command: Command | None = None
    script: LongText | None = None
    manifest: Document | None = None
    config: Document | None = None
    files: Annotated[dict[Text, FileText], Field(max_length=MAX_FILES)] | None = None
    env: Annotated[dict[Text, FileText], Field(max_length=MAX_VARIABLES)] | None = None
    model_configuration: JsonObject | None = Field(default=None, alias="model_config")

    @model_validator(mode="after")
    def _something(self) -> Self:
        told = (self.command, self.script, self.manifest, self.config)
        if all(one is None for one in told):
            raise PydanticCustomError(
                "at_least_one", "Give at least one of command, script, manifest and config"
            )
        return self

    def to_domain(self) -> Launch:
        """Return the domain value."""
        return Launch(
            command=self.command,
            script=self.script,
            manifest=self.manifest,
            framework=self.framework,
            config=self.config,
            files=self.files or {},
            env=self.env or {},
            model_config=self.model_configuration,
        )


class DtypeCountIn(WireIn):
    """Parameters of one number format."""

    parameters: Parameters
    trainable_parameters: Parameters
    bytes: ByteCount


class LiveModelIn(WireIn):
    """The model as it stood in memory, counted; tied storage once."""

    class_name: Text
    config: JsonObject | None = None
    parameters: Parameters
    trainable_parameters: Parameters
    parameter_bytes: ByteCount
    trainable_bytes: ByteCount
    by_dtype: Annotated[dict[LabelName, DtypeCountIn], Field(max_length=32)]


JobField: TypeAlias = Annotated[Any, PlainValidator(lambda job: job, json_schema_input_type=JobIn)]
"""A job, read where its digest has not been seen before."""


class ReportIn(WireIn):
    """What one rank of one run measured, and which job it was of.

    Give `job` or `launch`, or `decision_id`, or a decision beside one of the others: then they tell
    what ran, and the decision what admitted it. With a report token all three may be left out.
    """

    run_id: RunId
    rank: Annotated[int, Field(ge=0, le=MAX_DEVICES), WHOLE] = 0
    job: JobField | None = None
    launch: ReportedLaunchIn | None = None
    decision_id: RunId | None = Field(
        default=None,
        description="The decision that admitted it. One run reports under a decision: the first that "
        "does. A report token stands for its own decision, and for no other.",
    )
    outcome: Outcome
    measured: MeasuredIn | None = None
    peak_phase: Phase | None = None
    peak_step: Annotated[int, Field(ge=0, le=MAX_STEP), WHOLE] | None = None
    warmup_excluded: Flag | None = None
    oom_message: (
        Annotated[str, StringConstraints(strict=True, max_length=MAX_MESSAGE), TEXT] | None
    ) = None
    accelerator: LabelValue | None = Field(
        default=None, description="As the driver names it, as `NVIDIA A100-SXM4-80GB`."
    )
    accelerator_total_bytes: PeakBytes | None = None
    software: Annotated[dict[LabelName, LabelValue], Field(max_length=64)] | None = None
    live_model: LiveModelIn | None = None
    step_seconds: (
        Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False), NUMBER] | None
    ) = None
    tokens_per_second: (
        Annotated[float, Field(gt=0, le=MAX_RATE, allow_inf_nan=False), NUMBER] | None
    ) = None
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=32)] | None = None
    measured_at: Moment | None = Field(default=None, description="RFC 3339; not in the future.")

    @model_validator(mode="after")
    def _subject_and_evidence(self) -> Self:
        if self.job is not None and self.launch is not None:
            raise PydanticCustomError("exactly_one", "Give either job or launch, not both")
        if self.job is None and self.launch is None and self.decision_id is None:
            raise PydanticCustomError(
                "at_least_one", "Give job, launch or decision_id; got none of them"
            )
        if self.measured is None and self.outcome in {Outcome.RUNNING, Outcome.COMPLETED}:
            raise PydanticCustomError(
                "nothing_measured",
                "A run with outcome {outcome} should say what it measured",
                {"outcome": self.outcome.value},
            )
        return self


ReportItemIn: TypeAlias = Annotated[
    Any, PlainValidator(lambda item: item, json_schema_input_type=ReportIn)
]
"""A report that is validated on its own, so that one bad report fails alone."""


class ReportsRequest(WireIn):
    """Up to a thousand reports."""

    reports: Annotated[list[ReportItemIn], Field(min_length=1, max_length=MAX_REPORTS)]


class ResidualOut(BaseModel):
    """One layer: what was measured, what was estimated, and how far off the estimate is."""

    model_config = ConfigDict(from_attributes=True)

    measured_bytes: int
    estimated_bytes: int
    relative_error: float = Field(description="estimated / measured - 1")


class DoubtOut(BaseModel):
    """Why a report is quarantined, or what stands against it."""

    model_config = ConfigDict(from_attributes=True)

    code: str
    message: str


class ReceiptOut(BaseModel):
    """A report that is kept, or was known already."""

    report_id: str
    status: Receipt
    reasons: list[DoubtOut]
    residuals: dict[str, ResidualOut]


class RefusedOut(BaseModel):
    """A report of which nothing is kept."""

    problem: Problem


class ReportsResponse(BaseModel):
    """What became of each report, in order."""

    items: list[ReceiptOut | RefusedOut]
