"""The answers as SARIF 2.1.0, which code hosts show beside the lines they are about.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, 27 March 2020.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vramgate import __version__
from vramgate.cli.checks.details import details_of
from vramgate.cli.checks.outcome import CheckedFile, Outcome, printable
from vramgate.cli.checks.rules import rule_of

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {
    Outcome.DENY: "error",
    Outcome.INVALID: "error",
    Outcome.WARN: "warning",
    Outcome.UNCHECKED: "note",
}


def as_sarif(checked: Sequence[CheckedFile]) -> str:
    """Return a log of one run: a result for each file that is not allowed, a rule for each code of them."""
    told = [one for one in checked if one.counts_as in _LEVELS]
    codes = sorted({one.code for one in told})
    run = {
        "tool": {
            "driver": {"name": "vramgate", "version": __version__, "rules": list(map(_rule, codes))}
        },
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "artifacts": [
            {"location": {"uri": uri}} for uri in dict.fromkeys(_uri(one.path) for one in checked)
        ],
        "results": [_result(one, codes) for one in told],
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str) -> dict[str, Any]:
    rule = rule_of(code)
    return {
        "id": code,
        "shortDescription": {"text": rule.short},
        "fullDescription": {"text": rule.short},
        "help": {"text": f"{rule.short} {rule.way_out}"},
    }


def _result(one: CheckedFile, codes: list[str]) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(one.path)}}
    if one.line is not None:
        place["region"] = {"startLine": one.line}
    return {
        "ruleId": one.code,
        "ruleIndex": codes.index(one.code),
        "level": _LEVELS[one.counts_as],
        "message": {"text": "\n".join([printable(one.message), *details_of(one)])},
        "locations": [{"physicalLocation": place}],
        "properties": _properties(one),
    }


def _properties(one: CheckedFile) -> dict[str, Any]:
    """Return the figures that a reader of the log may filter by."""
    answer = one.answer
    if answer is None:
        return {"outcome": one.outcome.value}
    return {
        "outcome": one.outcome.value,
        "verdict": answer.verdict.value,
        "decision": answer.decision.value,
        "oom_probability": answer.oom_probability,
        "required_bytes": None if answer.peak is None else answer.peak.required_bytes,
        "usable_bytes": None if answer.capacity is None else answer.capacity.usable_bytes,
        "policy_version": answer.policy_version,
    }


def _uri(path: Path) -> str:
    """Return the path as a URI; a relative one stays relative to where the check was run.

    >>> _uri(Path("jobs/big model.sh")), _uri(Path("/srv/a.sh"))
    ('jobs/big%20model.sh', 'file:///srv/a.sh')
    """
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path))
