"""A launch to a job: read, checked against the interface's bounds, completed where nothing is missing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from vramgate.catalog.site import Catalogs
from vramgate.errors import (
    DomainError,
    FieldError,
    InvalidJobError,
    InvalidModelConfigError,
    UnknownNameError,
)
from vramgate.jobs.description import JobDescription
from vramgate.jobs.resolve import ResolvedJob, resolve
from vramgate.launch.documents import leaves
from vramgate.launch.draft import ParsedLaunch, Problem, UnknownField
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch
from vramgate.launch.reading import Found
from vramgate.wire.job import JobPartIn, JobPartOut
from vramgate.wire.launch import LaunchIn
from vramgate.wire.launches import ParseRequest, ParseResponse, parse_response
from vramgate.wire.machine_parts import HardwareIn
from vramgate.wire.validation import ValidationFailedError, validated

_OF_THE_CARD_ALONE = (
    "hardware.accelerator",
    "hardware.device_memory_bytes",
    "hardware.devices_per_node",
    "hardware.occupied_bytes",
)
"""Without them a job has a peak all the same, only no card to hold it against."""

_HINTS = 3


class IncompleteLaunchError(DomainError):
    """What the job needs is said out of sight, or not at all."""

    code = "incomplete_launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedJob:
    """What a launch says, within the interface's bounds."""

    launch: ParsedLaunch
    description: JobDescription
    """Without a model where none was read."""

    @property
    def has_model(self) -> bool:
        """Whether the launch says which model it trains."""
        model = self.description.model
        return (model.name or model.config or model.parameters) is not None

    @property
    def needed_unknowns(self) -> tuple[UnknownField, ...]:
        """What is out of sight and decides about the peak."""
        return tuple(one for one in self.launch.unknown if one.field not in _OF_THE_CARD_ALONE)


def launched_job(launch: Launch, *, hardware: Mapping[str, object] | None = None) -> LaunchedJob:
    """Return what a launch says of its job; values out of bounds are problems of it.

    Raises:
        UnreadableLaunchError: a text is not what it should be.
        UnknownFrameworkError: a configuration of a framework whose words are not known.
    """
    read = read_launch(launch, hardware=hardware)
    try:
        return LaunchedJob(launch=read, description=validated(JobPartIn, read.job).to_domain())
    except ValidationFailedError as error:
        faults = {_path(one.pointer): one for one in error.fields}
    job = _without(read.job, faults)
    try:
        description = validated(JobPartIn, job).to_domain()
    except ValidationFailedError:
        # A fault of a whole part that no single field carries.
        description = JobPartIn().to_domain()
    problems = [_out_of_bounds(path, one, read.provenance) for path, one in faults.items()]
    return LaunchedJob(
        launch=replace(read, job=job, problems=(*read.problems, *problems)),
        description=description,
    )


def launch_of(given: LaunchIn, stored: Mapping[str, str]) -> Launch:
    """Return a launch with its files in place; ``stored`` has those named by digest.

    Raises:
        ValidationFailedError: a digest stands for no file of the caller's.
    """
    missing = list(given.missing(stored))
    if missing:
        fields = [
            FieldError(
                pointer=f"/launch/files/{name}/sha256",
                code="unknown_file",
                detail="there is no such file; PUT its text to /v1/files/{sha256} first",
                value=digest,
            )
            for name, digest in missing
        ]
        raise ValidationFailedError(f"{fields[0].pointer}: {fields[0].detail}.", fields=fields)
    return given.to_domain(stored)


def hardware_said(hardware: HardwareIn | None) -> dict[str, object]:
    """Return what a request says of the cards."""
    return {} if hardware is None else hardware.model_dump(exclude_none=True)


def parse(request: ParseRequest, catalogs: Catalogs, stored: Mapping[str, str]) -> ParseResponse:
    """Return what a launch says, and the job it starts.

    Raises:
        UnreadableLaunchError: a text is not what it should be.
        UnknownFrameworkError: a configuration of a framework whose words are not known.
    """
    launch = launch_of(request.launch, stored)
    return parsed(launched_job(launch, hardware=hardware_said(request.hardware)), catalogs)


def parsed(launched: LaunchedJob, catalogs: Catalogs) -> ParseResponse:
    """Return the answer for a launch that was read."""
    launched, resolved = completed(launched, catalogs)
    if resolved is None:
        return parse_response(launched.launch, launched.description)
    return parse_response(_explained(launched.launch, resolved), resolved.description)


def completed(launched: LaunchedJob, catalogs: Catalogs) -> tuple[LaunchedJob, ResolvedJob | None]:
    """Return the launch with what the catalog and the rules say of it, and its job where it is whole."""
    launch = launched.launch
    if launch.problems or launched.needed_unknowns or not launched.has_model:
        return launched, None
    try:
        resolved = resolve(
            launched.description, models=catalogs.models, accelerators=catalogs.accelerators
        )
    except (InvalidJobError, InvalidModelConfigError) as error:
        problems = tuple(_problems_of(error, launch.provenance))
        return replace(launched, launch=replace(launch, problems=problems)), None
    except UnknownNameError as error:
        unknown = (*launch.unknown, *_unknown_names(error, launch.provenance))
        return replace(launched, launch=replace(launch, unknown=unknown)), None
    return launched, resolved


