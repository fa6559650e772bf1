"""The answers as JSON: for each file the members of the HTTP answer that are not one question's own."""

import json
from collections.abc import Iterable
from typing import Any

from vramgate.cli.checks.outcome import CheckedFile
from vramgate.cli.checks.question import hint_for
from vramgate.errors import DomainError


def as_json(checked: Iterable[CheckedFile]) -> str:
    """Return a list with an object for each file, in the order they were given."""
    return json.dumps([_shown(one) for one in checked], indent=2, ensure_ascii=False) + "\n"


def _shown(one: CheckedFile) -> dict[str, Any]:
    answer = {} if one.answer is None else one.answer.model_dump(mode="json")
    return {
        "path": one.shown_path,
        "outcome": one.outcome.value,
        "line": one.line,
        "problem": None if one.failure is None else _problem(one.failure),
        **answer,
    }


def _problem(failure: DomainError) -> dict[str, Any]:
    return {
        "code": failure.code,
        "detail": failure.message,
        "hint": hint_for(failure),
        "errors": [
            {"pointer": one.pointer, "code": one.code, "detail": one.detail}
            for one in failure.fields
        ],
    }
