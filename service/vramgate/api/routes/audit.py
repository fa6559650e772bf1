"""Who did which administrative act."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from vramgate.access import Scope
from vramgate.api.caching import next_link
from vramgate.api.dependencies import ACCESS_PROBLEMS, CallerDep, DatabaseDep, caller_with
from vramgate.api.problems import problem_answers
from vramgate.persistence import audit
from vramgate.wire.audit import AuditEntryOut
from vramgate.wire.lists import Page, cursor_of, key_in_cursor

MAX_PAGE = 200

router = APIRouter(prefix="/v1/audit", tags=["audit"], responses=ACCESS_PROBLEMS)


class AuditQuery(BaseModel):
    """What the trail may be asked."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=50, ge=1, le=MAX_PAGE, description="Items a page.")
    cursor: str | None = Field(
        default=None, max_length=2000, description="`next_cursor` of the page before."
    )


@router.get(
    "",
    operation_id="listAuditEntries",
    summary="Administrative acts, the newest first",
    responses=problem_answers(400, 422),
    dependencies=[caller_with(Scope.ADMIN)],
)
async def list_audit_entries(
    request: Request,
    response: Response,
    caller: CallerDep,
    database: DatabaseDep,
    query: Annotated[AuditQuery, Query()],
) -> Page[AuditEntryOut]:
    """List what was done in the caller's tenant: tokens made and revoked, reports released."""
    tenant = caller.tenant.name
    filters = f"audit {tenant}"
    before = None if query.cursor is None else key_in_cursor(query.cursor, filters)
    async with database.reading() as connection:
        found = await audit.entries_of(
            connection, tenant=tenant, before=before, limit=query.limit + 1
        )
    shown = found[: query.limit]
    cursor = cursor_of(shown[-1].audit_id, filters) if len(found) > query.limit else None
    link = next_link(request, cursor)
    if link is not None:
        response.headers["Link"] = link
    return Page[AuditEntryOut](
        items=[AuditEntryOut.model_validate(entry) for entry in shown], next_cursor=cursor
    )
