"""Bodies are JSON, declared as JSON, and read by our own strict reader."""

from collections.abc import Callable, Coroutine
from email.message import Message
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, TypeAlias, TypeVar

from anyio import to_thread
from cachetools import LRUCache
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from vramgate.api.auth import CallerOf
from vramgate.api.content_encoding import gunzipped
from vramgate.api.dependencies import settings_of
from vramgate.api.problems import Failure, problem_response
from vramgate.json_text import parse_json
from vramgate.wire.validation import validated

Answer: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]

_Read = TypeVar("_Read")

GZIP_FACTOR = 8
"""How much longer JSON of reports is once unpacked."""
LONG_BODY_BYTES = 2**18
"""Longer bodies are read in a thread: some ten milliseconds in which others are answered."""


REMEMBERED_BODIES = 4096
LONGEST_REMEMBERED_BYTES = 2**14
"""Of a body that is remembered; some ten times as much once it is read."""


class JsonRequest(Request):
    """A request whose body was read by ``parse_json``."""

    parsed: object = None
    unpacked: bytes = b""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the body as it is without compression, in hexadecimal."""
        return sha256(self.unpacked).hexdigest()

    async def json(self) -> object:
        """Return the value of the body."""
        return self.parsed


class JsonRoute(APIRoute):
    """A route that refuses bodies of another media type and text that is not strictly JSON."""

    def get_route_handler(self) -> Answer:
        """Wrap FastAPI's handler, which reads any body as if it were JSON."""
        answer = super().get_route_handler()
        return answer if self.body_field is None else _reading_json(answer)


class DirectRoute(JsonRoute):
    """A route asked very often: its endpoint takes the request, the body and the caller.

    It is declared like any other, so that OpenAPI tells of it; only FastAPI's general way of finding
    out what an endpoint wants is left out, which takes longer than the endpoint.
    """

    def get_route_handler(self) -> Answer:
        """Call the endpoint with what it declares."""
        shape, find_caller = _shape_of(self), _caller_dependency(self)
        endpoint = self.endpoint

        async def answer(request: Request) -> Response:
            caller = await find_caller(request)
            body = validated(shape, await request.json())
            response: Response = await endpoint(request=request, body=body, caller=caller)
            return response

        return _reading_json(answer)


class RememberingRoute(DirectRoute):
    """A direct route whose bodies repeat: one that was read before is neither parsed nor validated again.

    What is remembered is what the bytes say, whoever sends them: who may send them is asked each time.
    """

    def get_route_handler(self) -> Answer:
        """Call the endpoint with the body as it was read the first time."""
        shape, find_caller = _shape_of(self), _caller_dependency(self)
        known: LRUCache[bytes, BaseModel] = LRUCache(REMEMBERED_BODIES)
        endpoint = self.endpoint

        async def answer(request: Request) -> Response:
            caller = await find_caller(request)
            request = JsonRequest(request.scope, request.receive)
            body = await request.body()
            key = sha256(body).digest() if len(body) <= LONGEST_REMEMBERED_BYTES else None
            found = None if key is None or not _is_plain(request) else known.get(key)
            if found is None:
                refusal = await _read_into(request, body)
                if refusal is not None:
                    return problem_response(refusal, request.scope)
                found = validated(shape, request.parsed)
                if key is not None and _is_plain(request):
                    known[key] = found
            response: Response = await endpoint(request=request, body=found, caller=caller)
            return response

        return answer


def _shape_of(route: APIRoute) -> type[BaseModel]:
    shape = route.body_field.field_info.annotation if route.body_field is not None else None
    if not (isinstance(shape, type) and issubclass(shape, BaseModel)):
        raise TypeError(f"{route.path} takes no body")
    return shape


def _caller_dependency(route: APIRoute) -> CallerOf:
    (caller_of,) = route.dependant.dependencies
    wants_only_body = set(route.dependant.body_params) == {route.body_field}
    if not isinstance(caller_of.call, CallerOf) or not wants_only_body:
        raise TypeError(f"{route.path} wants other things than request, body and caller")
    return caller_of.call


def _reading_json(answer: Answer) -> Answer:
    async def answer_json(request: Request) -> Response:
        request = JsonRequest(request.scope, request.receive)
        refusal = await _read_into(request, await request.body())
        return (
            await answer(request) if refusal is None else problem_response(refusal, request.scope)
        )

    return answer_json


async def _read_into(request: JsonRequest, body: bytes) -> Failure | None:
    """Read the body, or return why it is not read."""
    if not body:
        return None
    refusal = _refusal(request)
    if refusal is None:
        request.unpacked = await _unpacked(request, body)
        read = partial(parse_json, request.unpacked, max_depth=settings_of(request).max_json_depth)
        request.parsed = await _run(read, in_thread=len(request.unpacked) > LONG_BODY_BYTES)
    return refusal


def _is_plain(request: Request) -> bool:
    """Return whether the body is JSON as it came: what it says then follows from its bytes alone."""
    return _encoding(request) == "identity" and _is_json(request.headers.get("content-type", ""))


async def read_aside(read: Callable[[], _Read], request: Request) -> _Read:
    """Return what a reader of the request's body makes of it; of a long one in a thread."""
    is_long = isinstance(request, JsonRequest) and len(request.unpacked) > LONG_BODY_BYTES
    return await _run(read, in_thread=is_long)


async def _unpacked(request: Request, body: bytes) -> bytes:
    if _encoding(request) != "gzip":
        return body
    read = partial(gunzipped, body, max_bytes=settings_of(request).max_body_bytes)
    return await _run(read, in_thread=len(body) > LONG_BODY_BYTES // GZIP_FACTOR)


def _encoding(request: Request) -> str:
    return request.headers.get("content-encoding", "identity").strip().lower()


async def _run(read: Callable[[], _Read], *, in_thread: bool) -> _Read:
    return await to_thread.run_sync(read) if in_thread else read()


@lru_cache(maxsize=64)
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
    encoding = _encoding(request)
    if encoding not in {"identity", "gzip"}:
        return Failure(
            code="unsupported_media_type",
            detail=f"The body is sent with Content-Encoding {encoding[:80]!r}.",
            hint="Send it as it is, or with gzip.",
            headers={"Accept-Encoding": "gzip, identity"},
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
