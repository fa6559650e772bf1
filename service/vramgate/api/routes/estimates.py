"""How much memory a job needs, and whether it fits."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Body, Request, Response
from starlette.types import Scope as AsgiScope

from vramgate.access import Caller, Scope
from vramgate.api import examples
from vramgate.api.dependencies import (
    ACCESS_PROBLEMS,
    CallerDep,
    CatalogsDep,
    HubDep,
    caller_with,
    database_of,
)
from vramgate.api.json_body import JsonRoute, read_aside
from vramgate.api.problems import Failure, failure_of, problem, problem_answers
from vramgate.catalog.site import Catalogs
from vramgate.errors import DomainError
from vramgate.json_text import pointer
from vramgate.telemetry import logger
from vramgate.wire.estimates import BatchRequest, BatchResponse, EstimateRequest, EstimateResponse
from vramgate.wire.problems import Problem
from vramgate.wire.validation import validated
from vramgate.workflows.estimate_job import Asked, answer_request, asked
from vramgate.workflows.launch_files import files_named
from vramgate.workflows.look_up_model import look_up_model

router = APIRouter(
    prefix="/v1/estimates",
    tags=["estimates"],
    route_class=JsonRoute,
    dependencies=[caller_with(Scope.ESTIMATE)],
    responses=ACCESS_PROBLEMS,
)

_log = logger("vramgate.estimates")
_PROBLEMS = problem_answers(400, 413, 415, 422)


@router.post(
    "",
    operation_id="createEstimate",
    summary="Estimate one job",
    response_model=EstimateResponse,
    responses=_PROBLEMS,
)
async def create_estimate(
    request: Request,
    body: Annotated[EstimateRequest, Body(openapi_examples=examples.ESTIMATE)],
    caller: CallerDep,
    catalogs: CatalogsDep,
    hub: HubDep,
) -> Response:
    """Return the job's peak memory by layer, its bill, its timeline, and whether it fits.

    A `launch` is read as `POST /v1/launches/parse` reads it; one that does not say all that the peak
    depends on is refused with what is missing.
    """
    about = await _asked(request, body, caller)
    name = about.description.model.name
    found = None if hub is None else await look_up_model(name, catalogs.models, hub)
    answer = answer_request(body, catalogs, about=about, from_hub=found)
    return _json(answer.model_dump_json())


@router.post(
    "/batch",
    operation_id="createEstimates",
    summary="Estimate up to a thousand jobs",
    response_model=BatchResponse,
    responses=_PROBLEMS,
)
async def create_estimates(
    request: Request,
    body: Annotated[BatchRequest, Body(openapi_examples=examples.BATCH)],
    caller: CallerDep,
    catalogs: CatalogsDep,
) -> Response:
    """Answer each item, in order, with its estimate or its problem; one never fails another.

    Models are looked up in the catalog only.
    """
    # Seconds of work: in a thread, and only so many at once, so that others are answered meanwhile.
    database = database_of(request)
    stored = await files_named(database, caller.tenant.name, {"items": list(body.items)})
    answers = await to_thread.run_sync(
        partial(_answers, body, catalogs, stored, request.scope),
        limiter=request.app.state.heavy_work,
    )
    return _json(answers)


async def _asked(request: Request, body: EstimateRequest, caller: Caller) -> Asked:
    """Return the job a request is about; a long launch is read in a thread."""
    if body.launch is None:
        return asked(body, {})
    stored = await files_named(database_of(request), caller.tenant.name, await request.json())
    return await read_aside(partial(asked, body, stored), request)


def _answers(
    batch: BatchRequest, catalogs: Catalogs, stored: Mapping[str, str], scope: AsgiScope
) -> str:
    answers = [
        _answer(index, item, catalogs, stored, scope) for index, item in enumerate(batch.items)
    ]
    return f'{{"items":[{",".join(answers)}]}}'


def _answer(
    index: int, item: object, catalogs: Catalogs, stored: Mapping[str, str], scope: AsgiScope
) -> str:
    try:
        request = validated(EstimateRequest, item)
        estimate = answer_request(request, catalogs, about=asked(request, stored))
    except DomainError as error:
        failure = failure_of(error, prefix=pointer("items", index))
    except Exception:  # noqa: BLE001 a fault at one item must not take the other 999 answers
        _log.exception("failed", item=index)
        failure = Failure(code="internal_error", detail="The service failed at this item.")
    else:
        return f'{{"estimate":{estimate.model_dump_json()}}}'
    return f'{{"problem":{_item_problem(index, failure, scope)}}}'


def _item_problem(index: int, failure: Failure, scope: AsgiScope) -> str:
    document: Problem = problem(failure, scope)
    document.instance += f"#{pointer('items', index)}"
    return document.model_dump_json(exclude_none=True, fallback=str)


def _json(body: str) -> Response:
    return Response(body, media_type="application/json")
