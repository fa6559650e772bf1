"""A report as it was sent to one that can be kept: checked, estimated, doubted where it must be.

Trainers of one sweep send the same job a thousand times: what a job comes to is remembered by its
digest, the work left for each report is a few dictionary look-ups.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, TypeAlias

from vramgate.access import Caller
from vramgate.calibration.plausibility import card_doubts, check_possible, estimate_doubts
from vramgate.calibration.report import Doubt, EstimatedBytes, MeasuredBytes, Report, ReportKey
from vramgate.catalog.site import Catalogs
from vramgate.costmodel.coefficients import MODEL_VERSION
from vramgate.costmodel.estimate import estimate_memory
from vramgate.errors import DomainError, FieldError, UnknownNameError
from vramgate.jobs.description import HardwareDescription, JobDescription
from vramgate.jobs.resolve import resolve
from vramgate.jobs.stack import MAX_STACK_TEXT, versions_in
from vramgate.json_text import pointer
from vramgate.wire.job import JobIn
from vramgate.wire.reports import ReportIn
from vramgate.wire.validation import ValidationFailedError, validated
from vramgate.workflows.read_launch import launched_job, whole_job

REMEMBERED_JOBS = 4096
_LONGEST_DOUBT = 500
CLOCK_SKEW = timedelta(minutes=10)
"""How far a trainer's clock may run ahead of ours."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


class UnknownDecisionError(DomainError):
    """There is no such decision of this tenant."""

    code = "unknown_decision"


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


class ReportReader:
    """Reads reports against one state of the catalogs; may be used from several threads."""

    def __init__(self, catalogs: Catalogs, *, most_jobs: int = REMEMBERED_JOBS) -> None:
        """Remember nothing yet; ``most_jobs`` bounds what will be."""
        self._catalogs = catalogs
        self._most_jobs = most_jobs
        self._jobs: OrderedDict[_Subject, ReportedJob] = OrderedDict()
        self._lock = Lock()

    def read(self, item: object, caller: Caller, now: datetime | None = None) -> Report:
        """Return the report that an item of a request is.

        Raises:
            ValidationFailedError: it has another shape, or was measured in the future.
            ImpossibleMeasurementError: no card could have measured this.
            UnknownDecisionError: it names a decision that does not exist.
            DomainError: its job contradicts itself.
        """
        given = validated(ReportIn, item)
        _check_time(given.measured_at, now or datetime.now(UTC))
        if given.decision_id is not None:
            raise _unknown_decision(given.decision_id)
        measured = given.measured.to_domain() if given.measured else MeasuredBytes()
        raw: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
        subject = canonical(raw["job"] if given.job is not None else raw["launch"])
        subject_digest = digest_of(subject)
        job = self._job(given, subject_digest)
        check_possible(measured, given.accelerator_total_bytes or job.card_bytes)
        document = canonical(_without_job(raw, subject_digest) if given.job is not None else raw)
        return Report(
            key=ReportKey(tenant=caller.tenant.name, run_id=given.run_id, rank=given.rank),
            submitter=caller.name,
            outcome=given.outcome,
            measured=measured,
            estimated=job.estimated,
            ranks_hold_equal_shares=job.ranks_hold_equal_shares,
            doubts=tuple(_doubts(given, measured, job)),
            measured_at=given.measured_at,
            job_digest=subject_digest
            if given.job is not None
            else job.read and digest_of(job.read),
            job_document=subject if given.job is not None else job.read,
            subject_digest=subject_digest,
            model=job.model,
            accelerator=job.accelerator or given.accelerator,
            accelerator_total_bytes=given.accelerator_total_bytes or job.card_bytes,
            step_seconds=given.step_seconds,
            tokens_per_second=given.tokens_per_second,
            digest=digest_of(document),
            document=document,
        )

    def _job(self, given: ReportIn, subject_digest: str) -> ReportedJob:
        # What a job does not say of its software it leaves to defaults; a launch cannot say it.
        stack = _stack(given) if given.launch is not None else None
        key = (subject_digest, given.accelerator, given.accelerator_total_bytes, stack)
        with self._lock:
            known = self._jobs.get(key)
            if known is not None:
                self._jobs.move_to_end(key)
                return known
        found = self._of_job(given) if given.launch is None else self._of_launch(given, stack)
        with self._lock:
            self._jobs[key] = found
            while len(self._jobs) > self._most_jobs:
                self._jobs.popitem(last=False)
        return found

    def _of_job(self, given: ReportIn) -> ReportedJob:
        try:
            description = validated(JobIn, given.job).to_domain()
        except ValidationFailedError as error:
            raise _below_job(error) from None
        try:
            return self._estimated(description, given)
        except UnknownNameError as error:
            return _unresolved(description.model.name, error)

    def _of_launch(self, given: ReportIn, stack: str | None) -> ReportedJob:
        """Return the job of a launch; what cannot be read of it is a doubt, not the trainer's fault."""
        if given.launch is None:
            raise ValueError("the report has no launch")
        try:
            launched = launched_job(given.launch.to_domain())
            description = whole_job(launched)
            if stack is not None and description.software.stack is None:
                software = replace(description.software, stack=stack)
                description = replace(description, software=software)
            job = self._estimated(description, given)
        except UnknownNameError as error:
            return _unresolved(None, error)
        except DomainError as error:
            return _unread(error)
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


