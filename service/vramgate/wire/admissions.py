"""The scheduler's question as it arrives, and its answer."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from vramgate.access import is_tenant_name
from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.offer import OfferedDevice
from vramgate.json_text import canonical, digest_of
from vramgate.wire.answers import Answer, AssumptionAnswer, WarningAnswer
from vramgate.wire.estimates import CapacityAnswer, PeakAnswer
from vramgate.wire.job import JobIn
from vramgate.wire.job_parts import WireIn
from vramgate.wire.launch import LaunchIn
from vramgate.wire.launch_answers import LaunchProblemAnswer, UnknownAnswer
from vramgate.wire.machine_parts import HardwareIn
from vramgate.wire.numbers import MAX_BYTES, WHOLE, ByteCount, Flag
from vramgate.wire.plain_text import PLAIN, LabelValue

MAX_DEVICES_OFFERED = 64
MAX_NODE_LABELS = 64
MAX_NAME = 256
MAX_REASON = 500

_TENANT_LENGTH = 128

Name: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_NAME), PLAIN
]
ReasonText: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_REASON), PLAIN
]
LabelKey: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_NAME), PLAIN
]
JobField: TypeAlias = Annotated[Any, PlainValidator(lambda job: job, json_schema_input_type=JobIn)]
"""A job, read where its digest has not been seen before."""


def _tenant_name(value: str) -> str:
    if not is_tenant_name(value):
        raise PydanticCustomError(
            "tenant",
            "A tenant has up to 128 letters, digits and . _ - @ : / +, a letter or digit first",
        )
    return value


TenantName: TypeAlias = Annotated[
    str,
    StringConstraints(strict=True, max_length=_TENANT_LENGTH),
    AfterValidator(_tenant_name),
]


class OfferedDeviceIn(WireIn):
    """A card, or a slice of one, that the job could get now."""

    id: Name
    accelerator: Name | None = Field(
        default=None, description="Any name of the card; without it the job's own."
    )
    total_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES), WHOLE] | None = None
    used_bytes: ByteCount = Field(default=0, description="What others hold of it now.")

    def to_domain(self) -> OfferedDevice:
        """Return the domain value."""
        return OfferedDevice(
            id=self.id,
            accelerator=self.accelerator,
            total_bytes=self.total_bytes,
            used_bytes=self.used_bytes,
        )


def _told_apart(devices: tuple[OfferedDeviceIn, ...]) -> tuple[OfferedDeviceIn, ...]:
    if len({one.id for one in devices}) < len(devices):
        raise PydanticCustomError("repeated", "Each device should have an id of its own")
    return devices


class AdmitRequest(WireIn):
    """May this job start? Its job, or its launch in its framework's own words."""

    job: JobField | None = None
    launch: LaunchIn | None = None
    hardware: HardwareIn | None = Field(
        default=None, description="With `launch`: the cards, whatever the launch says of them."
    )
    cluster: Name | None = None
    queue: Name | None = Field(default=None, description="The partition or queue.")
    tenant: TenantName | None = Field(
        default=None, description="Another's than the token's needs `admit:any_tenant`."
    )
    submitter: Name | None = Field(default=None, description="Who sent the job to the scheduler.")
    external_id: Name | None = Field(
        default=None,
        description="The scheduler's own id. The same question under it has one decision.",
    )
    channel: Channel = Field(default=Channel.REST, description="Through which door it comes.")
    dry_run: Flag = Field(default=False, description="Nothing is stored.")
    mode: Mode | None = Field(default=None, description="Where the policy lets the caller choose.")
    devices: (
        Annotated[
            tuple[OfferedDeviceIn, ...],
            Field(min_length=1, max_length=MAX_DEVICES_OFFERED),
            AfterValidator(_told_apart),
        ]
        | None
    ) = Field(default=None, description="What the job could get now: cards, slices.")
    node_labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_NODE_LABELS)] | None = (
        Field(default=None, description="Of the node, where the policy maps them to a card.")
    )
    break_glass: ReasonText | None = Field(
        default=None, description="Why it must be let through; audited, where the policy allows it."
    )

    @model_validator(mode="after")
    def _one_subject(self) -> Self:
        if (self.job is None) == (self.launch is None):
            given = "none of them" if self.job is None else "both"
            raise PydanticCustomError(
                "exactly_one", "Give exactly one of job and launch; got {given}", {"given": given}
            )
        if self.hardware is not None and self.launch is None:
            raise PydanticCustomError(
                "misplaced",
                "hardware goes with a launch; a job names its cards in job.hardware",
            )
        return self

    @property
    def subject_digest(self) -> str:
        """SHA-256 of what the peak depends on, however its keys were ordered."""
        return self.subject_measures[0]

    @property
    def characters(self) -> int:
        """How long what the peak depends on is, as JSON."""
        return self.subject_measures[1]

    @cached_property
    def subject_measures(self) -> tuple[str, int]:
        """``subject_digest`` and ``characters``, of one text that is not kept."""
        text = canonical(self._subject)
        return digest_of(text), len(text)

    @cached_property
    def inputs_digest(self) -> str:
        """SHA-256 of all that was asked, but for whose it is, its id and whether it is stored."""
        inputs = {
            "subject": self.subject_digest,
            "cluster": self.cluster,
            "queue": self.queue,
            "submitter": self.submitter,
            "channel": self.channel.value,
            "mode": self.mode,
            "node_labels": self.node_labels,
            "break_glass": self.break_glass,
        }
        return digest_of(canonical(inputs))

    @property
    def _subject(self) -> Mapping[str, Any]:
        launch = None if self.launch is None else self.launch.model_dump(mode="json")
        hardware = None if self.hardware is None else self.hardware.model_dump(mode="json")
        devices = None
        if self.devices is not None:
            devices = [one.model_dump(mode="json") for one in self.devices]
        return {"job": self.job, "launch": launch, "hardware": hardware, "devices": devices}


