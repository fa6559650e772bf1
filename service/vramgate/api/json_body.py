"""Bodies are JSON, declared as JSON, and read by our own strict reader."""

from collections.abc import Callable, Coroutine
from email.message import Message
from functools import partial
from typing import Any

from anyio import to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute

from vramgate.api.dependencies import settings_of
from vramgate.api.problems import Failure, problem_response
from vramgate.wire.json_text import parse_json

LONG_BODY_BYTES = 2**18
"""Longer bodies are read in a thread: some ten milliseconds in which others are answered."""


class JsonRequest(Request):
    """A request whose body was read by ``parse_json``."""

    parsed: object = None

    async def json(self) -> object:
        """Return the value of the body."""
        return self.parsed


class JsonRoute(APIRoute):
    """A route that refuses bodies of another media type and text that is not strictly JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler, which reads any body as if it were JSON."""
        answer = super().get_route_handler()
        if self.body_field is None:
            return answer

        async def answer_json(request: Request) -> Response:
            request = JsonRequest(request.scope, request.receive)
            body = await request.body()
            if body:
                refusal = _refusal(request)
                if refusal is not None:
                    return problem_response(refusal, request.scope)
                read = partial(parse_json, body, max_depth=settings_of(request).max_json_depth)
                request.parsed = await _run(read, in_thread=len(body) > LONG_BODY_BYTES)
            return await answer(request)

        return answer_json


async def _run(read: Callable[[], object], *, in_thread: bool) -> object:
    return await to_thread.run_sync(read) if in_thread else read()


def _is_json(content_type: str) -> bool:
    header = Message()
    header["content-type"] = content_type
    subtype = header.get_content_subtype()
    is_json = subtype == "json" or subtype.endswith("+json")
    charset = str(header.get_param("charset") or "utf-8").lower()
    return (
        header.get_content_maintype() == "application" and is_json and charset in {"utf-8", "utf8"}
    )


def _refusal(request: Request) -> Failure | None:
    """Return why the body is not read, going by its headers."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        return Failure(
            code="unsupported_media_type",
            detail=f"The body is sent with Content-Encoding {encoding[:80]!r}.",
            hint="Send it as it is, without compression.",
            headers={"Accept-Encoding": "identity"},
        )
    declared = request.headers.get("content-type")
    if declared is not None and _is_json(declared):
        return None
    found = f"says {declared[:80]!r}" if declared else "is missing"
    return Failure(
        code="unsupported_media_type",
        detail=f"The header Content-Type {found}; the body must be JSON in UTF-8.",
        hint="Send it with `Content-Type: application/json`.",
        headers={"Accept-Post": "application/json"},
    )
