"""Admission policies of the caller's tenant: drafted, shown, activated, retired."""

import re
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Body, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from vramgate.access import Scope
from vramgate.api import examples
from vramgate.api.caching import NOT_MODIFIED, entry_tag, next_link, tagged, tagged_entry
from vramgate.api.conditions import IF_MATCH, conditions_of
from vramgate.api.dependencies import (
    ACCESS_PROBLEMS,
    CallerDep,
    CatalogsDep,
    DatabaseDep,
    TenantPoliciesDep,
    caller_with,
    told_of,
)
from vramgate.api.json_body import JsonRoute
from vramgate.api.problems import problem_answers
from vramgate.catalog.site import Catalogs
from vramgate.persistence.policies import PolicyPlace
from vramgate.wire.lists import Page, invalid_cursor, moment_cursor, moment_in_cursor
from vramgate.wire.policies import (
    MAX_VERSION,
    VERSION_PATTERN,
    FindingOut,
    LintOut,
    LintRequest,
    PolicyOut,
    PolicyRequest,
    PolicySummaryOut,
    checked_policy,
)
from vramgate.workflows.change_policy import activate_policy, create_policy, retire_policy
from vramgate.workflows.show_policy import (
    PolicyState,
    active_state,
    find_state,
    lint,
    list_states,
    tag_of,
    warnings_about,
)

MAX_PAGE = 200
PATH = "/v1/policies"
_IN_BODY = "/policy"

router = APIRouter(prefix=PATH, tags=["policies"], route_class=JsonRoute, responses=ACCESS_PROBLEMS)

Version = Annotated[
    str,
    Path(max_length=MAX_VERSION, pattern=VERSION_PATTERN, description="As the list shows it."),
]

_ADMIN = [caller_with(Scope.ADMIN)]
_READ = [caller_with(Scope.READ, Scope.ADMIT)]
_ALSO_ADMIT = told_of(Scope.ADMIT)
_CONDITIONAL: dict[str, Any] = {"parameters": [IF_MATCH]}
_CHANGE_PROBLEMS = problem_answers(404, 412, 422, 428)


class PolicyQuery(BaseModel):
    """What the list of versions may be asked."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(default=50, ge=1, le=MAX_PAGE, description="Items a page.")
    cursor: str | None = Field(
        default=None, max_length=2000, description="`next_cursor` of the page before."
    )


@router.post(
    "",
    operation_id="createPolicy",
    summary="Keep a policy as a draft",
    response_model=PolicyOut,
    responses={
        201: {"model": PolicyOut, "description": "A new draft"},
        **problem_answers(400, 409, 413, 415, 422),
    },
    dependencies=_ADMIN,
)
async def create(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: CatalogsDep,
    body: Annotated[PolicyRequest, Body(openapi_examples=examples.POLICY)],
) -> Response:
    """Keep a policy of the caller's tenant as a draft, which changes nothing until it is activated.

    The version that answers names exactly this document. One that is a draft or active already is
    answered as it is, with 200.
    """
    check = partial(checked_policy, body.policy, catalogs.accelerators, at=_IN_BODY)
    drafted = await create_policy(
        database,
        await to_thread.run_sync(check),
        tenant=caller.tenant.name,
        actor=caller.name,
        note=body.note,
    )
    answer = await _answer(drafted.state, catalogs)
    if drafted.is_new:
        root = request.scope.get("root_path", "")
        answer.status_code = HTTPStatus.CREATED
        answer.headers["Location"] = f"{root}{PATH}/{drafted.state.version}"
    return answer


@router.get(
    "",
    operation_id="listPolicies",
    summary="Versions of the policy, the newest first",
    response_model=Page[PolicySummaryOut],
    responses={**NOT_MODIFIED, **problem_answers(400, 422)},
    dependencies=_READ,
    openapi_extra=_ALSO_ADMIT,
)
async def list_versions(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    query: Annotated[PolicyQuery, Query()],
) -> Response:
    """List the versions of the caller's tenant, without their documents."""
    tenant = caller.tenant.name
    filters, after = f"policies {tenant}", None
    if query.cursor is not None:
        after = _place_in(query.cursor, filters)
    found = await list_states(database, tenant, after=after, limit=query.limit + 1)
    items = [PolicySummaryOut.model_validate(one) for one in found[: query.limit]]
    cursor = None
    if len(found) > query.limit and items[-1].created_at is not None:
        cursor = moment_cursor(items[-1].created_at, items[-1].version, filters)
    page = Page[PolicySummaryOut](items=items, next_cursor=cursor)
    return tagged(request, page, link=next_link(request, cursor))


