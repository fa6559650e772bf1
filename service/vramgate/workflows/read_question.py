"""What a scheduler asks about: the job, read from its description or its launch, as far as it goes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vramgate.admission.decision import Mode
from vramgate.admission.evidence import Gap
from vramgate.admission.offer import OfferedDevice
from vramgate.admission.ruling import Wish
from vramgate.errors import DomainError
from vramgate.jobs.description import JobDescription
from vramgate.launch.draft import ParsedLaunch, Place
from vramgate.reporter.redaction import masked_everywhere, without_secret_names
from vramgate.wire.admissions import AdmitRequest
from vramgate.wire.job import JobIn
from vramgate.wire.validation import ValidationFailedError, validated
from vramgate.workflows.launch_secrets import hidden, secrets_in
from vramgate.workflows.read_launch import (
    IncompleteLaunchError,
    hardware_said,
    launch_of,
    launched_job,
    whole_job,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a question is about. Without a description, ``gap`` and ``failure`` say why there is none."""

    description: JobDescription | None
    launch: ParsedLaunch | None = None
    gap: Gap | None = None
    failure: DomainError | None = None
    devices: tuple[OfferedDevice, ...] = ()
    place: Place
    """Where it is to run, in the site's own words."""
    document: Mapping[str, Any]
    """What a replay needs, without secrets."""
    characters: int = 0
    """Of the question it was read from, and of the files it names."""


def read_subject(request: AdmitRequest, stored: Mapping[str, str]) -> Subject:
    """Return what a question is about; ``stored`` has the files that its launch names by digest.

    Raises:
        ValidationFailedError: the job has another shape, or a file of the launch is not stored.
    """
    subject = _of_job(request) if request.launch is None else _of_launch(request, stored)
    place = Place(
        queue=request.queue or subject.place.queue,
        node_labels={**subject.place.node_labels, **(request.node_labels or {})},
    )
    return replace(
        subject,
        devices=tuple(one.to_domain() for one in request.devices or ()),
        place=place,
        document=_whole_document(request, subject.document, place),
        characters=request.characters + sum(map(len, stored.values())),
    )


def _whole_document(
    request: AdmitRequest, asked: Mapping[str, Any], place: Place
) -> Mapping[str, Any]:
    """Return what a replay needs, without secrets; ``asked`` is what was read of job or launch."""
    offered = [one.model_dump(mode="json", exclude_none=True) for one in request.devices or ()]
    document = {
        **asked,
        # A config.json is its author's own: fields of it that no estimate reads may hold anything.
        "job": without_secret_names(asked["job"]),
        "devices": offered or None,
        "place": _shown(place),
        "wish": _shown_wish(request),
    }
    masked: Any = hidden(masked_everywhere(document), secrets_in(request))
    return dict(masked)


def unread_launch(request: AdmitRequest) -> Subject:
    """Return the subject of a question whose launch there was no time to read."""
    why = {"code": Gap.OUT_OF_TIME.value, "message": "The launch was not read.", "hint": ""}
    place = Place(queue=request.queue, node_labels=request.node_labels or {})
    offered = [one.model_dump(mode="json", exclude_none=True) for one in request.devices or ()]
    document = {"job": None, "launch": None, "gap": why, "devices": offered or None}
    return Subject(
        description=None,
        gap=Gap.OUT_OF_TIME,
        devices=tuple(one.to_domain() for one in request.devices or ()),
        place=place,
        document={**document, "place": _shown(place), "wish": _shown_wish(request)},
    )


def kept_wish(document: Mapping[str, Any]) -> Wish:
    """Return what was asked for beside the question itself."""
    mode = document["wish"]["mode"]
    return Wish(
        mode=None if mode is None else Mode(mode), break_glass=document["wish"]["break_glass"]
    )


def kept_subject(document: Mapping[str, Any]) -> Subject:
    """Return the subject of a kept decision, from the document it was kept as.

    Raises:
        ValidationFailedError: the job it holds is none that this version takes.
    """
    place = Place(**document["place"])
    devices = tuple(OfferedDevice(**one) for one in document["devices"] or ())
    gap = document["gap"]
    if gap is not None:
        failure = DomainError(gap["message"], hint=gap["hint"])
        return Subject(
            description=None,
            gap=Gap(gap["code"]),
            failure=failure,
            devices=devices,
            place=place,
            document=document,
        )
    description = _described(document["job"])
    return Subject(description=description, devices=devices, place=place, document=document)


def _of_job(request: AdmitRequest) -> Subject:
    return Subject(
        description=_described(request.job),
        place=Place(),
        document={"job": request.job, "launch": None, "gap": None},
    )


def _described(job: object) -> JobDescription:
    try:
        return validated(JobIn, job).to_domain()
    except ValidationFailedError as error:
        fields = [replace(one, pointer=f"/job{one.pointer}") for one in error.fields]
        raise ValidationFailedError(
            f"/job{error.message}", hint=error.hint, fields=fields
        ) from None


def _of_launch(request: AdmitRequest, stored: Mapping[str, str]) -> Subject:
    if request.launch is None:
        raise ValueError("the question has no launch")
    launch = launch_of(request.launch, stored)
    try:
        launched = launched_job(launch, hardware=hardware_said(request.hardware))
    except DomainError as error:
        return _without_job(None, Gap.UNREADABLE_LAUNCH, error)
    read = launched.launch
    try:
        description = whole_job(launched)
    except IncompleteLaunchError as error:
        return _without_job(read, Gap.INCOMPLETE_LAUNCH, error)
    except DomainError as error:
        return _without_job(read, Gap.INVALID_JOB, error)
    document = {"job": dict(read.job), "launch": _shown_launch(read), "gap": None}
    return Subject(description=description, launch=read, place=read.place, document=document)


def _without_job(read: ParsedLaunch | None, gap: Gap, error: DomainError) -> Subject:
    why = {"code": gap.value, "message": error.message, "hint": error.hint}
    job = None if read is None else dict(read.job)
    return Subject(
        description=None,
        launch=read,
        gap=gap,
        failure=error,
        place=Place() if read is None else read.place,
        document={"job": job, "launch": _shown_launch(read), "gap": why},
    )


def _shown_launch(read: ParsedLaunch | None) -> dict[str, Any] | None:
    """Return what is kept of a launch: of its own words none, as nobody knows what else they hold."""
    if read is None:
        return None
    return {
        "framework": read.framework,
        "unknown": [{"field": one.field, "reason": one.reason} for one in read.unknown],
        "problems": [{"rule": one.rule, "detail": one.detail} for one in read.problems],
    }


def _shown(place: Place) -> dict[str, Any]:
    return {"queue": place.queue, "node_labels": dict(place.node_labels)}


def _shown_wish(request: AdmitRequest) -> dict[str, Any]:
    return {"mode": request.mode, "break_glass": request.break_glass}