def whole_job(launched: LaunchedJob) -> JobDescription:
    """Return the job of a launch that says all it must.

    Raises:
        InvalidJobError: the launch would not run.
        IncompleteLaunchError: something the job needs is out of sight.
    """
    launch = launched.launch
    if launch.problems:
        raise _invalid(launch.problems)
    unknown = launched.needed_unknowns
    if unknown:
        raise _incomplete(
            [(one.field, f"{one.reason} ({one.source})", one.hint) for one in unknown]
        )
    if not launched.has_model:
        what = "the launch names no model"
        raise _incomplete([("model", what, "name it in launch.env as VRAMGATE_MODEL")])
    return launched.description


def at_launch(error: DomainError, launch: ParsedLaunch) -> DomainError:
    """Return an error about fields of a job as one about the launch that said them."""
    fields = [
        replace(
            one,
            pointer="/launch",
            detail=f"{_place(_path(one.pointer.removeprefix('/job')), launch.provenance)}{one.detail}",
        )
        if one.pointer.startswith("/job")
        else one
        for one in error.fields
    ]
    return type(error)(error.message, hint=error.hint, fields=fields, **error.data)


def _invalid(problems: tuple[Problem, ...]) -> InvalidJobError:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    fixes = list(dict.fromkeys(one.fix for one in problems if one.fix))[:_HINTS]
    return InvalidJobError(
        f"{problems[0].detail}{more}",
        hint="; ".join(fixes),
        fields=[
            FieldError(
                pointer="/launch",
                code=one.rule,
                detail=f"{one.detail}; {one.fix}" if one.fix else one.detail,
                value=next(iter(one.values.values()), None),
            )
            for one in problems
        ],
    )


def _incomplete(unknown: list[tuple[str, str, str]]) -> IncompleteLaunchError:
    field, reason, hint = unknown[0]
    more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
    return IncompleteLaunchError(
        f"{field} is not known: {reason}{more}",
        hint=hint,
        fields=[
            FieldError(
                pointer="/launch",
                code="unknown",
                detail=f"{field}: {reason}; {hint}" if hint else f"{field}: {reason}",
            )
            for field, reason, hint in unknown
        ],
    )


def _problems_of(error: DomainError, provenance: Mapping[str, Found[Any]]) -> Iterator[Problem]:
    for one in error.fields:
        path = _path(one.pointer.removeprefix("/job"))
        found = provenance.get(path)
        detail, _, fix = one.detail.rpartition("; ")
        yield Problem(
            rule=one.code,
            detail=f"{_place(path, provenance)}{detail or one.detail}",
            fix=fix if detail else error.hint,
            values={found.source if found else path: one.value},
            field=path,
        )
    if not error.fields:
        yield Problem(rule=error.code, detail=error.message, fix=error.hint, values={}, field=None)


def _unknown_names(
    error: UnknownNameError, provenance: Mapping[str, Found[Any]]
) -> Iterator[UnknownField]:
    for one in error.fields:
        path = _path(one.pointer.removeprefix("/job"))
        field = "model" if path.startswith("model") else path
        found = provenance.get(path)
        yield UnknownField(
            field=field,
            source=found.source if found else path,
            reason=one.detail.rstrip("."),
            hint=error.hint,
        )


def _explained(launch: ParsedLaunch, resolved: ResolvedJob) -> ParsedLaunch:
    """Return the launch with a place for every field of the whole job."""
    job = JobPartOut.from_domain(resolved.description).model_dump(mode="json", exclude_none=True)
    defaults = {one.field: one.source for one in resolved.assumptions}
    provenance = {
        field: Found(
            value,
            launch.provenance[field].source
            if field in launch.provenance
            else _default_source(field, defaults),
        )
        for field, value in _fields(job)
    }
    return replace(
        launch,
        provenance=provenance,
        assumptions=(*launch.assumptions, *resolved.assumptions),
        warnings=(*launch.warnings, *resolved.warnings),
    )


def _fields(job: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for part, value in job.items():
        if part == "model":
            yield from ((f"model.{field}", inner) for field, inner in value.items())
        else:
            yield from leaves(value, part)


def _default_source(field: str, defaults: Mapping[str, str]) -> str:
    """Return whose default a field is, or that of the part it belongs to."""
    while field:
        if field in defaults:
            return defaults[field]
        field = field.rpartition(".")[0]
    return "follows from the other fields"


def _out_of_bounds(path: str, fault: FieldError, provenance: Mapping[str, Found[Any]]) -> Problem:
    found = provenance.get(path)
    return Problem(
        rule="not_a_value",
        detail=f"{_place(path, provenance)}{path} {fault.detail}",
        fix=f"write a value that {path} may have",
        values={found.source if found else path: fault.value},
        field=path,
    )


def _place(path: str, provenance: Mapping[str, Found[Any]]) -> str:
    found = provenance.get(path)
    return f"{found.source}: " if found else ""


def _path(pointer: str) -> str:
    """Return a JSON pointer into a job as a dotted path; what is in a list is the list's.

    >>> _path("/method/target_modules/0")
    'method.target_modules'
    """
    parts = [part for part in pointer.split("/")[1:] if not part.isdecimal()]
    return ".".join(parts)


def _without(job: Mapping[str, Any], paths: Mapping[str, object]) -> dict[str, Any]:
    """Return a job without the fields of these paths."""
    kept: dict[str, Any] = {}
    for name, value in job.items():
        if name in paths:
            continue
        below = {
            path.removeprefix(f"{name}."): one
            for path, one in paths.items()
            if path.startswith(f"{name}.")
        }
        kept[name] = _without(value, below) if below and isinstance(value, Mapping) else value
    return kept
