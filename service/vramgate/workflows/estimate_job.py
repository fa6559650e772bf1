"""One job in, its peak, bill and fit out. Estimates are not stored."""

from dataclasses import dataclass, replace

from vramgate.calibration.capacity import CapacityCheck, check_capacity
from vramgate.calibration.versions import CalibrationStamp, find_calibration
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.breakdown import Assumption, MemoryEstimate
from vramgate.costmodel.estimate import estimate_memory
from vramgate.errors import DomainError, FieldError
from vramgate.hub import HubConfig
from vramgate.jobs.description import JobDescription, ModelDescription
from vramgate.jobs.resolve import ResolvedJob, resolve
from vramgate.wire.estimates import EstimateRequest, EstimateResponse, estimate_response
from vramgate.wire.validation import ValidationFailedError


class NotAvailableError(DomainError):
    """Part of the interface, but this version has nothing behind it."""

    code = "not_available"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEstimate:
    """An estimate with everything it was made from."""

    resolved: ResolvedJob
    memory: MemoryEstimate
    check: CapacityCheck
    calibration: CalibrationStamp


def estimate_job(
    description: JobDescription, *, calibration: str, risk: float, catalogs: Catalogs
) -> JobEstimate:
    """Return the estimate of a job as described.

    Raises:
        UnknownNameError: a model, an accelerator or a calibration that nobody knows.
        InvalidModelConfigError: the model's config cannot be read.
        InvalidJobError: no card of any size would run it.
    """
    stamp = find_calibration(calibration)
    resolved = resolve(description, models=catalogs.models, accelerators=catalogs.accelerators)
    memory = estimate_memory(resolved.job)
    check = check_capacity(int(memory.peak.required_bytes), resolved.job.hardware, risk)
    return JobEstimate(resolved=resolved, memory=memory, check=check, calibration=stamp)


def answer_request(
    request: EstimateRequest, catalogs: Catalogs, *, from_hub: HubConfig | None = None
) -> EstimateResponse:
    """Return the answer to a request for an estimate.

    ``from_hub`` is the config of a model that the catalog does not know, where it was looked up.

    Raises:
        NotAvailableError: it describes a launch.
        DomainError: as ``estimate_job``.
    """
    if request.job is None:
        raise _no_launches()
    if request.hardware is not None:
        raise _hardware_beside_job()
    description = request.job.to_domain()
    if from_hub is not None:
        config = {**from_hub.config, "_name_or_path": from_hub.name}
        description = replace(description, model=ModelDescription(config=config))
    done = estimate_job(
        description, calibration=request.calibration, risk=request.risk, catalogs=catalogs
    )
    resolved = done.resolved
    if from_hub is not None:
        resolved = replace(resolved, assumptions=(_assumption(from_hub), *resolved.assumptions))
    return estimate_response(resolved, done.memory, done.check, done.calibration)


def _assumption(found: HubConfig) -> Assumption:
    age = ", as it was when the hub last answered" if found.stale else ""
    commit = f" at {found.commit}" if found.commit else ""
    return Assumption(
        field="model.config", value=found.name, source=f"Hugging Face Hub{commit}{age}"
    )


def _no_launches() -> NotAvailableError:
    detail = "launch descriptions are not available in this version"
    return NotAvailableError(
        f"/launch: {detail}.",
        hint="Describe the run as a job: `/openapi.json` has its fields.",
        fields=[FieldError(pointer="/launch", code="not_available", detail=detail)],
    )


def _hardware_beside_job() -> ValidationFailedError:
    detail = "goes with a launch; a job names its cards in job.hardware"
    return ValidationFailedError(
        f"/hardware: {detail}.",
        fields=[FieldError(pointer="/hardware", code="misplaced", detail=detail)],
    )
