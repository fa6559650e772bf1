"""The scheduler's question answered: evidence, verdict, decision, and what would fit instead.

Everything here follows from its arguments alone, so that any replica, the command line and a replay
say the same.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from vramgate.admission.evidence import Evidence, Gap
from vramgate.admission.known import OpenField, open_fields
from vramgate.admission.offer import (
    DeviceVerdict,
    OfferedDevice,
    deciding_device,
    devices_needed,
)
from vramgate.admission.policy import CapacityMap, Terms
from vramgate.admission.ruling import Ruling, Wish, ruling_of
from vramgate.calibration.capacity import CapacityCheck, check_capacity
from vramgate.catalog.site import Catalogs
from vramgate.changes.change import FittingChange
from vramgate.changes.fitting import fitting_changes
from vramgate.changes.trials import Trial
from vramgate.costmodel.breakdown import Assumption, MemoryEstimate
from vramgate.costmodel.estimate import estimate_memory
from vramgate.errors import DomainError, UnknownNameError
from vramgate.jobs.description import HardwareDescription, JobDescription
from vramgate.jobs.resolve import ResolvedJob, resolve
from vramgate.launch.draft import Place
from vramgate.workflows.read_launch import at_launch
from vramgate.workflows.read_question import Subject

MOST_SUGGESTIONS = 3
_FIGURES = frozenset({"/job/hardware/occupied_bytes", "/job/hardware/device_memory_bytes"})
"""Of an offered device they say that others hold more than it has, or it more than its like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A job on the card that decides: what it takes, and what is not known of it."""

    evidence: Evidence
    said: JobDescription | None = None
    """The job as it was estimated, with the card it was placed on; what was left open is open."""
    resolved: ResolvedJob | None = None
    memory: MemoryEstimate | None = None
    check: CapacityCheck | None = None
    devices: tuple[DeviceVerdict, ...] = ()
    failure: DomainError | None = None
    """Why there is no probability."""
    placed: Assumption | None = None
    """The card that the policy's map named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A question answered, before it has an id."""

    subject: Subject
    terms: Terms
    finding: Finding
    ruling: Ruling
    suggestions: tuple[FittingChange, ...]


def always() -> bool:
    """Return that there is time."""
    return True


def admit_job(
    subject: Subject,
    terms: Terms,
    wish: Wish,
    *,
    capacity: CapacityMap,
    catalogs: Catalogs,
    may_go_on: Callable[[], bool] = always,
) -> Admission:
    """Return the decision on a job under a policy's terms; ``may_go_on`` may cut suggestions short."""
    finding = find_evidence(subject, terms, capacity=capacity, catalogs=catalogs)
    ruling = ruling_of(finding.evidence, terms, wish)
    return Admission(
        subject=subject,
        terms=terms,
        finding=finding,
        ruling=ruling,
        suggestions=_suggestions(finding, terms, catalogs, may_go_on),
    )


def _suggestions(
    finding: Finding, terms: Terms, catalogs: Catalogs, may_go_on: Callable[[], bool]
) -> tuple[FittingChange, ...]:
    """Return what would fit instead of a job that is too likely to run out of memory."""
    said, resolved = finding.said, finding.resolved
    memory, check = finding.memory, finding.check
    probability = finding.evidence.oom_probability
    if probability is None or probability <= terms.risk:
        return ()
    if said is None or resolved is None or memory is None or check is None:
        return ()
    return fitting_changes(
        said,
        models=catalogs.models,
        accelerators=catalogs.accelerators,
        risk=terms.risk,
        most=MOST_SUGGESTIONS,
        may_go_on=may_go_on,
        base=Trial(edits=(), said=said, resolved=resolved, memory=memory, check=check),
    )


def find_evidence(
    subject: Subject, terms: Terms, *, capacity: CapacityMap, catalogs: Catalogs
) -> Finding:
    """Return what is known of a job's chance to run out of memory."""
    description = subject.description
    if description is None:
        return _nothing(subject.gap or Gap.INCOMPLETE_LAUNCH, subject.failure)
    names_all = bool(subject.devices) and all(one.accelerator for one in subject.devices)
    placed = None
    if description.hardware.accelerator is None and not names_all:
        placed = placed_card(subject.place, capacity)
    if placed is not None:
        hardware = replace(description.hardware, accelerator=str(placed.value))
        description = replace(description, hardware=hardware)
    try:
        finding = _estimated(description, subject.devices, terms, catalogs)
    except DomainError as error:
        return _refused(subject, description, error, terms, catalogs)
    return replace(finding, placed=placed)


def placed_card(place: Place, capacity: CapacityMap) -> Assumption | None:
    """Return the card that a policy's map knows behind a queue or a node's label."""
    card = capacity.queues.get(place.queue or "")
    if card is not None:
        return _from_map(card, f"policy: queue {place.queue}")
    for label, value in sorted(place.node_labels.items()):
        card = capacity.node_labels.get(f"{label}={value}")
        if card is not None:
            return _from_map(card, f"policy: node label {label}={value}")
    return None


def _from_map(card: str, source: str) -> Assumption:
    return Assumption(field="hardware.accelerator", value=card, source=source)


