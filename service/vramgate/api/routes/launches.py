"""Launches read, and the files they name sent ahead."""

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request, Response

from vramgate.access import Scope
from vramgate.api import examples
from vramgate.api.content_encoding import gunzipped
from vramgate.api.dependencies import (
    ACCESS_PROBLEMS,
    CallerDep,
    CatalogsDep,
    DatabaseDep,
    caller_with,
    settings_of,
)
from vramgate.api.json_body import JsonRoute, read_aside
from vramgate.api.problems import problem_answers
from vramgate.wire.launch import DIGEST_PATTERN
from vramgate.wire.launches import FileAnswer, ParseRequest, ParseResponse
from vramgate.workflows.launch_files import KeptFile, files_named, find_file, put_file
from vramgate.workflows.read_launch import parse

router = APIRouter(
    prefix="/v1",
    tags=["launches"],
    route_class=JsonRoute,
    dependencies=[caller_with(Scope.ESTIMATE)],
    responses=ACCESS_PROBLEMS,
)

Sha256 = Annotated[
    str,
    Path(
        pattern=DIGEST_PATTERN,
        max_length=64,
        description="The file's SHA-256, in lower-case hexadecimal.",
    ),
]
_TEXT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file as it is, in UTF-8.",
        "content": {"text/plain": {"schema": {"type": "string", "maxLength": 2**20}}},
    }
}


@router.post(
    "/launches/parse",
    operation_id="parseLaunch",
    summary="Read a job from a launch",
    response_model=ParseResponse,
    responses=problem_answers(400, 413, 415, 422),
)
async def parse_launch(
    request: Request,
    body: Annotated[ParseRequest, Body(openapi_examples=examples.LAUNCHES)],
    caller: CallerDep,
    catalogs: CatalogsDep,
    database: DatabaseDep,
) -> Response:
    """Return the job that a command line, a script, a manifest or a configuration starts.

    Every field says where it stands, or whose default it is. What is said out of sight (a file that
    did not come along, a variable nobody gave) is `unknown` and left out; a launch that would not run
    has `problems`. Nothing is executed, and no file of the service's machine is read.
    """
    stored = await files_named(database, caller.tenant.name, await request.json())
    answer = await read_aside(partial(parse, body, catalogs, stored), request)
    return Response(answer.model_dump_json(), media_type="application/json")


@router.put(
    "/files/{sha256}",
    operation_id="putFile",
    summary="Send a file ahead",
    response_model=FileAnswer,
    responses={
        201: {"model": FileAnswer, "description": "It was not there"},
        **problem_answers(400, 409, 413, 415, 422),
    },
    openapi_extra=_TEXT,
)
async def put_file_ahead(
    request: Request, caller: CallerDep, database: DatabaseDep, sha256: Sha256
) -> Response:
    """Keep a configuration for 90 days, to be named in launches as `{"sha256": "…"}`.

    The body is the file as it is; sending it again keeps it longer. It is seen by the caller's tenant
    alone.
    """
    body = await request.body()
    if request.headers.get("content-encoding", "identity").strip().lower() == "gzip":
        body = gunzipped(body, max_bytes=settings_of(request).max_body_bytes)
    kept = await put_file(database, caller.tenant.name, sha256, body)
    return _answer(kept, status=HTTPStatus.CREATED if kept.is_new else HTTPStatus.OK)


@router.get(
    "/files/{sha256}",
    operation_id="getFile",
    summary="Ask whether a file was sent ahead",
    response_model=FileAnswer,
    responses=problem_answers(404, 422),
)
async def get_file(caller: CallerDep, database: DatabaseDep, sha256: Sha256) -> Response:
    """Return how long the file is kept; its text is not given out."""
    return _answer(await find_file(database, caller.tenant.name, sha256), status=HTTPStatus.OK)


def _answer(kept: KeptFile, *, status: HTTPStatus) -> Response:
    answer = FileAnswer(
        sha256=kept.sha256,
        bytes=kept.bytes,
        kept_until=f"{kept.kept_until:%Y-%m-%dT%H:%M:%SZ}",
    )
    return Response(answer.model_dump_json(), status_code=status, media_type="application/json")