@router.post(
    "/lint",
    operation_id="lintPolicy",
    summary="Look at a policy without keeping it",
    responses=problem_answers(400, 413, 415, 422),
    dependencies=_READ,
    openapi_extra=_ALSO_ADMIT,
)
async def lint_policy(
    catalogs: CatalogsDep,
    body: Annotated[LintRequest, Body(openapi_examples=examples.LINT)],
) -> LintOut:
    """Return what the author of a policy probably did not mean; what is wrong is a problem (422)."""
    check = partial(checked_policy, body.policy, catalogs.accelerators, at=_IN_BODY)
    found = await lint(await to_thread.run_sync(check), catalogs.accelerators)
    return LintOut(valid=True, warnings=[FindingOut.model_validate(one) for one in found])


@router.get(
    "/active",
    operation_id="getActivePolicy",
    summary="The policy that holds now",
    response_model=PolicyOut,
    responses=NOT_MODIFIED,
    dependencies=_READ,
    openapi_extra=_ALSO_ADMIT,
)
async def get_active(
    request: Request, caller: CallerDep, database: DatabaseDep, catalogs: CatalogsDep
) -> Response:
    """Return the active version; the built-in policy, `default`, where there is none."""
    state = await active_state(database, caller.tenant.name)
    return tagged_entry(request, await _shown(state, catalogs), tag_of(state))


@router.get(
    "/{version}",
    operation_id="getPolicy",
    summary="One version of the policy",
    response_model=PolicyOut,
    responses={**NOT_MODIFIED, **problem_answers(404, 422)},
    dependencies=_READ,
    openapi_extra=_ALSO_ADMIT,
)
async def get_version(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: CatalogsDep,
    version: Version,
) -> Response:
    """Return a version of the caller's tenant."""
    state = await find_state(database, caller.tenant.name, version)
    return tagged_entry(request, await _shown(state, catalogs), tag_of(state))


@router.post(
    "/{version}/activate",
    operation_id="activatePolicy",
    summary="Take a version into use",
    response_model=PolicyOut,
    responses=_CHANGE_PROBLEMS,
    dependencies=_ADMIN,
    openapi_extra=_CONDITIONAL,
)
async def activate(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: CatalogsDep,
    policies: TenantPoliciesDep,
    version: Version,
) -> Response:
    """Put a version into the place of the active one, which is retired.

    `If-Match` must hold the ETag of the version, or of `/v1/policies/active`; both change when another
    version is activated. A retired version can be activated again, and `default` is the built-in
    policy. Every replica uses it within 5 seconds.
    """
    tenant = caller.tenant.name
    state = await activate_policy(
        database,
        tenant=tenant,
        actor=caller.name,
        version=version,
        match=conditions_of(request).match,
    )
    await policies.refreshed(tenant)
    return await _answer(state, catalogs)


@router.post(
    "/{version}/retire",
    operation_id="retirePolicy",
    summary="Take back a draft",
    response_model=PolicyOut,
    responses={**_CHANGE_PROBLEMS, **problem_answers(409)},
    dependencies=_ADMIN,
    openapi_extra=_CONDITIONAL,
)
async def retire(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: CatalogsDep,
    version: Version,
) -> Response:
    """Retire a draft that nobody needs; `If-Match` must hold its ETag."""
    state = await retire_policy(
        database,
        tenant=caller.tenant.name,
        actor=caller.name,
        version=version,
        match=conditions_of(request).match,
    )
    return await _answer(state, catalogs)


def _place_in(cursor: str, filters: str) -> PolicyPlace:
    created_at, version = moment_in_cursor(cursor, filters)
    if re.fullmatch(VERSION_PATTERN, version) is None:
        raise invalid_cursor()
    return PolicyPlace(created_at=created_at, version=version)


async def _answer(state: PolicyState, catalogs: Catalogs) -> Response:
    """Return a version as a GET of it answers."""
    body = (await _shown(state, catalogs)).model_dump_json().encode()
    headers = {"ETag": entry_tag(body, tag_of(state)), "Cache-Control": "no-cache"}
    return Response(body, headers=headers, media_type="application/json")


async def _shown(state: PolicyState, catalogs: Catalogs) -> PolicyOut:
    warnings = await warnings_about(state, catalogs.accelerators)
    return PolicyOut.model_validate({**asdict(state), "warnings": list(map(asdict, warnings))})
