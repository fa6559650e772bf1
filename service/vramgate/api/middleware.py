"""What happens to every request before its route, as plain ASGI."""

import logging
import time
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, reset_contextvars

from vramgate.api.problems import Failure, problem_response
from vramgate.telemetry import REQUEST_ID_HEADER, logger, request_id_of

ACCESS_LOG = "vramgate.access"
_STANDARD_LOG = logging.getLogger(ACCESS_LOG)


class RequestContext:
    """Give each request an id, log its answer, and answer what nothing else caught."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._log = logger(ACCESS_LOG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = request_id_of(Headers(scope=scope).get(REQUEST_ID_HEADER))
        scope.setdefault("state", {})["request_id"] = request_id
        given_id = (REQUEST_ID_HEADER.lower().encode(), request_id.encode())
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
                message = {**message, "headers": [*message.get("headers", ()), given_id]}
            await send(message)

        tokens = bind_contextvars(request_id=request_id)
        started = time.perf_counter()
        try:
            try:
                await self._app(scope, receive, send_with_id)
            except Exception:
                self._log.exception("failed", method=scope["method"], path=scope["path"])
                if status:
                    raise
                failure = Failure(
                    code="internal_error",
                    detail="The service failed to answer; its log has the details.",
                )
                await problem_response(failure, scope)(scope, receive, send_with_id)
            self._tell(scope, status, time.perf_counter() - started)
        finally:
            reset_contextvars(**tokens)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        # Asked first: an event that nobody reads takes as long to drop as a small answer to make.
        if not _STANDARD_LOG.isEnabledFor(logging.INFO):
            return
        self._log.info(
            "answered",
            method=scope["method"],
            path=_route(scope),
            status=status,
            client=_client(scope),
            milliseconds=round(seconds * 1000, 1),
        )


class HeadAsGet:
    """Answer HEAD as GET without the body (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"}, receive, send_without_body)


class BodyLimit:
    """Read the body before the route does, and refuse it once it is over the limit.

    Counts what arrives, so a body in chunks or with a false length is bounded as well.
    """

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > self._max_bytes:
            await self._refuse(scope, receive, send, f"{int(declared):,} bytes")
            return
        chunks: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._max_bytes:
                await self._refuse(scope, receive, send, "longer")
                return
            chunks.append(chunk)
            more = message.get("more_body", False)
        await self._app(scope, _replay(b"".join(chunks), receive), send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, size: str) -> None:
        failure = Failure(
            code="body_too_large",
            detail=f"A body may have {self._max_bytes:,} bytes; this one is {size}.",
            # The rest of the body is not read, so nothing else can come through this connection.
            headers={"Connection": "close"},
        )
        await problem_response(failure, scope)(scope, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives the body once and then what the server says."""
    pending: Iterable[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replay() -> Message:
        for message in pending:
            return message
        return await receive()

    return replay


def _route(scope: Scope) -> str:
    """Return the template of the path that answered, or the path where none did."""
    return str(getattr(scope.get("route"), "path", scope["path"]))


def _client(scope: Scope) -> str | None:
    """Return the address that asks: what a trusted proxy says, else the other end."""
    client = scope.get("client")
    return None if client is None else str(client[0])
