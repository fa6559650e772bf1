"""The frameworks' own parsers as judges of ours, each in an environment of its own.

``python -m tests.launch.judging`` makes the environments; ``make test-frameworks`` does that and runs
the comparison. A judge is a script in ``judges/``: it reads launches as JSON lines and prints how its
framework reads each, in fields of our job. What it needs stands in its line ``# requires:``; the folders
of golden launches it judges in ``# goldens:`` (its own name where there is none).
"""

import json
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.launch.goldens import Golden, flat, goldens
from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.errors import DomainError
from vramgate.jobs.resolve import resolve
from vramgate.launch.draft import ParsedLaunch
from vramgate.wire.job import JobIn, JobOut

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venv-frameworks"
JUDGING_SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Judge:
    """One framework's own parser."""

    name: str
    script: Path
    requires: tuple[str, ...]
    folders: tuple[str, ...]

    @property
    def python(self) -> Path:
        """Return the interpreter of its environment."""
        return ENVIRONMENTS / self.name / "bin" / "python"

    def install(self) -> None:
        """Make its environment, unless it is there with the same requirements."""
        note = ENVIRONMENTS / self.name / "requires.txt"
        wanted = "\n".join(self.requires)
        if note.is_file() and note.read_text() == wanted:
            return
        venv.create(ENVIRONMENTS / self.name, with_pip=True, clear=True)
        subprocess.run([self.python, "-m", "pip", "install", "--quiet", *self.requires], check=True)
        note.write_text(wanted)

    def goldens(self) -> list[Golden]:
        """Return the launches it judges."""
        return [golden for folder in self.folders for golden in goldens(folder)]

    def verdicts(self) -> dict[str, dict[str, Any]]:
        """Return how the framework reads each of its launches, by name."""
        lines = [
            json.dumps({"name": golden.name, "launch": dict(golden.launch)})
            for golden in self.goldens()
        ]
        done = subprocess.run(
            [self.python, "-P", self.script],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=False,
            timeout=JUDGING_SECONDS,
        )
        if done.returncode != 0:
            raise AssertionError(f"{self.name}: {done.stderr[-4000:]}")
        told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {one["name"]: one for one in told}


def judges() -> Iterator[Judge]:
    """Yield the judges there are."""
    for script in sorted((Path(__file__).parent / "judges").glob("*.py")):
        text = script.read_text()
        requires = re.search(r"^# requires: (.+)$", text, re.MULTILINE)
        folders = re.search(r"^# goldens: (.+)$", text, re.MULTILINE)
        if requires is None:
            continue
        yield Judge(
            name=script.stem,
            script=script,
            requires=tuple(requires[1].split()),
            folders=tuple(folders[1].split()) if folders else (script.stem,),
        )


def our_reading(golden: Golden) -> tuple[ParsedLaunch, dict[str, Any]]:
    """Return what we read of a launch, and its fields with our defaults where the job is whole."""
    parsed = golden.parsed()
    fields = flat(parsed.job)
    try:
        description = JobIn.model_validate(parsed.job).to_domain()
        result = resolve(description, models=builtin_models(), accelerators=builtin_accelerators())
    except (DomainError, ValueError):
        return parsed, fields
    whole = flat(JobOut.from_domain(result.description).model_dump(mode="json"))
    return parsed, {**whole, **fields}


def main() -> None:
    """Make every environment."""
    for judge in judges():
        sys.stdout.write(f"{judge.name}: {' '.join(judge.requires)}\n")
        judge.install()


if __name__ == "__main__":
    main()
