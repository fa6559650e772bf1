"""How much memory a job needs, and whether it fits."""

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Body, Request, Response
from starlette.types import Scope as AsgiScope

from vramgate.access import Scope
from vramgate.api import examples
from vramgate.api.dependencies import ACCESS_PROBLEMS, CatalogsDep, HubDep, caller_with
from vramgate.api.json_body import JsonRoute
from vramgate.api.problems import Failure, failure_of, problem, problem_answers
from vramgate.catalog.site import Catalogs
from vramgate.errors import DomainError
from vramgate.telemetry import logger
from vramgate.wire.estimates import BatchRequest, BatchResponse, EstimateRequest, EstimateResponse
from vramgate.wire.json_text import pointer
from vramgate.wire.problems import Problem
from vramgate.wire.validation import validated
from vramgate.workflows.estimate_job import answer_request
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
    body: Annotated[EstimateRequest, Body(openapi_examples=examples.ESTIMATE)],
    catalogs: CatalogsDep,
    hub: HubDep,
) -> Response:
    """Return the job's peak memory by layer, its bill, its timeline, and whether it fits."""
    found = None if hub is None else await look_up_model(body, catalogs.models, hub)
    return _json(answer_request(body, catalogs, from_hub=found).model_dump_json())


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
    catalogs: CatalogsDep,
) -> Response:
    """Answer each item, in order, with its estimate or its problem; one never fails another.

    Models are looked up in the catalog only.
    """
    # Seconds of work: in a thread, and only so many at once, so that others are answered meanwhile.
    answers = await to_thread.run_sync(
        partial(_answers, body, catalogs, request.scope), limiter=request.app.state.heavy_work
    )
    return _json(answers)


def _answers(batch: BatchRequest, catalogs: Catalogs, scope: AsgiScope) -> str:
    answers = [_answer(index, item, catalogs, scope) for index, item in enumerate(batch.items)]
    return f'{{"items":[{",".join(answers)}]}}'


def _answer(index: int, item: object, catalogs: Catalogs, scope: AsgiScope) -> str:
    try:
        estimate = answer_request(validated(EstimateRequest, item), catalogs)
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