def canonical(value: object) -> str:
    """Return the value as JSON that is the same however its keys were ordered and spaced."""
    return _CANONICAL(value)


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def _without_job(raw: Mapping[str, Any], job_digest: str) -> dict[str, Any]:
    return {**raw, "job": {"sha256": job_digest}}


def _doubts(given: ReportIn, measured: MeasuredBytes, job: ReportedJob) -> Iterator[Doubt]:
    yield from job.doubts
    yield from card_doubts(given.accelerator_total_bytes, job.card_bytes, str(job.accelerator))
    if job.estimated is not None:
        yield from estimate_doubts(measured, job.estimated, given.outcome)


def _unread(error: DomainError) -> ReportedJob:
    """Return what is known of a launch that no job could be read from: it is kept, and why."""
    message = f"No job could be read from the launch: {error.message.rstrip('.')}."
    return ReportedJob(
        model=None,
        estimated=None,
        ranks_hold_equal_shares=False,
        accelerator=None,
        card_bytes=None,
        doubts=(Doubt(code="job_unknown", message=message[:_LONGEST_DOUBT]),),
    )


def _stack(given: ReportIn) -> str | None:
    """Return the versions a trainer told, as the text of a stack."""
    told = sorted((given.software or {}).items())
    text = " / ".join(
        f"{name} {version}" for name, version in told if versions_in(f"{name} {version}")
    )
    return text[:MAX_STACK_TEXT] or None


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


def _below_job(error: ValidationFailedError) -> ValidationFailedError:
    fields = [replace(one, pointer=f"/job{one.pointer}") for one in error.fields]
    return ValidationFailedError(f"/job{error.message}", hint=error.hint, fields=fields)


def _check_time(moment: datetime | None, now: datetime) -> None:
    if moment is not None and moment > now + CLOCK_SKEW:
        detail = f"{moment.isoformat()} is in the future; here it is {now:%Y-%m-%dT%H:%M:%SZ}"
        raise ValidationFailedError(
            f"/measured_at: {detail}.",
            hint="Set the clock of the training node, or leave the field out.",
            fields=[FieldError(pointer="/measured_at", code="in_the_future", detail=detail)],
        )


def _unknown_decision(decision_id: str) -> UnknownDecisionError:
    detail = "there is no such decision; send the job"
    return UnknownDecisionError(
        f"/decision_id: {detail}.",
        fields=[
            FieldError(
                pointer=pointer("decision_id"),
                code="unknown_decision",
                detail=detail,
                value=decision_id,
            )
        ],
    )
