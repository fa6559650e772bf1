"""Measured peaks: handed in."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Body, Request, Response
from starlette.types import Scope as AsgiScope

from vramgate.access import Caller, Scope
from vramgate.api import examples
from vramgate.api.dependencies import ACCESS_PROBLEMS, caller_with
from vramgate.api.idempotency_key import (
    HEADER,
    PARAMETER,
    IdempotencyKeyReusedError,
    idempotency_key,
)
from vramgate.api.json_body import DirectRoute, JsonRequest
from vramgate.api.problems import (
    Failure,
    failure_of,
    problem,
    problem_answers,
    problem_response,
)
from vramgate.calibration.report import Report
from vramgate.calibration.residuals import residuals_of
from vramgate.errors import DomainError
from vramgate.json_text import pointer
from vramgate.persistence.idempotency import Claim, StoredAnswer
from vramgate.persistence.reports import Recorded, Submission
from vramgate.telemetry import logger
from vramgate.wire.reports import ReportsRequest, ReportsResponse
from vramgate.wire.validation import MAX_FIELDS
from vramgate.workflows.decided_jobs import DecidedJobs
from vramgate.workflows.record_reports import ReportIntake
from vramgate.workflows.tenant_catalogs import TenantCatalogs

READ_INLINE = 4
"""More reports than this are read in a thread, while others are answered."""

router = APIRouter(
    prefix="/v1/reports", tags=["reports"], route_class=DirectRoute, responses=ACCESS_PROBLEMS
)

_log = logger("vramgate.reports")

_AS_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Made once; what it is given has the shape of ``ReceiptOut``, as a test holds it to."""


@router.post(
    "",
    operation_id="createReports",
    summary="Hand in measured peaks",
    status_code=HTTPStatus.ACCEPTED,
    response_model=ReportsResponse,
    responses=problem_answers(400, 413, 415, 422),
    openapi_extra={"parameters": [PARAMETER]},
)
async def create_reports(
    request: Request,
    body: Annotated[ReportsRequest, Body(openapi_examples=examples.REPORTS)],
    caller: Annotated[Caller, caller_with(Scope.REPORT)],
) -> Response:
    """Keep each report, and answer once they are on disk; one bad report fails alone.

    A report is known by its tenant, `run_id` and `rank`: the same content again is `duplicate`;
    while the outcome is `running`, peaks that did not fall make it `raised`; anything else is a
    `conflict`. What is possible but not plausible is `quarantined`. Where no report at all can be
    taken, the answer is a problem that lists each.

    A report may name the decision that admitted it, and leave its job to that. The first run that
    reports under a decision is its only one; another is refused as `other_run`. With the
    `report_token` of an admission every report is of its decision, named or not.
    """
    key = idempotency_key(request.headers.get(HEADER))
    catalogs: TenantCatalogs = request.app.state.tenant_catalogs
    reader = (await catalogs.of(caller.tenant.name)).reports
    decided_jobs: DecidedJobs = request.app.state.decided_jobs
    decisions = await decided_jobs.of_reports(body.reports, caller)
    intake: ReportIntake = request.app.state.report_intake
    read = partial(_read, body.reports, partial(reader.read, caller=caller, decisions=decisions))
    is_long = len(body.reports) > READ_INLINE
    items = await to_thread.run_sync(read) if is_long else read()
    kept = tuple(one for one in items if isinstance(one, Report))
    if not kept:
        return _all_refused([one for one in items if isinstance(one, Failure)], request.scope)
    answer = await intake.take(
        Submission(
            reports=kept,
            claim=_claim(request, caller, key),
            answer=partial(_answer, items, request.scope),
        )
    )
    if answer.is_reuse:
        raise IdempotencyKeyReusedError(
            f"The Idempotency-Key {key!r} came with another body before; nothing was taken.",
            hint="Give each request a key of its own, and send it again only unchanged.",
        )
    return Response(answer.body, status_code=answer.status, media_type="application/json")


def _read(items: Sequence[object], read: Callable[[object], Report]) -> list[Report | Failure]:
    return [_read_one(index, item, read) for index, item in enumerate(items)]


def _read_one(index: int, item: object, read: Callable[[object], Report]) -> Report | Failure:
    try:
        return read(item)
    except DomainError as error:
        return failure_of(error, prefix=pointer("reports", index))
    except Exception:  # noqa: BLE001 a fault at one report must not take the other 999 along
        _log.exception("failed", item=index)
        return Failure(code="internal_error", detail="The service failed at this report.")


def _answer(
    items: Sequence[Report | Failure], scope: AsgiScope, recorded: Sequence[Recorded]
) -> StoredAnswer:
    """Return the answer to a request: the problems, and what became of the reports between them."""
    outcomes = iter(recorded)
    parts = [
        _refusal(index, one, scope)
        if isinstance(one, Failure)
        else _receipt(index, one, next(outcomes), scope)
        for index, one in enumerate(items)
    ]
    return StoredAnswer(status=HTTPStatus.ACCEPTED, body=f'{{"items":[{",".join(parts)}]}}')


def _receipt(index: int, report: Report, recorded: Recorded, scope: AsgiScope) -> str:
    if recorded.refusal is not None:
        return _refusal(
            index, failure_of(recorded.refusal, prefix=pointer("reports", index)), scope
        )
    if recorded.receipt is None or recorded.report_id is None:
        failure = Failure(code="internal_error", detail="The database refused this report.")
        return _refusal(index, failure, scope)
    residuals = residuals_of(report.measured, report.estimated)
    receipt = {
        "report_id": recorded.report_id,
        "status": recorded.receipt.value,
        "reasons": [{"code": one.code, "message": one.message} for one in recorded.reasons],
        "residuals": {
            layer: {
                "measured_bytes": one.measured_bytes,
                "estimated_bytes": one.estimated_bytes,
                "relative_error": one.relative_error,
            }
            for layer, one in residuals.items()
        },
    }
    return _AS_JSON(receipt)


def _refusal(index: int, failure: Failure, scope: AsgiScope) -> str:
    document = problem(failure, scope)
    document.instance += f"#{pointer('reports', index)}"
    return f'{{"problem":{document.model_dump_json(exclude_none=True, fallback=str)}}}'


def _all_refused(failures: Sequence[Failure], scope: AsgiScope) -> Response:
    """Answer a request of which nothing was taken: a client that reads the status alone knows."""
    items = [json.loads(_refusal(index, one, scope)) for index, one in enumerate(failures)]
    if len(failures) == 1:
        return problem_response(replace(failures[0], members={"items": items}), scope)
    fields = tuple(field for one in failures for field in one.fields)
    whole = Failure(
        code="reports_refused",
        detail=f"None of the {len(failures)} reports could be taken; the first: "
        f"{failures[0].detail}",
        fields=fields[:MAX_FIELDS],
        members={"items": items},
    )
    return problem_response(whole, scope)


def _claim(request: Request, caller: Caller, key: str | None) -> Claim | None:
    if key is None or not isinstance(request, JsonRequest):
        return None
    route = "createReports"
    if caller.decision_id is not None:
        # The same words mean another decision with another token.
        route = f"{route} {caller.decision_id}"
    return Claim(
        tenant=caller.tenant.name,
        route=route,
        key=key,
        fingerprint=request.fingerprint,
    )
