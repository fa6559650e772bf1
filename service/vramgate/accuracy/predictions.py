"""What the service says about a row's job, without calibration, or why it says nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vramgate.accuracy.cases import Layer
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.estimate import estimate_memory
from vramgate.costmodel.job import Hardware
from vramgate.errors import DomainError
from vramgate.jobs.resolve import resolve
from vramgate.wire.job import JobIn
from vramgate.wire.validation import validated

STATED_LIMIT = "approximate_model"
"""The code of the warnings with which the cost model says that it only approximates a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBytes:
    """One peak, by layer."""

    allocated_bytes: int
    required_bytes: int
    reserved_bytes: int
    device_bytes: int

    def as_reported(self, layer: Layer) -> int:
        """Return the bytes to hold against a figure of this layer."""
        if layer is Layer.ALLOCATED:
            return self.allocated_bytes
        return self.device_bytes if layer is Layer.DEVICE else self.reserved_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The service's answer to a job, as far as rows can check it."""

    layers: LayerBytes
    phase: str
    method: str
    usable_bytes: int | None
    """What the card can give; None where the job names none."""
    saved_bytes_per_block: int
    trainable_parameters: int
    stated_limits: tuple[str, ...]
    """Sentences in which the cost model says where it only approximates this model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPrediction:
    """Why there is no answer."""

    reason: str


def predict(job: Mapping[str, Any], catalogs: Catalogs) -> Prediction | NoPrediction:
    """Return the answer to a job as callers send it; ``calibration`` is none."""
    try:
        return _prediction(job, catalogs)
    except DomainError as refused:
        return NoPrediction(reason=refused.message)
    except Exception as fault:  # noqa: BLE001 a row that breaks the model is a finding, listed
        return NoPrediction(reason=": ".join(filter(None, (type(fault).__name__, str(fault)))))


def _prediction(job: Mapping[str, Any], catalogs: Catalogs) -> Prediction:
    description = validated(JobIn, job).to_domain()
    resolved = resolve(description, models=catalogs.models, accelerators=catalogs.accelerators)
    estimate = estimate_memory(resolved.job)
    peak = estimate.peak
    return Prediction(
        layers=LayerBytes(
            allocated_bytes=int(peak.allocated_bytes),
            required_bytes=int(peak.required_bytes),
            reserved_bytes=int(peak.reserved_bytes),
            device_bytes=int(peak.device_bytes),
        ),
        phase=peak.phase.value,
        method=resolved.job.method.kind.value,
        usable_bytes=_usable_bytes(resolved.job.hardware),
        saved_bytes_per_block=int(estimate.saved_bytes_per_block),
        trainable_parameters=estimate.trainable_parameters,
        stated_limits=tuple(one.message for one in estimate.warnings if one.code == STATED_LIMIT),
    )


def _usable_bytes(hardware: Hardware) -> int | None:
    if hardware.device is None:
        return None
    return max(0, hardware.device.usable_bytes - hardware.occupied_bytes)