class ReasonAnswer(Answer):
    """One thing that decided, or that a reader must know."""

    code: str
    message: str
    evidence: dict[str, Any]


class FieldChangeAnswer(Answer):
    """One field of the job, as it is and as it would be."""

    field: str
    before: Any
    after: Any


class SuggestionAnswer(Answer):
    """A change that would fit, estimated."""

    change: list[FieldChangeAnswer]
    text: str
    peak: PeakAnswer
    oom_probability: float
    slowdown: float | None = Field(
        description="Time of the same work against now; null where nothing sound can be said."
    )
    cost: str


class DeviceAnswer(Answer):
    """What one offered device can do for the job now."""

    id: str
    accelerator: str | None
    can_take: bool = Field(description="A rank of the job lives on it, at the policy's risk.")
    usable_bytes: int | None = Field(description="What it can give now.")
    oom_probability: float | None
    problem: str | None


class AdmissionAnswer(Answer):
    """What is the same for every question about this job under this policy."""

    verdict: Verdict = Field(description="What the evidence says.")
    decision: Verdict = Field(description="What to do: the verdict after the mode.")
    mode: Mode
    reason_code: str
    message: str = Field(description="One sentence with the numbers.")
    reasons: list[ReasonAnswer]
    peak: PeakAnswer | None
    capacity: CapacityAnswer | None
    oom_probability: float | None
    devices: list[DeviceAnswer] | None = Field(
        description="Which of the offered devices can take the job now; null where none were given."
    )
    suggestions: list[SuggestionAnswer] = Field(
        description="Up to three changes that would fit, the smallest first."
    )
    unknown: list[UnknownAnswer] = Field(
        description="What decides about the peak and was not said."
    )
    problems: list[LaunchProblemAnswer] = Field(description="Why the job would not run.")
    assumptions: list[AssumptionAnswer]
    warnings: list[WarningAnswer]
    policy_version: str
    calibration_version: str
    model_version: str = Field(description="Of the cost model.")
    inputs_digest: str


class AdmitResponse(AdmissionAnswer):
    """The answer to one question."""

    decision_id: str
    recorded: bool = Field(
        description="The decision is a row. Else it waits in a journal on disk and becomes one."
    )
    report_token: str | None = Field(
        description="With it the job posts its own report, and nothing else."
    )
    expires_at: str | None = Field(description="When the token ends; RFC 3339.")
