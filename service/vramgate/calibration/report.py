"""Report: what a training job measured, and everything that decides what becomes of it."""

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum


class Outcome(StrEnum):
    """How far the run had come when it reported."""

    RUNNING = "running"
    COMPLETED = "completed"
    OOM = "oom"
    KILLED = "killed"


class Standing(StrEnum):
    """Whether a kept report counts: quarantined ones are shown and teach nothing."""

    ACCEPTED = "accepted"
    QUARANTINED = "quarantined"


class Receipt(StrEnum):
    """What became of a report that came in."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    RAISED = "raised"
    CONFLICT = "conflict"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredBytes:
    """The peaks of one rank by layer, as its meters gave them; None where nobody looked."""

    max_allocated_bytes: int | None = None
    """Of the allocator: what tensors took (``torch.cuda.max_memory_allocated``)."""
    max_reserved_bytes: int | None = None
    """Of the allocator: what it held of the card (``torch.cuda.max_memory_reserved``)."""
    device_used_bytes: int | None = None
    """Of the driver: what was in use on the card, or by the process."""
    context_bytes: int | None = None
    """Of the driver: what was in use before the first tensor."""

    def fell_below(self, other: "MeasuredBytes") -> bool:
        """Return whether a figure is lower than the other's, or is missing where that has one.

        >>> MeasuredBytes(max_allocated_bytes=2).fell_below(MeasuredBytes(max_allocated_bytes=3))
        True
        """
        pairs = [(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)]
        return any(old is not None and (new is None or new < old) for new, old in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedBytes:
    """What the cost model says of the same job, by layer, and which version of it said so."""

    allocated_bytes: int
    required_bytes: int
    reserved_bytes: int
    device_bytes: int
    model_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a report is quarantined: a stable code, and a sentence with the numbers."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportKey:
    """What identifies a report: a tenant has one for each rank of a run."""

    tenant: str
    run_id: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report that can be kept, with its estimate beside it."""

    key: ReportKey
    submitter: str
    outcome: Outcome
    measured: MeasuredBytes
    estimated: EstimatedBytes | None
    """None where the job is not known."""
    ranks_hold_equal_shares: bool
    """Whether all ranks of such a job do the same: no pipeline, no experts."""
    doubts: tuple[Doubt, ...]
    measured_at: datetime | None
    job_digest: str | None
    job_document: str | None
    """The job as it was sent, canonical JSON; what ``job_digest`` is the SHA-256 of."""
    subject_digest: str
    """Of the job, the launch or the decision: raised peaks must be of the same."""
    decision_id: str | None
    """The decision that admitted it; its first run reports under it, and no other."""
    model: str | None
    accelerator: str | None
    accelerator_total_bytes: int | None
    step_seconds: float | None
    tokens_per_second: float | None
    digest: str
    document: str
    """The report as it was sent, its job left out; canonical JSON, what ``digest`` is of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReport:
    """What decides about the next report under the same key."""

    report_id: str
    digest: str
    subject_digest: str
    standing: Standing
    outcome: Outcome
    measured: MeasuredBytes


def receipt_of(new: Report, kept: KeptReport | None, *, is_doubted: bool) -> Receipt:
    """Return what becomes of a report whose key is free (None) or taken.

    The same content is a duplicate. While the kept outcome is ``running``, the same job with peaks
    that did not fall raises it. Anything else under the key is a conflict and changes nothing.
    """
    if kept is None:
        return Receipt.QUARANTINED if is_doubted else Receipt.ACCEPTED
    if new.digest == kept.digest:
        return Receipt.DUPLICATE
    is_same_run = kept.outcome is Outcome.RUNNING and new.subject_digest == kept.subject_digest
    if is_same_run and not new.measured.fell_below(kept.measured):
        return Receipt.RAISED
    return Receipt.CONFLICT


def conflict_of(new: Report, kept: KeptReport) -> Doubt:
    """Return, in words, why a report cannot take the place of the one under its key."""
    name = f"Rank {new.key.rank} of run {new.key.run_id!r}"
    if kept.outcome is not Outcome.RUNNING:
        text = f"{name} has reported before, with outcome {kept.outcome.value}"
    elif new.subject_digest != kept.subject_digest:
        text = f"{name} has reported another job before"
    else:
        text = f"{name} has reported higher peaks before; peaks do not fall"
    return Doubt(
        code="conflict", message=f"{text}. Nothing was changed; a new run needs a new run_id."
    )
