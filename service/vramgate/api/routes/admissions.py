"""May this job start: the scheduler's question."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from vramgate.access import Caller, Scope
from vramgate.api import examples
from vramgate.api.deadline import PARAMETERS, deadline_of
from vramgate.api.dependencies import ACCESS_PROBLEMS, caller_with
from vramgate.api.json_body import RememberingRoute
from vramgate.api.problems import problem_answers
from vramgate.persistence.group_commit import OverloadedError
from vramgate.wire.admissions import AdmitRequest, AdmitResponse
from vramgate.workflows.admissions import Admissions

MOST_AT_ONCE = 512
"""Questions under way in a process. At a thousand a second, these are half a second's."""

router = APIRouter(tags=["admissions"], route_class=RememberingRoute, responses=ACCESS_PROBLEMS)


class Gate:
    """Counts the questions under way, and turns the next ones away at once."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._inside = 0

    def __enter__(self) -> None:
        """Go in.

        Raises:
            OverloadedError: too many are inside.
        """
        if self._inside >= self._most:
            raise OverloadedError(
                f"{self._inside} questions are being answered already; this one was not looked at.",
                hint="Ask again in a moment, or ask another replica.",
            )
        self._inside += 1

    def __exit__(self, *_: object) -> None:
        """Go out."""
        self._inside -= 1


@router.post(
    "/v1/admit",
    operation_id="admit",
    summary="May this job start",
    status_code=HTTPStatus.OK,
    response_model=AdmitResponse,
    responses=problem_answers(400, 413, 415, 422),
    openapi_extra={"parameters": list(PARAMETERS)},
)
@router.post("/admit", include_in_schema=False, response_model=AdmitResponse)
async def admit(
    request: Request,
    body: Annotated[AdmitRequest, Body(openapi_examples=examples.ADMIT)],
    caller: Annotated[Caller, caller_with(Scope.ADMIT)],
) -> Response:
    """Answer with the verdict on the job's memory and the decision that the policy makes of it.

    Always 200 where the question could be read: a job that does not fit is `deny`, not an error. What
    could not be checked in time is `unchecked`. The answer waits for its commit; where the database is
    away, the decision is in a journal on disk and `recorded` is false. `POST /admit` is the same.
    """
    gate: Gate = request.app.state.admission_gate
    admissions: Admissions = request.app.state.admissions
    with gate:
        answer = await admissions.answer(body, caller, deadline_of(request))
    return Response(answer, media_type="application/json")
