"""MemoryEstimate: bytes by phase and component, the phase that peaks, and every line's formula."""

from dataclasses import dataclass, field
from enum import StrEnum

from vramgate.units import Bytes


class Phase(StrEnum):
    """The phases of a steady training step (and the load before it)."""

    LOAD = "load"
    FORWARD = "forward"
    LOSS = "loss"
    BACKWARD = "backward"
    OPTIMIZER_STEP = "optimizer_step"
    EVALUATION = "evaluation"


class Component(StrEnum):
    """What a byte is for; the names of the bill."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"
    OPTIMIZER_STATES = "optimizer_states"
    MASTER_WEIGHTS = "master_weights"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    AUTOCAST_CACHE = "autocast_cache"
    TEMPORARIES = "temporaries"
    COMMUNICATION_BUFFERS = "communication_buffers"
    GATHERED_PARAMETERS = "gathered_parameters"
    DEQUANTIZATION = "dequantization"
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One component at the peak: its bytes and the formula, numbers filled in, that made them."""

    component: Component
    bytes: Bytes
    formula: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBytes:
    """The highest moment of one phase; the components add up to ``allocated_bytes``."""

    phase: Phase
    allocated_bytes: Bytes
    components: dict[Component, Bytes]
    moment: str
    """Where in the phase, for people: "backward of block 0, feed-forward"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateWarning:
    """Something known to mislead, about this job."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A value nobody gave: the field, what was taken, and where it comes from."""

    field: str
    value: object
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Expected peaks of the worst rank, by layer: allocated <= required <= device, reserved <= device."""

    allocated_bytes: Bytes
    required_bytes: Bytes
    reserved_bytes: Bytes
    device_bytes: Bytes
    phase: Phase
    rank: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """The answer of the cost model for one job."""

    parameters: int
    trainable_parameters: int
    active_parameters: int
    peak: Peak
    bill: tuple[BillLine, ...]
    timeline: tuple[PhaseBytes, ...]
    host_bytes: Bytes
    saved_bytes_per_block: Bytes
    """Bytes autograd keeps of one middle block between forward and backward; for tests and explanations."""
    warnings: tuple[EstimateWarning, ...] = field(default=())
