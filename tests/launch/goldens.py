"""Golden launches: a published way to start a run, rewritten, and the job it is, field by field.

One YAML file each under ``golden/<framework>/``:

- ``source``: where the launch was published, and what the expected values rest on
- ``launch``: as the interface takes it
- ``job``: every field that should be read, by dotted path; no other may be
- ``unknown``: fields, or groups of fields, that are said out of sight (default: none)
- ``problems``: rules that the launch breaks (default: none)
- ``job_problems``: rules that the job breaks which it describes (default: none)
- ``from``: the place of some fields (optional)
- ``resolved``: fields of the job once defaults have filled it (optional)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vramgate.launch.documents import leaves
from vramgate.launch.draft import ParsedLaunch
from vramgate.launch.launch import Launch
from vramgate.launch.read import read_launch

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True, kw_only=True)
class Golden:
    """One launch and what is to be read of it."""

    name: str
    source: str
    launch: Mapping[str, Any]
    job: Mapping[str, Any]
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    job_problems: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    resolved: Mapping[str, Any] = field(default_factory=dict)

    def parsed(self) -> ParsedLaunch:
        """Read the launch."""
        return read_launch(Launch(**self.launch))


def goldens(framework: str | None = None) -> Iterator[Golden]:
    """Yield the golden launches, of one framework or of all."""
    for path in sorted(FOLDER.rglob("*.yaml")):
        if framework is not None and path.parent.name != framework:
            continue
        told = yaml.safe_load(path.read_text())
        yield Golden(
            name=f"{path.parent.name}/{path.stem}",
            source=told["source"],
            launch=told["launch"],
            job=told["job"],
            unknown=tuple(told.get("unknown", ())),
            problems=tuple(told.get("problems", ())),
            job_problems=tuple(told.get("job_problems", ())),
            provenance=told.get("from", {}),
            resolved=told.get("resolved", {}),
        )


def flat(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's fields by dotted path; a model's config stays whole."""
    found = dict(leaves({key: value for key, value in job.items() if key != "model"}))
    found |= {f"model.{key}": value for key, value in job.get("model", {}).items()}
    return found
