"""Kept decisions: listed, shown whole, and held against what became of the jobs."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from vramgate.access import Caller, Scope
from vramgate.admission.stored import StoredDecision, decision_not_found
from vramgate.api.caching import NOT_MODIFIED, next_link, tagged
from vramgate.api.dependencies import ACCESS_PROBLEMS, CallerDep, DatabaseDep, caller_with
from vramgate.api.json_body import JsonRoute
from vramgate.api.problems import problem_answers
from vramgate.persistence.decision_lists import (
    DecisionPlace,
    DecisionSelection,
    DecisionStretch,
    decision_place,
    select_decisions,
)
from vramgate.persistence.decisions import find_decision
from vramgate.persistence.report_lists import Order
from vramgate.persistence.run_outcomes import outcome_of_run
from vramgate.persistence.shadow_report import ShadowSelection
from vramgate.wire.admission_lists import (
    DECISION_ID,
    AdmissionDetail,
    AdmissionFilters,
    AdmissionListItem,
    AdmissionPage,
    ShadowFiguresOut,
    ShadowFilters,
    ShadowReportOut,
    ShadowWeekOut,
    place_of_cursor,
)
from vramgate.wire.lists import moment_cursor
from vramgate.workflows.shadow_report import make_shadow_report

MAX_PAGE = 200

router = APIRouter(
    prefix="/v1/admissions", tags=["admission"], route_class=JsonRoute, responses=ACCESS_PROBLEMS
)

_READ = [caller_with(Scope.READ)]


class AdmissionQuery(AdmissionFilters):
    """What the list of decisions may be asked."""

    order: Order = Field(default=Order.NEWEST, description="By the time they were made.")
    limit: int = Field(default=50, ge=1, le=MAX_PAGE, description="Items a page.")
    cursor: str | None = Field(
        default=None, max_length=2000, description="`next_cursor` of the page before."
    )


DecisionId = Annotated[str, Path(pattern=DECISION_ID)]


@router.get(
    "",
    operation_id="listAdmissions",
    summary="Decisions in the order they were made, the newest first",
    response_model=AdmissionPage,
    responses={**NOT_MODIFIED, **problem_answers(400, 422)},
    dependencies=_READ,
)
async def list_admissions(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    query: Annotated[AdmissionQuery, Query()],
) -> Response:
    """List the decisions on the caller's own tenant.

    A decision that waited in a journal appears where it was made. But for `external_id` and the
    times, a request looks through 50 000 decisions at most: a page may hold few items, or none, and
    still name a `next_cursor`.
    """
    chosen = _selection(caller, query)
    filters = _filters(chosen, query.order)
    after = None
    if query.cursor is not None:
        decided_at, decision_id = place_of_cursor(query.cursor, filters)
        after = DecisionPlace(decided_at=decided_at, decision_id=decision_id)
    stretch = DecisionStretch(order=query.order, after=after, limit=query.limit + 1)
    async with database.reading() as connection:
        found = await select_decisions(connection, chosen, stretch)
    shown = found.decisions[: query.limit]
    # How far everything is shown: to the end of a search that stopped, or to the last shown.
    seen = found.searched_to
    if len(found.decisions) > query.limit:
        seen = decision_place(shown[-1])
    cursor = None if seen is None else moment_cursor(seen.decided_at, seen.decision_id, filters)
    page = AdmissionPage(
        items=[AdmissionListItem.model_validate(one) for one in shown], next_cursor=cursor
    )
    return tagged(request, page, link=next_link(request, cursor))


@router.get(
    "/shadow-report",
    operation_id="getShadowReport",
    summary="What enforcing would have done, and was it right",
    responses=problem_answers(422),
    dependencies=_READ,
)
async def get_shadow_report(
    caller: CallerDep, database: DatabaseDep, query: Annotated[ShadowFilters, Query()]
) -> ShadowReportOut:
    """Hold the verdicts on the caller's own tenant against what became of the jobs, week by week.

    Weeks are whole, Monday to Monday in UTC, 53 at most. Reports that are quarantined do not count.
    """
    tenant = caller.tenant.name
    chosen = ShadowSelection(
        tenant=tenant, queue=query.queue, channel=query.channel, cluster=query.cluster
    )
    report = await make_shadow_report(
        database, chosen, since=query.since, until=query.until, now=datetime.now(UTC)
    )
    return ShadowReportOut(
        tenant=tenant,
        weeks=[ShadowWeekOut.model_validate(one) for one in report.weeks],
        total=ShadowFiguresOut.model_validate(report.total),
        notes=list(report.notes),
    )


@router.get(
    "/{decision_id}",
    operation_id="getAdmission",
    summary="One decision with what was asked, what was answered, and how its run ended",
    response_model=AdmissionDetail,
    responses={**NOT_MODIFIED, **problem_answers(404, 422)},
    dependencies=_READ,
)
async def get_admission(
    request: Request, caller: CallerDep, database: DatabaseDep, decision_id: DecisionId
) -> Response:
    """Return a decision on the caller's own tenant."""
    tenant = caller.tenant.name
    async with database.reading() as connection:
        found = await find_decision(connection, tenant=tenant, decision_id=decision_id)
        if found is None:
            raise decision_not_found(decision_id)
        run = await outcome_of_run(connection, tenant=tenant, run_id=found.run_id)
    shown = {**_members(found), "outcome": run.outcome, "reports": run.reports}
    return tagged(request, AdmissionDetail.model_validate(shown))


def _members(found: StoredDecision) -> Mapping[str, Any]:
    """Return what is shown: the answer's members, and the decision's own over them."""
    own = asdict(found)
    for hidden in ("tenant", "answer", "subject_digest", "answer_digest"):
        del own[hidden]
    return {**json.loads(found.answer), **own, "subject": json.loads(found.subject)}


def _selection(caller: Caller, query: AdmissionQuery) -> DecisionSelection:
    given = query.model_dump(exclude={"order", "limit", "cursor"})
    return DecisionSelection(tenant=caller.tenant.name, **given)


def _filters(chosen: DecisionSelection, order: Order) -> str:
    """Return what a cursor is bound to; the same whatever way the filters were written.

    Filters left open are not in it, so that a cursor outlives versions that add another.
    """
    given = {
        one.name: str(getattr(chosen, one.name))
        for one in fields(chosen)
        if getattr(chosen, one.name) is not None
    }
    return f"admissions {order.value} {json.dumps(given, sort_keys=True)}"
