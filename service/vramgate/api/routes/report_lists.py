"""Measured peaks: read, exported, released from quarantine."""

import json
from collections.abc import AsyncIterator
from dataclasses import fields
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from vramgate.access import Caller, Scope
from vramgate.api import examples
from vramgate.api.caching import NOT_MODIFIED, next_link, tagged
from vramgate.api.dependencies import ACCESS_PROBLEMS, CallerDep, DatabaseDep, caller_with
from vramgate.api.json_body import JsonRoute
from vramgate.api.problems import problem_answers
from vramgate.calibration.report import Standing
from vramgate.persistence.engine import Database
from vramgate.persistence.report_keys import Place
from vramgate.persistence.report_lists import (
    Order,
    Selection,
    Stretch,
    place_of,
    select_reports,
    whole_report,
)
from vramgate.persistence.report_release import not_found, release
from vramgate.wire.lists import place_cursor, place_in_cursor
from vramgate.wire.report_lists import (
    ReleaseRequest,
    ReportDetail,
    ReportFilters,
    ReportOut,
    ReportPage,
    StatusFilters,
)
from vramgate.workflows.export_reports import ReportExport, pieces_of

MAX_PAGE = 200
LIST = "/v1/reports"
CSV = "text/csv; charset=utf-8; header=present"
PARQUET = "application/vnd.apache.parquet"

router = APIRouter(prefix=LIST, tags=["reports"], route_class=JsonRoute, responses=ACCESS_PROBLEMS)

_READ = [caller_with(Scope.READ)]


class _PageQuery(ReportFilters):
    order: Order = Field(default=Order.OLDEST, description="By the time of the last change.")
    limit: int = Field(default=50, ge=1, le=MAX_PAGE, description="Items a page.")
    cursor: str | None = Field(
        default=None,
        max_length=2000,
        description="`next_cursor` of the page before, or a `resume_cursor`.",
    )


class QuarantineQuery(_PageQuery):
    """What the list of quarantined reports may be asked."""


class ReportQuery(_PageQuery, StatusFilters):
    """What the list of reports may be asked."""


class ExportQuery(StatusFilters):
    """What may be exported, and as what."""

    format: Literal["csv", "parquet"] = "csv"


ReportId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[0-9A-Za-z-]+$")]


@router.get(
    "",
    operation_id="listReports",
    summary="Measured peaks in the order of their last change",
    response_model=ReportPage,
    responses={**NOT_MODIFIED, **problem_answers(400, 422)},
    dependencies=_READ,
)
async def list_reports(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    query: Annotated[ReportQuery, Query()],
) -> Response:
    """List the caller's own reports, whatever their status.

    The order is that in which they came in, were raised or were released; one that changes again
    appears again, at the end. A reader that goes on from `resume_cursor`, whenever that is, misses
    nothing. A request looks through 50 000 reports at most: a page may hold few items, or none, and
    still name a `next_cursor`.
    """
    return await _page(request, caller, database, query, query.status)


@router.get(
    "/quarantine",
    operation_id="listQuarantinedReports",
    summary="Measured peaks that are not plausible",
    response_model=ReportPage,
    responses={**NOT_MODIFIED, **problem_answers(400, 422)},
    dependencies=_READ,
)
async def list_quarantined_reports(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    query: Annotated[QuarantineQuery, Query()],
) -> Response:
    """List the reports that are kept and shown, but teach nothing until they are released."""
    return await _page(request, caller, database, query, Standing.QUARANTINED)


@router.get(
    "/export",
    operation_id="exportReports",
    summary="Measured peaks as a CSV or Parquet file",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file",
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                PARQUET: {"schema": {"type": "string", "format": "binary"}},
            },
        },
        **problem_answers(422),
    },
    dependencies=_READ,
)
async def export_reports(
    caller: CallerDep, database: DatabaseDep, query: Annotated[ExportQuery, Query()]
) -> Response:
    """Export the selected reports as they stand now, oldest change first.

    In CSV, texts that a spreadsheet would take for a formula have an apostrophe before them. The
    `Link` header leads to what changes after the end of the file.
    """
    export = await ReportExport.begin(database, _selection(caller, query, query.status))
    name = f"vramgate-reports-{export.end.received_at:%Y%m%dT%H%M%SZ}.{query.format}"
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
        "Link": _link_behind(export.end, caller, query),
    }
    if query.format == "csv":
        return StreamingResponse(export.csv(), media_type=CSV, headers=headers)
    pieces: AsyncIterator[bytes] = pieces_of(await export.parquet())
    return StreamingResponse(pieces, media_type=PARQUET, headers=headers)


