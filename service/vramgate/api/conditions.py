"""The headers If-Match and If-None-Match of requests that change something (RFC 9110, 13.1)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request

from vramgate.workflows.change_catalog import Conditions

_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')


def _parameter(name: str, description: str) -> Mapping[str, Any]:
    """Return a header as OpenAPI tells of it; routes read it themselves."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string", "maxLength": 2000},
        "description": description,
    }


IF_MATCH = _parameter(
    "If-Match", "The ETag of what is there now. Without it what is there is left as it is (428)."
)
IF_NONE_MATCH = _parameter("If-None-Match", "`*`: only where there is none yet.")


def conditions_of(request: Request) -> Conditions:
    """Return what a request says of the state it means to change."""
    return Conditions(
        match=_digests(request.headers.getlist("if-match")),
        none_match=_digests(request.headers.getlist("if-none-match")),
    )


def _digests(lines: Sequence[str]) -> frozenset[str] | None:
    """Return the digests that the tags of a header begin with; None where it was not sent.

    A weak tag never matches where something is changed (13.1.1), and neither does what is no tag.

    >>> sorted(_digests(['"0a1b-99", W/"0a1b-98"', "*"]) or ())
    ['*', '0a1b']
    """
    if not lines:
        return None
    anything = {"*" for line in lines if line.strip() == "*"}
    strong = {tag for line in lines for weak, tag in _TAG.findall(line) if not weak}
    # `"*"` in quotes is a tag as any other, of which there is none.
    return frozenset(anything | {tag.partition("-")[0] for tag in strong if tag != "*"})
