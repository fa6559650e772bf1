"""Models and accelerators by the names they go by."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from vramgate.access import Scope
from vramgate.api.caching import NOT_MODIFIED, next_link, tagged, tagged_entry
from vramgate.api.dependencies import ACCESS_PROBLEMS, CatalogsDep, caller_with
from vramgate.api.problems import problem_answers
from vramgate.catalog.own_entries import entry_id
from vramgate.catalog.site import Catalogs
from vramgate.catalog.site_entries import EntryKind
from vramgate.wire.catalog import (
    AcceleratorOut,
    AcceleratorSummary,
    CatalogSummary,
    ModelOut,
    ModelSummary,
    shown_accelerator,
    shown_model,
)
from vramgate.wire.lists import Page, slice_after
from vramgate.workflows.change_catalog import tag_of

MAX_PAGE = 200

router = APIRouter(
    prefix="/v1",
    tags=["catalog"],
    dependencies=[caller_with(Scope.ESTIMATE)],
    responses=ACCESS_PROBLEMS,
)

_Summary = TypeVar("_Summary", bound=CatalogSummary)


class ListQuery(BaseModel):
    """What a list may be asked."""

    model_config = ConfigDict(extra="forbid")

    q: str = Field(
        default="", max_length=200, description="Part of a name; best matches come first."
    )
    limit: int = Field(default=50, ge=1, le=MAX_PAGE, description="Items a page.")
    cursor: str | None = Field(
        default=None, max_length=2000, description="`next_cursor` of the page before."
    )


Name = Annotated[str, Path(min_length=1, max_length=512, description="A name in the wild.")]


@router.get(
    "/models",
    operation_id="listModels",
    summary="Models known by name",
    response_model=Page[ModelSummary],
    responses={**NOT_MODIFIED, **problem_answers(400, 422)},
)
async def list_models(
    request: Request, catalogs: CatalogsDep, query: Annotated[ListQuery, Query()]
) -> Response:
    """List the catalog's models, or those whose names fit `q`."""
    models = catalogs.models
    found = models.search(query.q, len(models.entries)) if query.q else models.entries
    rows = [ModelSummary.model_validate(entry) for entry in found]
    return _page(request, Page[ModelSummary], rows, query)


@router.get(
    "/models/{name:path}",
    operation_id="getModel",
    summary="The model that a name means",
    response_model=ModelOut,
    responses={**NOT_MODIFIED, **problem_answers(404, 422)},
)
async def get_model(request: Request, catalogs: CatalogsDep, name: Name) -> Response:
    """Return the entry that a name means: an id, an alias, a copy, a quantised variant, a path."""
    found = catalogs.models.resolve(name)
    return _entry(request, EntryKind.MODEL, shown_model(found, catalogs), catalogs)


@router.get(
    "/accelerators",
    operation_id="listAccelerators",
    summary="Accelerators known by name",
    response_model=Page[AcceleratorSummary],
    responses={**NOT_MODIFIED, **problem_answers(400, 422)},
)
async def list_accelerators(
    request: Request, catalogs: CatalogsDep, query: Annotated[ListQuery, Query()]
) -> Response:
    """List the catalog's cards, or those whose names fit `q`; each tells its MIG slices."""
    cards = catalogs.accelerators
    found = cards.search(query.q, len(cards.entries)) if query.q else cards.entries
    rows = [AcceleratorSummary.model_validate(card) for card in found]
    return _page(request, Page[AcceleratorSummary], rows, query)


@router.get(
    "/accelerators/{name:path}",
    operation_id="getAccelerator",
    summary="The accelerator that a name means",
    response_model=AcceleratorOut,
    responses={**NOT_MODIFIED, **problem_answers(404, 422)},
)
async def get_accelerator(request: Request, catalogs: CatalogsDep, name: Name) -> Response:
    """Return the card or MIG slice that a name of NVML, Kubernetes, Slurm or a cloud means."""
    found = catalogs.accelerators.resolve(name)
    shown = shown_accelerator(found, catalogs)
    return _entry(request, EntryKind.ACCELERATOR, shown, catalogs)


def _entry(
    request: Request, kind: EntryKind, shown: ModelOut | AcceleratorOut, catalogs: Catalogs
) -> Response:
    """Return an entry; one of the tenant's own, asked for by its name, with a tag to change it by."""
    asked = entry_id(kind, shown.match.asked)
    digest = catalogs.own.get(asked) if asked == entry_id(kind, shown.name) else None
    return (
        tagged(request, shown) if digest is None else tagged_entry(request, shown, tag_of(digest))
    )


def _page(
    request: Request,
    shape: type[Page[_Summary]],
    rows: Sequence[_Summary],
    query: ListQuery,
) -> Response:
    found = slice_after(
        rows,
        key=lambda row: row.name,
        limit=query.limit,
        cursor=query.cursor,
        filters=f"{shape.__name__} {query.q}",
    )
    page = shape(items=list(found.items), next_cursor=found.next_cursor)
    return tagged(request, page, link=next_link(request, found.next_cursor))
