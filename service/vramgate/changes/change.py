"""FittingChange: a change that makes a job fit, what it costs; Edit: one before anybody checked it."""

from dataclasses import dataclass
from enum import StrEnum

from vramgate.calibration.capacity import CapacityCheck
from vramgate.costmodel.breakdown import MemoryEstimate
from vramgate.jobs.description import JobDescription
from vramgate.jobs.resolve import ResolvedJob


class ChangeKind(StrEnum):
    """What a change touches, in the order in which changes are offered: the smallest first."""

    ALLOCATOR = "allocator"
    LOSS = "loss"
    ATTENTION = "attention"
    KERNELS = "kernels"
    BATCH = "batch"
    CHECKPOINTING = "checkpointing"
    SHARDING = "sharding"
    OFFLOAD = "offload"
    OPTIMIZER = "optimizer"
    METHOD = "method"
    SEQUENCE = "sequence"
    DEVICES = "devices"
    ACCELERATOR = "accelerator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of one kind, as assignments to what was said of a job.

    A value of None, or an empty part, leaves the field to the framework's default under the change.
    """

    kind: ChangeKind
    sets: tuple[tuple[str, object], ...]
    """Dotted paths of the description, with their values."""
    to: str
    """After "Set": ``loss to fused_linear``."""
    why: str
    """What it does to memory, as half a sentence."""
    slowdown: float | None
    """As of ``FittingChange``."""
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field of the complete job: a dotted path of the published interface, values as JSON has them."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingChange:
    """What to change so that a job fits its card at the risk asked for, and what that costs."""

    kinds: tuple[ChangeKind, ...]
    """In order; several where it takes them together."""
    fields: tuple[FieldChange, ...]
    """Every field of the complete job that differs, defaults that follow from the change included."""
    text: str
    description: JobDescription
    """The changed job with every field filled."""
    resolved: ResolvedJob
    memory: MemoryEstimate
    check: CapacityCheck
    slowdown: float | None
    """Step time over that of before, for the same tokens; None where nothing sound can be said."""
    cost: str
