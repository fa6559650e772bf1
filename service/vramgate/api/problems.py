"""Failures as problem documents (RFC 9457): the only place where they become statuses."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Scope

from vramgate.api.problem_kinds import KINDS
from vramgate.errors import DomainError, FieldError
from vramgate.wire.problems import Problem, ProblemField
from vramgate.wire.validation import sentence, short_value, validation_failed

MEDIA_TYPE = "application/problem+json"
CHALLENGE = 'Bearer realm="vramgate"'
"""What 401 and 403 say of how to ask (RFC 6750, 3); more where a token was refused."""

_OWN_MEMBERS = frozenset(Problem.model_fields)
_BY_STATUS = {
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One occurrence of a kind of problem, before it is tied to a request."""

    code: str
    detail: str
    status: int | None = None
    """Where this occurrence has another status than its kind."""
    hint: str = ""
    fields: tuple[ProblemField, ...] = ()
    members: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def failure_of(error: DomainError, *, prefix: str = "") -> Failure:
    """Return the failure that a domain error is; ``prefix`` stands before its JSON pointers."""
    return Failure(
        code=error.code if error.code in KINDS else "invalid",
        detail=error.message,
        hint=error.hint,
        fields=tuple(_field(one, prefix) for one in error.fields),
        members=error.data,
    )


def _field(one: FieldError, prefix: str) -> ProblemField:
    is_parameter = one.parameter is not None
    return ProblemField(
        pointer=None if is_parameter else f"{prefix}{one.pointer}",
        parameter=one.parameter,
        code=one.code,
        detail=one.detail,
        value=short_value(one.value),
    )


def problem(failure: Failure, scope: Scope) -> Problem:
    """Return the document for a failure of the request with this ASGI scope."""
    kind = KINDS[failure.code]
    return Problem(
        **{name: value for name, value in failure.members.items() if name not in _OWN_MEMBERS},
        type=f"{scope.get('root_path', '')}/problems/{kind.code}",
        title=kind.title,
        status=failure.status or kind.status,
        detail=failure.detail,
        instance=quote(scope["path"], errors="replace"),
        code=kind.code,
        request_id=scope.get("state", {}).get("request_id"),
        hint=failure.hint or None,
        errors=list(failure.fields),
    )


def problem_response(failure: Failure, scope: Scope) -> Response:
    """Return the answer for a failure."""
    document = problem(failure, scope)
    return Response(
        document.model_dump_json(exclude_none=True, fallback=str),
        status_code=document.status,
        media_type=MEDIA_TYPE,
        headers={**_headers_of_kind(failure), **failure.headers},
    )


def _headers_of_kind(failure: Failure) -> dict[str, str]:
    """Return the headers that every occurrence of the kind has."""
    kind = KINDS[failure.code]
    headers = {}
    if kind.retry_after_seconds is not None:
        headers["Retry-After"] = str(kind.retry_after_seconds)
    if kind.code == "unauthenticated":
        headers["WWW-Authenticate"] = CHALLENGE
    if kind.code == "forbidden" and "scope" in failure.members:
        headers["WWW-Authenticate"] = (
            f'{CHALLENGE}, error="insufficient_scope", scope="{failure.members["scope"]}"'
        )
    return headers


def problem_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says about the problem documents a route answers with."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every expected failure, ours and FastAPI's, with a problem document."""
    app.exception_handler(DomainError)(_answer_domain_error)
    app.exception_handler(RequestValidationError)(_answer_validation_error)
    app.exception_handler(HTTPException)(_answer_http_exception)


async def _answer_domain_error(request: Request, error: DomainError) -> Response:
    failure = failure_of(error)
    if error.code == "unknown_name" and request.path_params:
        failure = replace(failure, status=HTTPStatus.NOT_FOUND)
    return problem_response(failure, request.scope)


async def _answer_validation_error(request: Request, error: RequestValidationError) -> Response:
    findings = error.errors()
    body = [
        {**finding, "loc": finding["loc"][1:]}
        for finding in findings
        if finding["loc"][0] == "body"
    ]
    if body:
        failed = validation_failed(body, error.body, _shape_of_body(request))
        return problem_response(failure_of(failed), request.scope)
    fields = tuple(
        ProblemField(
            parameter=str(finding["loc"][1]),
            code=finding["type"],
            detail=sentence(finding),
            value=short_value(finding.get("input")),
        )
        for finding in findings
    )
    detail = "; ".join(f"{one.parameter} {one.detail}" for one in fields)
    return problem_response(
        Failure(code="invalid_parameter", detail=f"{detail}.", fields=fields), request.scope
    )


def _shape_of_body(request: Request) -> type[BaseModel] | None:
    field = getattr(request.scope.get("route"), "body_field", None)
    shape = field.field_info.annotation if field is not None else None
    return shape if isinstance(shape, type) and issubclass(shape, BaseModel) else None


async def _answer_http_exception(request: Request, error: HTTPException) -> Response:
    fallback = (
        "internal_error" if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR else "bad_request"
    )
    code = _BY_STATUS.get(error.status_code, fallback)
    details = {
        "not_found": f"There is nothing at {request.url.path}.",
        "method_not_allowed": f"{request.url.path} does not take {request.method}.",
    }
    return problem_response(
        Failure(
            code=code,
            status=error.status_code,
            detail=details.get(code, str(error.detail)),
            headers=error.headers or {},
        ),
        request.scope,
    )
