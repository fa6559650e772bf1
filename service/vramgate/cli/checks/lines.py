"""The line of a file that an answer is about, as far as the reader of its launch knows it."""

import re
from collections.abc import Iterator

from vramgate.errors import DomainError
from vramgate.wire.admissions import AdmitRequest
from vramgate.workflows.admit_job import Admission

_PLACE = re.compile(r"line (\d+), ")
_OWN_TEXTS = frozenset({"script", "manifest", "config"})
"""What a reader calls the text that the file itself is, not one that it names."""
_MODEL = "model.name"


def line_of(request: AdmitRequest, admission: Admission) -> int | None:
    """Return the line to look at first; of manifests and configurations only where one is broken."""
    failure = admission.finding.failure
    if failure is not None and failure.data.get("file") in _OWN_TEXTS:
        return line_in(failure)
    if request.launch is None or request.launch.script is None:
        return None
    found = (_PLACE.match(source) for source in _sources(admission))
    return next((int(match[1]) for match in found if match is not None), None)


def line_in(failure: DomainError) -> int | None:
    """Return the line of a text that could not be read."""
    line = failure.data.get("line")
    return line if isinstance(line, int) else None


def _sources(admission: Admission) -> Iterator[str]:
    """Yield places, the most telling first: what is wrong, what is unknown, what could be changed."""
    launch = admission.subject.launch
    if launch is None:
        return
    for problem in launch.problems:
        yield from problem.values
    yield from (unknown.source for unknown in launch.unknown)
    changed = [field.field for one in admission.suggestions for field in one.fields]
    for name in (*changed, _MODEL, *launch.provenance):
        if name in launch.provenance:
            yield launch.provenance[name].source
