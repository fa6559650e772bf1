"""estimate: the cost model's answer under a calibration, against the card of the job."""

from dataclasses import dataclass

from vramgate.calibration.calibration import FOLK_MARGIN, Calibration
from vramgate.calibration.capacity import CapacityCheck, check_capacity
from vramgate.calibration.labels import labels_of
from vramgate.calibration.versions import NONE, CalibrationStamp
from vramgate.costmodel.breakdown import MemoryEstimate
from vramgate.costmodel.estimate import estimate_memory
from vramgate.costmodel.terms import FIRST_PRINCIPLES
from vramgate.jobs.resolve import ResolvedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a job takes, whether it fits, and what that rests on."""

    memory: MemoryEstimate
    check: CapacityCheck
    stamp: CalibrationStamp


def estimate(resolved: ResolvedJob, calibration: Calibration | None, *, risk: float) -> Estimate:
    """Return the estimate of a job; without a calibration, first principles and the folk margin."""
    factors, margin, version = FIRST_PRINCIPLES, FOLK_MARGIN, NONE
    if calibration is not None:
        labels = labels_of(resolved.job, resolved.model_name)
        factors, margin = calibration.factors_for(labels), calibration.margin_for(labels)
        version = calibration.version
    memory = estimate_memory(resolved.job, factors)
    required = int(memory.peak.required_bytes)
    return Estimate(
        memory=memory,
        check=check_capacity(required, resolved.job.hardware, risk, margin.distribution),
        stamp=CalibrationStamp(version=version, segment=margin.segment, reports=margin.reports),
    )
