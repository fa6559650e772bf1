"""A launch to be read, and what was read of it."""

from pydantic import Field

from vramgate.jobs.description import JobDescription
from vramgate.launch.draft import ParsedLaunch
from vramgate.wire.answers import (
    Answer,
    AssumptionAnswer,
    WarningAnswer,
    shown_assumptions,
    shown_warnings,
)
from vramgate.wire.job import JobPartOut
from vramgate.wire.job_parts import WireIn
from vramgate.wire.launch import LaunchIn
from vramgate.wire.launch_answers import (
    LaunchProblemAnswer,
    ProvenanceAnswer,
    UnknownAnswer,
    shown_problems,
    shown_provenance,
    shown_unknown,
)
from vramgate.wire.machine_parts import HardwareIn


class ParseRequest(WireIn):
    """A launch in its framework's own words."""

    launch: LaunchIn
    hardware: HardwareIn | None = Field(
        default=None, description="The cards, whatever the launch says of them."
    )


class ParseResponse(Answer):
    """The job that a launch starts, and where each field of it stands."""

    framework: str | None
    job: JobPartOut = Field(
        description="Whole where nothing it needs is unknown; else what was read of it."
    )
    provenance: dict[str, ProvenanceAnswer] = Field(
        description="Every field of `job`, by dotted path: where it was read, or whose default it is."
    )
    unknown: list[UnknownAnswer] = Field(
        description="What is said out of sight; it is left out of `job`, never guessed."
    )
    problems: list[LaunchProblemAnswer] = Field(
        description="Why the launch would not run, whatever memory there is."
    )
    missing_files: list[str] = Field(
        description="Files that the launch names and that did not come along."
    )
    assumptions: list[AssumptionAnswer]
    warnings: list[WarningAnswer]


def parse_response(launch: ParsedLaunch, job: JobDescription) -> ParseResponse:
    """Return the answer for a launch; ``job`` is what is known of it."""
    return ParseResponse(
        framework=launch.framework,
        job=JobPartOut.from_domain(job),
        provenance=shown_provenance(launch.provenance),
        unknown=shown_unknown(launch.unknown),
        problems=shown_problems(launch.problems),
        missing_files=list(launch.missing_files),
        assumptions=shown_assumptions(launch.assumptions),
        warnings=shown_warnings(launch.warnings),
    )


class FileAnswer(Answer):
    """A file that launches may name by its digest."""

    sha256: str
    bytes: int
    kept_until: str = Field(description="RFC 3339; sending the file again puts it off.")
