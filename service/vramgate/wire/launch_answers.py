"""What was read of a launch, as answers show it."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict, Field

from vramgate.launch.draft import ParsedLaunch, Problem, UnknownField
from vramgate.launch.reading import Found
from vramgate.wire.answers import Answer


class FromAnswer(Answer):
    """Base of what names its place."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)


class ProvenanceAnswer(FromAnswer):
    """A value, and where it stands: `args[7] --per_device_train_batch_size`."""

    value: Any
    source: str = Field(alias="from")


class UnknownAnswer(FromAnswer):
    """A field that is said out of sight."""

    field: str = Field(description="A field of the job, or a group of them, by dotted path.")
    source: str = Field(alias="from")
    reason: str
    hint: str


class LaunchProblemAnswer(Answer):
    """Why the launch would not run, whatever memory there is."""

    code: str = Field(description="Always `invalid_job`.")
    rule: str
    detail: str
    fix: str
    field: str | None
    values: dict[str, Any] = Field(description="What was said, by its place.")


class LaunchAnswer(Answer):
    """What a launch says of its job, and where."""

    framework: str | None
    provenance: dict[str, ProvenanceAnswer] = Field(
        description="Every field that the launch says, by dotted path."
    )
    unknown: list[UnknownAnswer]
    missing_files: list[str] = Field(
        description="Files that the launch names and that did not come along."
    )

    @classmethod
    def from_domain(cls, launch: ParsedLaunch) -> Self:
        """Return the wire shape."""
        return cls(
            framework=launch.framework,
            provenance=shown_provenance(launch.provenance),
            unknown=shown_unknown(launch.unknown),
            missing_files=list(launch.missing_files),
        )


def shown_provenance(provenance: Mapping[str, Found[Any]]) -> dict[str, ProvenanceAnswer]:
    """Return each field with its place."""
    return {
        field: ProvenanceAnswer.model_validate({"value": found.value, "from": found.source})
        for field, found in provenance.items()
    }


def shown_unknown(unknown: tuple[UnknownField, ...]) -> list[UnknownAnswer]:
    """Return what is said out of sight."""
    return [
        UnknownAnswer.model_validate(
            {"field": one.field, "from": one.source, "reason": one.reason, "hint": one.hint}
        )
        for one in unknown
    ]


def shown_problems(problems: tuple[Problem, ...]) -> list[LaunchProblemAnswer]:
    """Return why the launch would not run."""
    return [
        LaunchProblemAnswer(
            code="invalid_job",
            rule=one.rule,
            detail=one.detail,
            fix=one.fix,
            field=one.field,
            values=dict(one.values),
        )
        for one in problems
    ]
