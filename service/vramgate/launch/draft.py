"""Draft: a job as far as it was read, each field with its place; what it becomes in the end."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any, get_type_hints

from vramgate.costmodel.breakdown import Assumption, EstimateWarning
from vramgate.errors import shortened
from vramgate.jobs.description import JobDescription
from vramgate.jobs.precision import PrecisionPreset, preset_description
from vramgate.launch.reading import Found, Misread, Reading, Unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownField:
    """A field that is said somewhere out of sight; ``field`` may be a group: ``sharding``."""

    field: str
    source: str
    reason: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why the launch would not run: the rule it breaks, the values that break it, and the way out."""

    rule: str
    """A stable name: ``fp16_with_bf16``."""
    detail: str
    fix: str
    values: Mapping[str, object]
    """What was said, by place: ``{"args[3] --bf16": True}``."""
    field: str | None = None
    """The field of the job it is about, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the run is to go, in the site's own words, which only the site can tell a card by."""

    queue: str | None = None
    """The partition or queue."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    """What it demands of its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLaunch:
    """What a launch says, in the job's own words."""

    framework: str | None
    job: Mapping[str, Any]
    """Nested as the published interface has it; only what was read."""
    provenance: Mapping[str, Found[Any]]
    """By dotted path: ``sharding.zero_stage``."""
    unknown: tuple[UnknownField, ...]
    problems: tuple[Problem, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[EstimateWarning, ...]
    missing_files: tuple[str, ...]
    """Files that it names and that did not come along."""
    place: Place = field(default_factory=Place)


MOST_PROBLEMS = 64
LONGEST_TEXT = 500
"""Characters of a sentence, or of a place, that an answer repeats."""


class Draft:
    """Collects what is read of one job. What is said later replaces what was said before.

    Readers therefore go from the weakest source to the strongest: the machine asked for, a packaged
    recipe, a file, the command line, annotations.
    """

    __slots__ = ("_fields", "_unknown", "assumptions", "place", "problems", "warnings")

    def __init__(self) -> None:
        self._fields: dict[str, Found[Any]] = {}
        self._unknown: dict[str, UnknownField] = {}
        self.problems: list[Problem] = []
        self.assumptions: list[Assumption] = []
        self.warnings: list[EstimateWarning] = []
        self.place = Place()

    def say(self, field: str, reading: Reading[Any]) -> None:
        """Keep what was read of a field: its value, that it is out of sight, or that it means nothing."""
        if reading is None:
            return
        if field not in FIELDS:
            raise KeyError(field)
        if isinstance(reading, Found):
            self._fields[field] = Found(_plain(reading.value), reading.source)
            self._unknown.pop(field, None)
        elif isinstance(reading, Unseen):
            self._fields.pop(field, None)
            self.unknown(field, reading)
        else:
            self.misread(field, reading)

    def say_preset(self, reading: Reading[PrecisionPreset]) -> None:
        """Keep a whole precision."""
        if isinstance(reading, Found):
            preset = preset_description(reading.value)
            for one in fields(preset):
                value = getattr(preset, one.name)
                if value is not None:
                    self.say(f"precision.{one.name}", Found(value, reading.source))
        elif isinstance(reading, Unseen):
            self.unknown("precision", reading)
        elif reading is not None:
            self.misread("precision", reading)

    def forget(self, field: str) -> None:
        """Drop a field and every one below it."""
        for name in [name for name in self._fields if _is_below(name, field)]:
            del self._fields[name]
        for name in [name for name in self._unknown if _is_below(name, field)]:
            del self._unknown[name]

    def said(self, field: str) -> Found[Any] | None:
        """Return what was read of a field so far."""
        return self._fields.get(field)

    def unknown(self, field: str, unseen: Unseen) -> None:
        """Name a field, or a group of fields, as out of sight."""
        self._unknown[field] = UnknownField(
            field=field, source=unseen.source, reason=unseen.reason, hint=unseen.hint
        )

    def settle(self, group: str) -> None:
        """Take a group of fields as seen after all; those named by themselves stay unknown."""
        self._unknown.pop(group, None)

    def misread(self, field: str | None, misread: Misread) -> None:
        """Report a value that is not what belongs there."""
        self.problem(
            Problem(
                rule="not_a_value",
                detail=f"{misread.source} is {_short(misread.value)}, not {misread.expected}",
                fix=f"write {misread.expected}",
                values={misread.source: _plain(misread.value)},
                field=field,
            )
        )

    def problem(self, problem: Problem) -> None:
        """Report why the launch would not run; the first of many are enough."""
        if len(self.problems) < MOST_PROBLEMS and problem not in self.problems:
            self.problems.append(problem)

    def assume(self, field: str, value: object, source: str) -> None:
        """Keep a value that nobody wrote: of a packaged recipe, of a launcher's own default."""
        self.say(field, Found(value, source))
        self.assumptions.append(Assumption(field=field, value=_plain(value), source=source))

    def warn(self, code: str, message: str) -> None:
        """Note something that is known to mislead."""
        warning = EstimateWarning(code=code, message=message)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def finished(self, *, missing_files: Iterable[str] = ()) -> ParsedLaunch:
        """Return what was read."""
        framework = self._fields.get("software.framework")
        return ParsedLaunch(
            framework=framework.value if framework else None,
            job=_nested(self._fields),
            provenance={
                field: Found(found.value, shortened(found.source, LONGEST_TEXT))
                for field, found in self._fields.items()
            },
            unknown=tuple(_bounded_unknown(one) for one in self._unknown.values()),
            problems=tuple(_bounded_problem(one) for one in self.problems),
            assumptions=tuple(
                one for one in self.assumptions if _still_holds(one, self._fields.get(one.field))
            ),
            warnings=tuple(
                replace(one, message=shortened(one.message, LONGEST_TEXT)) for one in self.warnings
            ),
            missing_files=tuple(missing_files),
            place=self.place,
        )


def _bounded_unknown(one: UnknownField) -> UnknownField:
    """Return it with texts that stay a line, whatever words of the launch stand in them."""
    return UnknownField(
        field=one.field,
        source=shortened(one.source, LONGEST_TEXT),
        reason=shortened(one.reason, LONGEST_TEXT),
        hint=shortened(one.hint, LONGEST_TEXT),
    )


def _bounded_problem(one: Problem) -> Problem:
    return replace(
        one,
        detail=shortened(one.detail, LONGEST_TEXT),
        fix=shortened(one.fix, LONGEST_TEXT),
        values={
            shortened(place, LONGEST_TEXT): _bounded_value(value)
            for place, value in one.values.items()
        },
    )


def _bounded_value(value: object) -> object:
    """Return a value as it may be repeated: scalars and short texts; of others how they begin."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return shortened(text, LONGEST_TEXT)


def _still_holds(assumption: Assumption, said: Found[Any] | None) -> bool:
    return said is not None and said.source == assumption.source


def _is_below(name: str, field: str) -> bool:
    return name == field or name.startswith(f"{field}.")


def _nested(said: Mapping[str, Found[Any]]) -> dict[str, Any]:
    job: dict[str, Any] = {}
    for path, found in said.items():
        *parents, last = path.split(".")
        here = job
        for parent in parents:
            here = here.setdefault(parent, {})
        here[last] = found.value
    return job


def _paths(shape: type, prefix: str = "") -> Iterator[str]:
    hints = get_type_hints(shape)
    for one in fields(shape):
        kind = hints[one.name]
        if is_dataclass(kind) and isinstance(kind, type):
            yield from _paths(kind, f"{prefix}{one.name}.")
        else:
            yield f"{prefix}{one.name}"


FIELDS = frozenset(_paths(JobDescription))
"""Every field of a job, by dotted path."""

_SHOWN = 80


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _plain(value: object) -> Any:  # noqa: ANN401 JSON
    """Return a value as JSON holds it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list | frozenset):
        return [_plain(item) for item in value]
    return value
