"""Answers that a client may keep: a strong ETag, and 304 where it still holds."""

import hashlib
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "What `If-None-Match` names is still current"}
}


def tagged(request: Request, document: BaseModel, *, link: str | None = None) -> Response:
    """Return the document with its ETag, or 304 where the client has it already."""
    body = document.model_dump_json().encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if link is not None:
        headers["Link"] = link
    if _holds(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def next_link(request: Request, cursor: str | None) -> str | None:
    """Return the value of the Link header (RFC 8288) that leads to the next page."""
    if cursor is None:
        return None
    url = request.url.include_query_params(cursor=cursor)
    return f'<{url.path}?{url.query}>; rel="next"'


def _holds(condition: str, tag: str) -> bool:
    """Return whether ``If-None-Match`` names the tag; the comparison is weak (RFC 9110, 13.1.2)."""
    names = [name.strip().removeprefix("W/") for name in condition.split(",")]
    return tag in names or names == ["*"]
