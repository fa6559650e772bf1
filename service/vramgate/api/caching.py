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
    return _unless_held(request, body, f'"{_digest(body)}"', link)


def tagged_entry(request: Request, document: BaseModel, entry: str) -> Response:
    """Return what is shown of something that can be changed, or 304.

    Its ETag begins with the tag of what is stored, which is what If-Match is held against: what is
    shown may change for other reasons as well.
    """
    body = document.model_dump_json().encode()
    return _unless_held(request, body, entry_tag(body, entry), None)


def entry_tag(body: bytes, entry: str) -> str:
    """Return the ETag of what is shown of something stored."""
    return f'"{entry}-{_digest(body)[:16]}"'


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:32]


def _unless_held(request: Request, body: bytes, tag: str, link: str | None) -> Response:
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
