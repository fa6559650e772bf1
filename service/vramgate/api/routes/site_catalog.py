"""Models and accelerators of the caller's tenant: put and deleted."""

from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, Path, Request, Response

from vramgate.access import Caller, Scope
from vramgate.api import examples
from vramgate.api.caching import entry_tag
from vramgate.api.conditions import IF_MATCH, IF_NONE_MATCH, conditions_of
from vramgate.api.dependencies import (
    ACCESS_PROBLEMS,
    CallerDep,
    DatabaseDep,
    TenantCatalogsDep,
    caller_with,
)
from vramgate.api.json_body import JsonRoute
from vramgate.api.problems import problem_answers
from vramgate.catalog.accelerator_answers import AcceleratorMatch, ResolvedAccelerator
from vramgate.catalog.models import ModelEntry, NameMatch, ResolvedModel
from vramgate.catalog.site import Catalogs
from vramgate.catalog.site_entries import EntryKind
from vramgate.persistence.engine import Database
from vramgate.wire.catalog import AcceleratorOut, ModelOut, shown_accelerator, shown_model
from vramgate.wire.site_entries import SiteAcceleratorIn, SiteModelIn
from vramgate.workflows.change_catalog import Written, delete_entry, put_entry, tag_of
from vramgate.workflows.tenant_catalogs import TenantCatalogs

router = APIRouter(
    prefix="/v1",
    tags=["catalog"],
    route_class=JsonRoute,
    dependencies=[caller_with(Scope.ADMIN)],
    responses=ACCESS_PROBLEMS,
)

Name = Annotated[str, Path(min_length=1, max_length=512, description="The name of the entry.")]

_PUT: dict[str, Any] = {"parameters": [IF_MATCH, IF_NONE_MATCH]}
_DELETE: dict[str, Any] = {"parameters": [IF_MATCH]}
_PUT_PROBLEMS = problem_answers(400, 409, 412, 413, 415, 422, 428)
_DELETE_PROBLEMS = problem_answers(404, 412, 422, 428)
_FOLDERS = {EntryKind.MODEL: "models", EntryKind.ACCELERATOR: "accelerators"}


@router.put(
    "/models/{name:path}",
    operation_id="putModel",
    summary="Add or replace a model of one's own",
    response_model=ModelOut,
    responses={201: {"model": ModelOut, "description": "There was none"}, **_PUT_PROBLEMS},
    openapi_extra=_PUT,
)
async def put_model(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: TenantCatalogsDep,
    name: Name,
    body: Annotated[SiteModelIn, Body(openapi_examples=examples.MODEL)],  # noqa: ARG001 read as sent
) -> Response:
    """Store a model that the caller's tenant alone sees and uses, above the site's and built-in ones.

    One that is there already is replaced only with its ETag as `If-Match`. Every replica uses it
    within 5 seconds.
    """
    return await _put(request, caller, database, catalogs, EntryKind.MODEL, name)


@router.put(
    "/accelerators/{name:path}",
    operation_id="putAccelerator",
    summary="Add or replace an accelerator of one's own",
    response_model=AcceleratorOut,
    responses={201: {"model": AcceleratorOut, "description": "There was none"}, **_PUT_PROBLEMS},
    openapi_extra=_PUT,
)
async def put_accelerator(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: TenantCatalogsDep,
    name: Name,
    body: Annotated[SiteAcceleratorIn, Body(openapi_examples=examples.ACCELERATOR)],  # noqa: ARG001 read as sent
) -> Response:
    """Store an accelerator that the caller's tenant alone sees and uses.

    One with the id of the site's or of a built-in one states only what differs. One that is the
    tenant's own already is replaced only with its ETag as `If-Match`.
    """
    return await _put(request, caller, database, catalogs, EntryKind.ACCELERATOR, name)


@router.delete(
    "/models/{name:path}",
    operation_id="deleteModel",
    summary="Delete a model of one's own",
    status_code=HTTPStatus.NO_CONTENT,
    responses=_DELETE_PROBLEMS,
    openapi_extra=_DELETE,
)
async def delete_model(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: TenantCatalogsDep,
    name: Name,
) -> Response:
    """Delete a model of the caller's tenant; what it stood above is seen again."""
    return await _delete(request, caller, database, catalogs, EntryKind.MODEL, name)


@router.delete(
    "/accelerators/{name:path}",
    operation_id="deleteAccelerator",
    summary="Delete an accelerator of one's own",
    status_code=HTTPStatus.NO_CONTENT,
    responses=_DELETE_PROBLEMS,
    openapi_extra=_DELETE,
)
async def delete_accelerator(
    request: Request,
    caller: CallerDep,
    database: DatabaseDep,
    catalogs: TenantCatalogsDep,
    name: Name,
) -> Response:
    """Delete an accelerator of the caller's tenant; what it stood above is seen again."""
    return await _delete(request, caller, database, catalogs, EntryKind.ACCELERATOR, name)


async def _put(
    request: Request,
    caller: Caller,
    database: Database,
    catalogs: TenantCatalogs,
    kind: EntryKind,
    name: str,
) -> Response:
    written = await put_entry(
        database,
        catalogs.site,
        caller,
        kind=kind,
        name=name,
        document=await request.json(),
        conditions=conditions_of(request),
    )
    state = await catalogs.refreshed(caller.tenant.name)
    body = _shown(written, name, state.catalogs).model_dump_json().encode()
    headers = {"ETag": entry_tag(body, tag_of(written.entry.digest)), "Cache-Control": "no-cache"}
    if written.is_new:
        root = request.scope.get("root_path", "")
        headers["Location"] = f"{root}/v1/{_FOLDERS[kind]}/{quote(written.entry.value.name)}"
    status = HTTPStatus.CREATED if written.is_new else HTTPStatus.OK
    return Response(body, status_code=status, headers=headers, media_type="application/json")


async def _delete(
    request: Request,
    caller: Caller,
    database: Database,
    catalogs: TenantCatalogs,
    kind: EntryKind,
    name: str,
) -> Response:
    await delete_entry(database, caller, kind=kind, name=name, conditions=conditions_of(request))
    await catalogs.refreshed(caller.tenant.name)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _shown(written: Written, name: str, catalogs: Catalogs) -> ModelOut | AcceleratorOut:
    """Return what a GET of the entry answers."""
    value = written.entry.value
    if isinstance(value, ModelEntry):
        return shown_model(ResolvedModel(entry=value, asked=name, how=NameMatch.ID), catalogs)
    return shown_accelerator(
        ResolvedAccelerator(entry=value, asked=name, how=AcceleratorMatch.ID), catalogs
    )