def _estimated(
    description: JobDescription,
    offered: Sequence[OfferedDevice],
    terms: Terms,
    catalogs: Catalogs,
) -> Finding:
    if offered:
        return _on_offer(description, offered, terms, catalogs)
    resolved = _resolved(description, catalogs)
    memory = estimate_memory(resolved.job)
    check = check_capacity(int(memory.peak.required_bytes), resolved.job.hardware, terms.risk)
    unknown = open_fields(resolved)
    gap = Gap.UNKNOWN_CAPACITY if check.oom_probability is None else None
    return Finding(
        evidence=_evidence(check.oom_probability, gap, unknown),
        said=description,
        resolved=resolved,
        memory=memory,
        check=check,
    )


def _on_offer(
    description: JobDescription,
    offered: Sequence[OfferedDevice],
    terms: Terms,
    catalogs: Catalogs,
) -> Finding:
    """Return what the offered devices can do: the last one that the job needs of them decides."""
    held = {one.id: _held(description, one, terms, catalogs) for one in offered}
    verdicts = tuple(
        DeviceVerdict(
            id=one.id,
            accelerator=None if found.resolved is None else _card(found.resolved),
            check=found.check,
            problem="" if found.failure is None else found.failure.message,
        )
        for one, found in zip(offered, held.values(), strict=True)
    )
    first = next((one for one in held.values() if one.resolved is not None), None)
    if first is None or first.resolved is None:
        return replace(next(iter(held.values())), devices=verdicts)
    hardware = first.resolved.job.hardware
    needed = devices_needed(
        devices=int(hardware.devices),
        devices_per_node=int(hardware.devices_per_node),
        offered=len(offered),
    )
    decisive = deciding_device(verdicts, needed)
    if decisive is None:
        failure = DomainError(
            f"The job needs {needed} devices of known capacity; {len(offered)} are offered.",
            hint="Offer as many devices as the job takes of a node.",
        )
        evidence = _evidence(None, Gap.TOO_FEW_DEVICES, first.evidence.open_fields)
        return replace(first, evidence=evidence, failure=failure, devices=verdicts)
    return replace(held[decisive.id], devices=verdicts)


def _held(
    description: JobDescription, device: OfferedDevice, terms: Terms, catalogs: Catalogs
) -> Finding:
    """Return the job on one offered device."""
    hardware: HardwareDescription = device.hardware(description.hardware)
    try:
        return _estimated(replace(description, hardware=hardware), (), terms, catalogs)
    except DomainError as error:
        gap = _gap_of_device(error)
        if gap is None:
            raise
        return _nothing(gap, error)


def _refused(
    subject: Subject,
    description: JobDescription,
    error: DomainError,
    terms: Terms,
    catalogs: Catalogs,
) -> Finding:
    """Return what can be said of a job that names something unknown, or contradicts itself."""
    failure = error if subject.launch is None else at_launch(error, subject.launch)
    if not isinstance(error, UnknownNameError):
        return _nothing(Gap.INVALID_JOB, failure)
    if not _is_about_card(error):
        return _nothing(Gap.UNKNOWN_MODEL, failure)
    hardware = replace(description.hardware, accelerator=None, device_memory_bytes=None)
    try:
        finding = _estimated(replace(description, hardware=hardware), (), terms, catalogs)
    except DomainError as second:
        return _refused(subject, replace(description, hardware=hardware), second, terms, catalogs)
    unknown = finding.evidence.open_fields
    return replace(
        finding, evidence=_evidence(None, Gap.UNKNOWN_ACCELERATOR, unknown), failure=failure
    )


def _gap_of_device(error: DomainError) -> Gap | None:
    """Return what is not known where only the device is at fault; None where it is the job."""
    if isinstance(error, UnknownNameError):
        return Gap.UNKNOWN_ACCELERATOR if _is_about_card(error) else None
    faults = {one.pointer for one in error.fields}
    return Gap.UNKNOWN_CAPACITY if faults and faults <= _FIGURES else None


def _is_about_card(error: UnknownNameError) -> bool:
    return any(one.pointer.startswith("/job/hardware") for one in error.fields)


def _nothing(gap: Gap, failure: DomainError | None) -> Finding:
    return Finding(evidence=_evidence(None, gap, ()), failure=failure)


def _evidence(probability: float | None, gap: Gap | None, unknown: Iterable[OpenField]) -> Evidence:
    return Evidence(oom_probability=probability, gap=gap, open_fields=tuple(unknown))


def _resolved(description: JobDescription, catalogs: Catalogs) -> ResolvedJob:
    return resolve(description, models=catalogs.models, accelerators=catalogs.accelerators)


def _card(resolved: ResolvedJob) -> str | None:
    device = resolved.job.hardware.device
    return None if device is None else device.name


def assumptions_of(admission: Admission) -> Iterator[Assumption]:
    """Yield everything that was taken because nobody said it."""
    if admission.finding.placed is not None:
        yield admission.finding.placed
    if admission.subject.launch is not None:
        yield from admission.subject.launch.assumptions
    if admission.finding.resolved is not None:
        yield from admission.finding.resolved.assumptions
