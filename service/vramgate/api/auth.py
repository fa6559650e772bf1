"""Who calls: every request is judged here, before anything of its body is read."""

from dataclasses import replace
from enum import Enum, auto
from typing import cast

from fastapi import Request
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from vramgate.access import LOCAL_CALLER, Caller, Scope
from vramgate.api.loopback import stranger_reason
from vramgate.api.problems import CHALLENGE, failure_of, problem_response
from vramgate.authentication.authenticator import Authenticator, InvalidTokenError
from vramgate.errors import DomainError
from vramgate.persistence.engine import DatabaseUnavailableError

PUBLIC_PATHS = frozenset({"/livez", "/readyz", "/openapi.json", "/problems"})
"""What anybody may read: probes come without tokens, and a client reads these to learn of them."""
PUBLIC_FOLDERS = ("/problems/",)

REPORTS = ("POST", "/v1/reports")
"""All that a report token is for."""

_BAD_TOKEN = {"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'}


class TokenlessCallers(Enum):
    """Who is answered without a token, beside what is public."""

    THIS_MACHINE = auto()
    NOBODY = auto()


class LoopbackOnlyError(DomainError):
    """The request has no token and is not this machine's own."""

    code = "loopback_only"


class UnauthenticatedError(DomainError):
    """Nobody said who asks."""

    code = "unauthenticated"


class ForbiddenError(DomainError):
    """The caller is known and lacks a scope."""

    code = "forbidden"

    def __init__(self, caller: Caller, scope: Scope) -> None:
        super().__init__(
            f"{caller.name} may not do this: it needs the scope {scope.value!r}.",
            hint="Ask with a token that has the scope.",
            scope=scope.value,
        )


class ReportTokenOnlyError(DomainError):
    """The caller has the token of one decision, and asks for something else than to report."""

    code = "forbidden"

    def __init__(self) -> None:
        super().__init__(
            "A report token may post the reports of its decision, and do nothing else.",
            hint="Ask with a token of `vramgate token create`.",
        )


class Authentication:
    """Find out who calls, or refuse.

    A token that is shown decides, also on this machine. Without one, this machine's own programs
    are answered where the settings allow it.
    """

    def __init__(self, app: ASGIApp, *, tokenless: TokenlessCallers) -> None:
        self._app = app
        self._tokenless = tokenless

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            caller = await self._caller(scope)
            _check_report_token(caller, scope)
        except DomainError as error:
            failure = failure_of(error)
            if isinstance(error, InvalidTokenError):
                failure = replace(failure, headers=_BAD_TOKEN)
            await problem_response(failure, scope)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        await self._app(scope, receive, send)

    async def _caller(self, scope: AsgiScope) -> Caller | None:
        """Return who calls; None for somebody unknown at a public path."""
        shown = Headers(scope=scope).getlist("authorization")
        if not shown and self._tokenless is TokenlessCallers.THIS_MACHINE:
            return _local_caller(scope)
        if is_public(scope["path"]):
            # Not judged: probes and pages stay there while the database is away.
            return None
        if not shown:
            raise _unauthenticated()
        return await _authenticator(scope).caller_of(_token_in(shown))


class CallerOf(SecurityBase):
    """The dependency that gives routes their caller, and tells OpenAPI how callers show tokens."""

    scheme_name = "bearer"
    model = HTTPBearer(
        description="A token of `vramgate token create`, a JWT of the OpenID provider that the "
        "service is set to, or, for `POST /v1/reports` alone, the `report_token` of an admission. "
        "The service may answer its own machine's programs without one."
    )

    async def __call__(self, request: Request) -> Caller:
        """Return who calls.

        Raises:
            UnauthenticatedError: nobody said so, which public paths alone allow.
        """
        caller: Caller | None = getattr(request.state, "caller", None)
        if caller is None:
            raise _unauthenticated()
        return caller


caller_of = CallerOf()


def is_public(path: str) -> bool:
    """Return whether anybody may read what is at the path.

    >>> is_public("/livez"), is_public("/problems/not_found"), is_public("/v1/reports")
    (True, True, False)
    """
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_FOLDERS)


def _check_report_token(caller: Caller | None, scope: AsgiScope) -> None:
    """Refuse what a report token is not for, here, so that no route has to think of it."""
    if caller is None or caller.decision_id is None:
        return
    if (scope["method"], scope["path"]) != REPORTS:
        raise ReportTokenOnlyError


def _local_caller(scope: AsgiScope) -> Caller:
    reason = stranger_reason(scope)
    if reason is not None:
        raise LoopbackOnlyError(
            f"Without a token the service answers its own machine only; {reason}.",
            hint="Send `Authorization: Bearer` with a token of `vramgate token create`, or ask "
            "http://127.0.0.1 on the machine the service runs on, without a proxy.",
        )
    return LOCAL_CALLER


def _unauthenticated() -> UnauthenticatedError:
    return UnauthenticatedError(
        "This needs a token.",
        hint="Send `Authorization: Bearer` with a token; `vramgate token create` makes one.",
    )


def _token_in(shown: list[str]) -> str:
    """Return the token in the Authorization headers.

    Raises:
        UnauthenticatedError: it is of another scheme than Bearer.
        InvalidTokenError: there is none behind the scheme, or more than one header.
    """
    if len(shown) > 1:
        raise InvalidTokenError
    scheme, _, token = shown[0].strip().partition(" ")
    if scheme.lower() != "bearer":
        raise _unauthenticated()
    return token.strip()


def _authenticator(scope: AsgiScope) -> Authenticator:
    found = getattr(scope["app"].state, "authenticator", None)
    if found is None:
        raise DatabaseUnavailableError("The service is starting or stopping.")
    return cast(Authenticator, found)
