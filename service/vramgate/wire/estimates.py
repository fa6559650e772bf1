"""Requests for estimates, and their answer."""

from typing import Annotated, Any, Self, TypeAlias

from pydantic import Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from vramgate.calibration.capacity import CapacityCheck
from vramgate.calibration.versions import ACTIVE, CalibrationStamp
from vramgate.costmodel.breakdown import (
    BillLine,
    Component,
    MemoryEstimate,
    Phase,
    PhaseBytes,
)
from vramgate.jobs.resolve import ResolvedJob
from vramgate.launch.draft import ParsedLaunch
from vramgate.wire.answers import (
    Answer,
    AssumptionAnswer,
    WarningAnswer,
    shown_assumptions,
    shown_warnings,
)
from vramgate.wire.job import JobIn, JobOut
from vramgate.wire.job_parts import WireIn
from vramgate.wire.launch import LaunchIn
from vramgate.wire.launch_answers import LaunchAnswer
from vramgate.wire.machine_parts import HardwareIn
from vramgate.wire.numbers import Probability, Text
from vramgate.wire.problems import Problem

MAX_BATCH_ITEMS = 1000


class EstimateRequest(WireIn):
    """A job, or a launch in its framework's own words."""

    job: JobIn | None = None
    launch: LaunchIn | None = None
    hardware: HardwareIn | None = Field(
        default=None, description="With `launch`: the cards, whatever the launch says of them."
    )
    calibration: Text = Field(
        default=ACTIVE, description="`active`, `none`, or the version of a calibration."
    )
    risk: Probability = Field(
        default=0.01, description="Probability with which `peak.upper_bytes` may be exceeded."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.job is None) == (self.launch is None):
            given = "none of them" if self.job is None else "both"
            raise PydanticCustomError(
                "exactly_one", "Give exactly one of job and launch; got {given}", {"given": given}
            )
        return self


BatchItemIn: TypeAlias = Annotated[
    Any, PlainValidator(lambda item: item, json_schema_input_type=EstimateRequest)
]
"""An estimate request that is validated on its own, so that one bad item fails alone."""


class BatchRequest(WireIn):
    """Up to a thousand requests, answered in order."""

    items: Annotated[list[BatchItemIn], Field(min_length=1, max_length=MAX_BATCH_ITEMS)]


class ModelAnswer(Answer):
    """The model the estimate is about."""

    name: str
    parameters: int
    trainable_parameters: int
    active_parameters: int = Field(
        description="Parameters a token passes through: fewer than all with experts."
    )


class PeakAnswer(Answer):
    """The expected peak of the worst rank, by layer, and its upper bound."""

    allocated_bytes: int = Field(description="What tensors take.")
    required_bytes: int = Field(description="The least a card must offer for the run to live.")
    reserved_bytes: int = Field(description="What torch's meter will show on this card.")
    device_bytes: int = Field(description="What nvidia-smi will show on this card.")
    upper_bytes: int = Field(description="Required bytes exceeded with at most `risk`.")
    risk: float
    phase: Phase
    rank: str


class BillLineAnswer(Answer):
    """One component at the peak."""

    component: Component
    bytes: int
    formula: str
    note: str


class PhaseAnswer(Answer):
    """The highest moment of one phase."""

    phase: Phase
    allocated_bytes: int
    moment: str
    components: dict[Component, int]


class CapacityAnswer(Answer):
    """The card's capacity, as far as this job may use it."""

    accelerator: str
    usable_bytes: int = Field(description="What the card can give, less `occupied_bytes`.")


class CalibrationAnswer(Answer):
    """The calibration behind the answer."""

    version: str
    segment: str
    reports: int


class EstimateResponse(Answer):
    """Peak, itemised bill, timeline, fit and probability."""

    model: ModelAnswer
    peak: PeakAnswer
    bill: list[BillLineAnswer] = Field(
        description="At the peak; sums to `peak.allocated_bytes` exactly."
    )
    timeline: list[PhaseAnswer]
    host_bytes: int = Field(description="CPU memory per node: offload, loading.")
    capacity: CapacityAnswer | None = Field(description="Null where no accelerator was named.")
    fits: bool | None = Field(description="`required_bytes` are at most the usable bytes.")
    headroom_bytes: int | None = Field(description="Usable less required bytes.")
    oom_probability: float | None
    calibration: CalibrationAnswer
    job: JobOut = Field(description="The job as it was understood, every default filled in.")
    assumptions: list[AssumptionAnswer]
    warnings: list[WarningAnswer]
    launch: LaunchAnswer | None = Field(
        description="What was read of the launch, and where; null where a job was sent."
    )


class EstimatedItem(Answer):
    """The estimate of one request of a batch."""

    estimate: EstimateResponse


class RefusedItem(Answer):
    """Why there is no estimate of one request of a batch."""

    problem: Problem


class BatchResponse(Answer):
    """The answers, in the order of the requests."""

    items: list[EstimatedItem | RefusedItem]


def estimate_response(
    resolved: ResolvedJob,
    estimate: MemoryEstimate,
    check: CapacityCheck,
    stamp: CalibrationStamp,
    launch: ParsedLaunch | None = None,
) -> EstimateResponse:
    """Return the answer for one job."""
    return EstimateResponse(
        model=ModelAnswer(
            name=resolved.model_name,
            parameters=estimate.parameters,
            trainable_parameters=estimate.trainable_parameters,
            active_parameters=estimate.active_parameters,
        ),
        peak=peak_answer(estimate, check),
        bill=[_bill_line(line) for line in estimate.bill],
        timeline=[_phase(phase) for phase in estimate.timeline],
        host_bytes=int(estimate.host_bytes),
        capacity=capacity_answer(resolved, check),
        fits=check.fits,
        headroom_bytes=check.headroom_bytes,
        oom_probability=check.oom_probability,
        calibration=CalibrationAnswer(
            version=stamp.version, segment=stamp.segment, reports=stamp.reports
        ),
        job=JobOut.from_domain(resolved.description),
        assumptions=shown_assumptions(resolved.assumptions),
        warnings=shown_warnings(resolved.warnings + estimate.warnings),
        launch=None if launch is None else LaunchAnswer.from_domain(launch),
    )


def peak_answer(estimate: MemoryEstimate, check: CapacityCheck) -> PeakAnswer:
    """Return a peak by layer, with its bound."""
    peak = estimate.peak
    return PeakAnswer(
        allocated_bytes=int(peak.allocated_bytes),
        required_bytes=int(peak.required_bytes),
        reserved_bytes=int(peak.reserved_bytes),
        device_bytes=int(peak.device_bytes),
        upper_bytes=check.upper_bytes,
        risk=check.risk,
        phase=peak.phase,
        rank=peak.rank,
    )


def _bill_line(line: BillLine) -> BillLineAnswer:
    return BillLineAnswer(
        component=line.component, bytes=int(line.bytes), formula=line.formula, note=line.note
    )


def _phase(phase: PhaseBytes) -> PhaseAnswer:
    return PhaseAnswer(
        phase=phase.phase,
        allocated_bytes=int(phase.allocated_bytes),
        moment=phase.moment,
        components={component: int(size) for component, size in phase.components.items()},
    )


def capacity_answer(resolved: ResolvedJob, check: CapacityCheck) -> CapacityAnswer | None:
    """Return what the job's card can give it; None where no card is known."""
    device = resolved.job.hardware.device
    if device is None or check.usable_bytes is None:
        return None
    return CapacityAnswer(accelerator=device.name, usable_bytes=check.usable_bytes)
