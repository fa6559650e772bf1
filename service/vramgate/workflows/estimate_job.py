"""One job in, its peak, bill and fit out. Estimates are not stored."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vramgate.calibration.capacity import CapacityCheck
from vramgate.calibration.estimate import estimate
from vramgate.calibration.versions import CalibrationStamp, find_calibration
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.breakdown import Assumption, MemoryEstimate
from vramgate.errors import DomainError, FieldError
from vramgate.hub import HubConfig
from vramgate.jobs.description import JobDescription, ModelDescription
from vramgate.jobs.resolve import ResolvedJob, resolve
from vramgate.launch.draft import ParsedLaunch
from vramgate.wire.estimates import EstimateRequest, EstimateResponse, estimate_response
from vramgate.wire.validation import ValidationFailedError
from vramgate.workflows.read_launch import (
    at_launch,
    hardware_said,
    launch_of,
    launched_job,
    whole_job,
)


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
    version = find_calibration(calibration)
    resolved = resolve(description, models=catalogs.models, accelerators=catalogs.accelerators)
    found = estimate(resolved, version, risk=risk)
    return JobEstimate(
        resolved=resolved, memory=found.memory, check=found.check, calibration=found.stamp
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The job that a request is about, and the launch that says it, where one does."""

    description: JobDescription
    launch: ParsedLaunch | None = None


def asked(request: EstimateRequest, stored: Mapping[str, str]) -> Asked:
    """Return the job of a request; ``stored`` has the files that its launch names by digest.

    Raises:
        UnreadableLaunchError: a text of the launch is not what it should be.
        InvalidJobError: the launch would not run.
        IncompleteLaunchError: the launch does not say enough.
    """
    if request.launch is None:
        if request.job is None or request.hardware is not None:
            raise _hardware_beside_job()
        return Asked(description=request.job.to_domain())
    launched = launched_job(
        launch_of(request.launch, stored), hardware=hardware_said(request.hardware)
    )
    return Asked(description=whole_job(launched), launch=launched.launch)


def answer_request(
    request: EstimateRequest,
    catalogs: Catalogs,
    *,
    about: Asked | None = None,
    from_hub: HubConfig | None = None,
) -> EstimateResponse:
    """Return the answer to a request for an estimate.

    ``about`` is what it asks of, where that was read already; ``from_hub`` the config of a model that
    the catalog does not know, where it was looked up.

    Raises:
        DomainError: as ``asked`` and ``estimate_job``.
    """
    about = asked(request, {}) if about is None else about
    description = about.description
    if from_hub is not None:
        config = {**from_hub.config, "_name_or_path": from_hub.name}
        description = replace(description, model=ModelDescription(config=config))
    try:
        done = estimate_job(
            description, calibration=request.calibration, risk=request.risk, catalogs=catalogs
        )
    except DomainError as error:
        if about.launch is None:
            raise
        raise at_launch(error, about.launch) from None
    resolved = _with_what_was_read(done.resolved, about.launch, from_hub)
    return estimate_response(resolved, done.memory, done.check, done.calibration, about.launch)


def _with_what_was_read(
    resolved: ResolvedJob, launch: ParsedLaunch | None, from_hub: HubConfig | None
) -> ResolvedJob:
    """Return the job with what its launch and the hub add to assumptions and warnings."""
    if from_hub is not None:
        resolved = replace(resolved, assumptions=(_assumption(from_hub), *resolved.assumptions))
    if launch is None:
        return resolved
    return replace(
        resolved,
        assumptions=(*launch.assumptions, *resolved.assumptions),
        warnings=(*launch.warnings, *resolved.warnings),
    )


def _assumption(found: HubConfig) -> Assumption:
    age = ", as it was when the hub last answered" if found.stale else ""
    commit = f" at {found.commit}" if found.commit else ""
    return Assumption(
        field="model.config", value=found.name, source=f"Hugging Face Hub{commit}{age}"
    )


def _hardware_beside_job() -> ValidationFailedError:
    detail = "goes with a launch; a job names its cards in job.hardware"
    return ValidationFailedError(
        f"/hardware: {detail}.",
        fields=[FieldError(pointer="/hardware", code="misplaced", detail=detail)],
    )
