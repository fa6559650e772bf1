"""The answers as JUnit's XML, which build servers count.

Elements and attributes are those of Jenkins' ``junit-10.xsd``; GitLab and others read the same.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from vramgate.cli.checks.details import cautions_of, details_of
from vramgate.cli.checks.outcome import CheckedFile, Outcome, printable

_SUITE = "vramgate.check"
_ELEMENTS = {
    Outcome.DENY: "failure",
    Outcome.INVALID: "error",
    Outcome.UNCHECKED: "skipped",
}


def as_junit(checked: Sequence[CheckedFile]) -> str:
    """Return a suite with a case for each file."""
    root = ET.Element("testsuites")
    kinds = [_ELEMENTS.get(one.counts_as) for one in checked]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_SUITE,
        tests=str(len(checked)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=_time(sum(one.seconds for one in checked)),
    )
    for one in checked:
        _add_case(suite, one)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ET.Element, one: CheckedFile) -> None:
    case = ET.SubElement(
        suite, "testcase", classname=_SUITE, name=one.shown_path, time=_time(one.seconds)
    )
    message, details = printable(one.message), list(details_of(one))
    kind = _ELEMENTS.get(one.counts_as)
    output = list(cautions_of(one))
    if kind is not None:
        said = ET.SubElement(case, kind, type=one.code, message=message)
        said.text = "\n".join([message, *details])
    elif one.outcome is Outcome.WARN:
        output = [f"warn: {message}", *details, *output]
    if output:
        ET.SubElement(case, "system-out").text = "\n".join(output)


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"