@router.get(
    "/{report_id}",
    operation_id="getReport",
    summary="One report with what was sent",
    response_model=ReportDetail,
    responses={**NOT_MODIFIED, **problem_answers(404, 422)},
    dependencies=_READ,
)
async def get_report(
    request: Request, caller: CallerDep, database: DatabaseDep, report_id: ReportId
) -> Response:
    """Return a report of the caller's own, its estimate, its document and its job."""
    return tagged(request, await _detail(database, caller, report_id))


@router.post(
    "/quarantine/{report_id}/release",
    operation_id="releaseReport",
    summary="Let a quarantined report count",
    status_code=HTTPStatus.OK,
    responses=problem_answers(400, 404, 409, 413, 415, 422),
    dependencies=[caller_with(Scope.CALIBRATE)],
)
async def release_report(
    caller: CallerDep,
    database: DatabaseDep,
    report_id: ReportId,
    body: Annotated[ReleaseRequest, Body(openapi_examples=examples.RELEASE)],
) -> ReportDetail:
    """Accept a quarantined report of the caller's own; the audit trail says who did and why.

    Its `reasons` stay, and it appears again at the end of the list.
    """
    async with database.writing() as connection:
        await release(
            connection,
            tenant=caller.tenant.name,
            report_id=report_id,
            actor=caller.name,
            reason=body.reason,
        )
    return await _detail(database, caller, report_id)


async def _detail(database: Database, caller: Caller, report_id: str) -> ReportDetail:
    async with database.reading() as connection:
        found = await whole_report(connection, tenant=caller.tenant.name, report_id=report_id)
    if found is None:
        raise not_found(report_id)
    return ReportDetail.model_validate(found)


async def _page(
    request: Request,
    caller: Caller,
    database: Database,
    query: _PageQuery,
    status: Standing | None,
) -> Response:
    chosen = _selection(caller, query, status)
    filters = _filters(chosen, query.order)
    after = None
    if query.cursor is not None:
        received_at, position = place_in_cursor(query.cursor, filters)
        after = Place(received_at=received_at, position=position)
    stretch = Stretch(order=query.order, after=after, limit=query.limit + 1)
    async with database.reading() as connection:
        found = await select_reports(connection, chosen, stretch)
    shown = found.reports[: query.limit]
    has_more = len(found.reports) > query.limit or found.searched_to is not None
    # How far everything is shown now: to the end of a search that stopped, or to the last shown.
    seen = found.searched_to or (place_of(shown[-1]) if shown else None)
    behind = query.cursor
    if seen is not None:
        behind = place_cursor(seen.received_at, seen.position, filters)
    cursor = behind if has_more else None
    page = ReportPage(
        items=[ReportOut.model_validate(one) for one in shown],
        next_cursor=cursor,
        resume_cursor=behind if query.order is Order.OLDEST else None,
    )
    return tagged(request, page, link=next_link(request, cursor))


def _selection(caller: Caller, query: ReportFilters, status: Standing | None) -> Selection:
    return Selection(
        tenant=caller.tenant.name,
        run_id=query.run_id,
        decision_id=query.decision_id,
        rank=query.rank,
        status=status,
        outcome=query.outcome,
        submitter=query.submitter,
        model=query.model,
        accelerator=query.accelerator,
        since=query.since,
        until=query.until,
    )


def _filters(chosen: Selection, order: Order) -> str:
    """Return what a cursor is bound to; the same whatever way the filters were written.

    Filters left open are not in it, so that a cursor outlives versions that add another.
    """
    given = {
        one.name: _as_parameter(getattr(chosen, one.name))
        for one in fields(chosen)
        if getattr(chosen, one.name) is not None
    }
    return f"reports {order.value} {json.dumps(given, sort_keys=True)}"


def _link_behind(end: Place, caller: Caller, query: StatusFilters) -> str:
    """Return the Link to what the list gives behind a place, under the same filters."""
    filters = _filters(_selection(caller, query, query.status), Order.OLDEST)
    given = {
        name: _as_parameter(value)
        for name, value in query.model_dump(exclude={"format"}, exclude_none=True).items()
    }
    cursor = place_cursor(end.received_at, end.position, filters)
    return f'<{LIST}?{urlencode({**given, "cursor": cursor})}>; rel="next"'


def _as_parameter(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
