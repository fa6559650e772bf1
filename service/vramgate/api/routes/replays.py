"""A kept decision made again."""

from typing import Annotated

from fastapi import APIRouter, Body, Path

from vramgate.access import Scope
from vramgate.api import examples
from vramgate.api.dependencies import (
    ACCESS_PROBLEMS,
    CallerDep,
    CatalogsDep,
    DatabaseDep,
    caller_with,
)
from vramgate.api.json_body import JsonRoute
from vramgate.api.problems import problem_answers
from vramgate.wire.admission_lists import DECISION_ID
from vramgate.wire.replays import ReplayAnswer, ReplayRequest
from vramgate.workflows.replay_admission import replay_admission

router = APIRouter(
    prefix="/v1/admissions", tags=["admissions"], route_class=JsonRoute, responses=ACCESS_PROBLEMS
)


@router.post(
    "/{decision_id}/replay",
    operation_id="replayAdmission",
    summary="Make a decision again, and say what differs",
    responses=problem_answers(400, 404, 413, 415, 422),
    dependencies=[caller_with(Scope.READ)],
)
async def replay(
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: CatalogsDep,
    decision_id: Annotated[str, Path(pattern=DECISION_ID)],
    body: Annotated[ReplayRequest | None, Body(openapi_examples=examples.REPLAY)] = None,
) -> ReplayAnswer:
    """Ask the kept question again, as of the moment it was asked, under its own policy or another one.

    Nothing is stored. Under its own versions a decision comes out the same; under a draft it says what
    that one would have done.
    """
    return await replay_admission(
        database,
        catalogs,
        tenant=caller.tenant.name,
        decision_id=decision_id,
        policy_version=None if body is None else body.policy_version,
    )
