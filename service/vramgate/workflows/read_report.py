"""A report as it was sent to one that can be kept: checked, estimated, doubted where it must be."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from vramgate.access import Caller
from vramgate.calibration.plausibility import card_doubts, check_possible, estimate_doubts
from vramgate.calibration.report import Doubt, MeasuredBytes, Report, ReportKey
from vramgate.catalog.site import Catalogs
from vramgate.errors import DomainError, FieldError
from vramgate.jobs.stack import MAX_STACK_TEXT, versions_in
from vramgate.json_text import canonical, digest_of
from vramgate.wire.reports import ReportIn
from vramgate.wire.validation import ValidationFailedError, validated
from vramgate.workflows.decided_jobs import (
    DecidedJob,
    Subject,
    other_decision,
    subject_of,
    unknown_decision,
)
from vramgate.workflows.reported_jobs import (
    REMEMBERED_JOBS,
    ReportedJob,
    ReportedJobs,
    unread_job,
)

CLOCK_SKEW = timedelta(minutes=10)
"""How far a trainer's clock may run ahead of ours."""
_NO_DECISIONS: Mapping[str, DecidedJob] = MappingProxyType({})


class ReportReader:
    """Reads reports against one state of the catalogs; may be used from several threads."""

    def __init__(self, catalogs: Catalogs, *, most_jobs: int = REMEMBERED_JOBS) -> None:
        """Remember nothing yet; ``most_jobs`` bounds what will be."""
        self._jobs = ReportedJobs(catalogs, most_jobs=most_jobs)

    def read(
        self,
        item: object,
        caller: Caller,
        now: datetime | None = None,
        *,
        decisions: Mapping[str, DecidedJob] = _NO_DECISIONS,
    ) -> Report:
        """Return the report that an item of a request is; ``decisions`` are those it may name.

        Raises:
            ValidationFailedError: it has another shape, or was measured in the future.
            ImpossibleMeasurementError: no card could have measured this.
            UnknownDecisionError: it names a decision that does not exist.
            OtherDecisionError: it names another decision than its token is for.
            DomainError: its job contradicts itself.
        """
        raw = _with_decision(item, caller)
        given = validated(ReportIn, raw)
        _check_time(given.measured_at, now or datetime.now(UTC))
        decided = _decision_of(given, caller, decisions)
        subject = _subject(given, raw, decided)
        measured = given.measured.to_domain() if given.measured else MeasuredBytes()
        job = self._job(given, subject, decided)
        check_possible(measured, given.accelerator_total_bytes or job.card_bytes)
        document = canonical(_without_job(raw, subject) if given.job is not None else raw)
        return Report(
            key=ReportKey(tenant=caller.tenant.name, run_id=given.run_id, rank=given.rank),
            submitter=caller.name,
            outcome=given.outcome,
            measured=measured,
            estimated=job.estimated,
            ranks_hold_equal_shares=job.ranks_hold_equal_shares,
            doubts=(*self._other_job(given, job, decided), *_doubts(given, measured, job)),
            measured_at=given.measured_at,
            job_digest=subject.digest if subject.is_job else job.read and digest_of(job.read),
            job_document=subject.text if subject.is_job else job.read,
            subject_digest=subject.digest,
            decision_id=given.decision_id,
            model=job.model,
            accelerator=job.accelerator or given.accelerator,
            accelerator_total_bytes=given.accelerator_total_bytes or job.card_bytes,
            step_seconds=given.step_seconds,
            tokens_per_second=given.tokens_per_second,
            digest=digest_of(document),
            document=document,
        )

    def _job(self, given: ReportIn, subject: Subject, decided: DecidedJob | None) -> ReportedJob:
        """Return what the report's own job or launch comes to, else the job of its decision."""
        if decided is not None and not _tells_its_job(given):
            return self._decided_job(given, decided)
        # What a job does not say of its software it leaves to defaults; a launch cannot say it.
        stack = _stack(given) if given.launch is not None else None
        return self._jobs.of(given, digest=subject.digest, stack=stack)

    def _decided_job(self, given: ReportIn, decided: DecidedJob) -> ReportedJob:
        """Return what the job of a decision comes to; its faults are not the trainer's."""
        source = f"decision {decided.decision_id}"
        if decided.job is None:
            return unread_job(source, "what was asked held none that could be read")
        asked = given.model_copy(update={"job": decided.job, "launch": None})
        stack = _stack(given) if decided.is_of_launch else None
        try:
            return self._jobs.of(asked, digest=decided.subject.digest, stack=stack)
        except DomainError as error:
            return unread_job(source, error.message)

    def _other_job(
        self, given: ReportIn, job: ReportedJob, decided: DecidedJob | None
    ) -> Iterator[Doubt]:
        """Yield a doubt where a report tells of another model than was admitted."""
        if decided is None or job.model is None or not _tells_its_job(given):
            return
        admitted = self._decided_job(given, decided).model
        if admitted is not None and admitted != job.model:
            message = f"Decision {decided.decision_id} admitted {admitted}, not {job.model}."
            yield Doubt(code="other_job", message=message)


def _with_decision(item: object, caller: Caller) -> Mapping[str, Any]:
    """Return the item with the decision that its token stands for, as if it had been sent."""
    raw: Mapping[str, Any] = item if isinstance(item, Mapping) else {}
    if caller.decision_id is None or raw.get("decision_id") is not None:
        return raw
    return {**raw, "decision_id": caller.decision_id}


def _decision_of(
    given: ReportIn, caller: Caller, decisions: Mapping[str, DecidedJob]
) -> DecidedJob | None:
    """Return the decision that a report is under; None where it names none."""
    if given.decision_id is None:
        return None
    if caller.decision_id is not None and given.decision_id != caller.decision_id:
        raise other_decision(given.decision_id, caller.decision_id)
    decided = decisions.get(given.decision_id)
    if decided is None:
        raise unknown_decision(given.decision_id)
    return decided


def _subject(given: ReportIn, raw: Mapping[str, Any], decided: DecidedJob | None) -> Subject:
    """Return what the report says it is of."""
    if decided is not None and not _tells_its_job(given):
        return decided.subject
    is_job = given.job is not None
    return subject_of(raw["job" if is_job else "launch"], is_job=is_job)


def _tells_its_job(given: ReportIn) -> bool:
    return given.job is not None or given.launch is not None


def _without_job(raw: Mapping[str, Any], subject: Subject) -> dict[str, Any]:
    return {**raw, "job": {"sha256": subject.digest}}


def _doubts(given: ReportIn, measured: MeasuredBytes, job: ReportedJob) -> Iterator[Doubt]:
    yield from job.doubts
    yield from card_doubts(given.accelerator_total_bytes, job.card_bytes, str(job.accelerator))
    if job.estimated is not None:
        yield from estimate_doubts(measured, job.estimated, given.outcome)


def _stack(given: ReportIn) -> str | None:
    """Return the versions a trainer told, as the text of a stack."""
    told = sorted((given.software or {}).items())
    text = " / ".join(
        f"{name} {version}" for name, version in told if versions_in(f"{name} {version}")
    )
    return text[:MAX_STACK_TEXT] or None


def _check_time(moment: datetime | None, now: datetime) -> None:
    if moment is not None and moment > now + CLOCK_SKEW:
        detail = f"{moment.isoformat()} is in the future; here it is {now:%Y-%m-%dT%H:%M:%SZ}"
        raise ValidationFailedError(
            f"/measured_at: {detail}.",
            hint="Set the clock of the training node, or leave the field out.",
            fields=[FieldError(pointer="/measured_at", code="in_the_future", detail=detail)],
        )
