"""What a reported job comes to on the card it ran on, worked out once for each job.

Trainers of one sweep send the same job a thousand times: what it comes to is remembered by its digest.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeAlias

from vramgate.calibration.report import Doubt, EstimatedBytes
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.coefficients import MODEL_VERSION
from vramgate.costmodel.estimate import estimate_memory
from vramgate.errors import DomainError, UnknownNameError
from vramgate.jobs.description import HardwareDescription, JobDescription
from vramgate.jobs.resolve import resolve
from vramgate.json_text import canonical
from vramgate.wire.job import JobIn
from vramgate.wire.reports import ReportIn
from vramgate.wire.validation import ValidationFailedError, validated
from vramgate.workflows.read_launch import launched_job, whole_job

REMEMBERED_JOBS = 4096
_LONGEST_DOUBT = 500

_Subject: TypeAlias = tuple[str, str | None, int | None, str | None]
"""The digest of a job or launch, the card's name and size as its driver says, and the versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedJob:
    """What a reported job comes to on the card it ran on."""

    model: str | None
    estimated: EstimatedBytes | None
    ranks_hold_equal_shares: bool
    accelerator: str | None
    """The catalog's name of the card, where it knows it."""
    card_bytes: int | None
    """The card's whole memory, where the catalog knows it."""
    doubts: tuple[Doubt, ...] = ()
    read: str | None = None
    """The job that was read from a launch, as canonical JSON."""


class ReportedJobs:
    """Works jobs out against one state of the catalogs; may be used from several threads."""

    def __init__(self, catalogs: Catalogs, *, most_jobs: int = REMEMBERED_JOBS) -> None:
        """Remember nothing yet; ``most_jobs`` bounds what will be."""
        self._catalogs = catalogs
        self._most_jobs = most_jobs
        self._jobs: OrderedDict[_Subject, ReportedJob] = OrderedDict()
        self._lock = Lock()

    def of(self, given: ReportIn, *, digest: str, stack: str | None) -> ReportedJob:
        """Return what the job or launch of a report comes to.

        Args:
            given: the report; it has a job or a launch.
            digest: of that job or launch.
            stack: the versions it ran on, where the job could not say them itself.

        Raises:
            DomainError: the job contradicts itself.
        """
        key = (digest, given.accelerator, given.accelerator_total_bytes, stack)
        with self._lock:
            known = self._jobs.get(key)
            if known is not None:
                self._jobs.move_to_end(key)
                return known
        found = (
            self._of_job(given, stack) if given.launch is None else self._of_launch(given, stack)
        )
        with self._lock:
            self._jobs[key] = found
            while len(self._jobs) > self._most_jobs:
                self._jobs.popitem(last=False)
        return found

    def _of_job(self, given: ReportIn, stack: str | None) -> ReportedJob:
        try:
            description = validated(JobIn, given.job).to_domain()
        except ValidationFailedError as error:
            raise _below_job(error) from None
        try:
            return self._estimated(_on(stack, description), given)
        except UnknownNameError as error:
            return _unresolved(description.model.name, error)

    def _of_launch(self, given: ReportIn, stack: str | None) -> ReportedJob:
        """Return the job of a launch; what cannot be read of it is a doubt, not the trainer's fault."""
        if given.launch is None:
            raise ValueError("the report has no launch")
        try:
            launched = launched_job(given.launch.to_domain())
            job = self._estimated(_on(stack, whole_job(launched)), given)
        except UnknownNameError as error:
            return _unresolved(None, error)
        except DomainError as error:
            return unread_job("the launch", error.message)
        return replace(job, read=canonical(launched.launch.job))

    def _estimated(self, description: JobDescription, given: ReportIn) -> ReportedJob:
        hardware, doubts = self._card(given, description.hardware)
        resolved = resolve(
            replace(description, hardware=hardware),
            models=self._catalogs.models,
            accelerators=self._catalogs.accelerators,
        )
        memory = estimate_memory(resolved.job)
        shares = resolved.job.parallelism
        return ReportedJob(
            model=resolved.model_name,
            estimated=EstimatedBytes(
                allocated_bytes=int(memory.peak.allocated_bytes),
                required_bytes=int(memory.peak.required_bytes),
                reserved_bytes=int(memory.peak.reserved_bytes),
                device_bytes=int(memory.peak.device_bytes),
                model_version=MODEL_VERSION,
            ),
            ranks_hold_equal_shares=(
                shares.pipeline_parallel_size == 1 and shares.expert_parallel_size == 1
            ),
            accelerator=hardware.accelerator,
            card_bytes=self._card_bytes(hardware),
            doubts=doubts,
        )

    def _card(
        self, given: ReportIn, said: HardwareDescription
    ) -> tuple[HardwareDescription, tuple[Doubt, ...]]:
        """Return the job's hardware on the card that its driver named, and what contradicts it."""
        if given.accelerator is None:
            return said, ()
        cards = self._catalogs.accelerators
        try:
            driver = cards.resolve(given.accelerator, given.accelerator_total_bytes).entry.name
        except UnknownNameError:
            return said, ()
        if said.accelerator is None:
            return replace(said, accelerator=driver), ()
        try:
            named = cards.resolve(said.accelerator, said.device_memory_bytes).entry.name
        except UnknownNameError:
            return replace(said, accelerator=driver), ()
        if named == driver:
            return said, ()
        message = f"The job says {said.accelerator}, the driver {given.accelerator} ({driver})."
        on_driver = replace(said, accelerator=driver, device_memory_bytes=None)
        return on_driver, (Doubt(code="other_accelerator", message=message),)

    def _card_bytes(self, hardware: HardwareDescription) -> int | None:
        if hardware.accelerator is None:
            return None
        card = self._catalogs.accelerators.resolve(
            hardware.accelerator, hardware.device_memory_bytes
        ).entry
        return max(card.memory_bytes_nominal, card.usable_bytes)


def unread_job(source: str, why: str) -> ReportedJob:
    """Return what is known of a report whose job could not be read: it is kept, and why."""
    message = f"No job could be read from {source}: {why.rstrip('.')}."
    return ReportedJob(
        model=None,
        estimated=None,
        ranks_hold_equal_shares=False,
        accelerator=None,
        card_bytes=None,
        doubts=(Doubt(code="job_unknown", message=message[:_LONGEST_DOUBT]),),
    )


def _unresolved(model: str | None, error: UnknownNameError) -> ReportedJob:
    suggestions = error.data.get("suggestions")
    near = ", ".join(map(str, suggestions)) if isinstance(suggestions, tuple | list) else ""
    message = f"{error.message}." if not error.message.endswith(".") else error.message
    return ReportedJob(
        model=model,
        estimated=None,
        ranks_hold_equal_shares=False,
        accelerator=None,
        card_bytes=None,
        doubts=(
            Doubt(code="unknown_name", message=f"{message} Near: {near}." if near else message),
        ),
    )


def _on(stack: str | None, description: JobDescription) -> JobDescription:
    """Return the job on the versions it ran on, unless it names its own."""
    if stack is None or description.software.stack is not None:
        return description
    return replace(description, software=replace(description.software, stack=stack))


def _below_job(error: ValidationFailedError) -> ValidationFailedError:
    fields = [replace(one, pointer=f"/job{one.pointer}") for one in error.fields]
    return ValidationFailedError(f"/job{error.message}", hint=error.hint, fields=fields)
