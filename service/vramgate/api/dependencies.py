"""What routes are given: the settings, and a caller who may do what the route does."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security

from vramgate.access import Caller, Scope
from vramgate.api.auth import CallerOf, ForbiddenError, caller_of
from vramgate.api.problems import problem_answers
from vramgate.catalog.site import Catalogs
from vramgate.hub import HubLookup
from vramgate.persistence.engine import Database
from vramgate.settings import Settings
from vramgate.workflows.tenant_catalogs import TenantCatalogs
from vramgate.workflows.tenant_policies import TenantPolicies

_Value = TypeVar("_Value")

ACCESS_PROBLEMS = problem_answers(401, 403, 429, 503)
"""What every route that asks who calls may answer; for the ``responses`` of its router."""


def settings_of(request: Request) -> Settings:
    """Return the settings the service was started with."""
    settings: Settings = request.app.state.settings
    return settings


def database_of(request: Request) -> Database:
    """Return the database that everything is kept in."""
    database: Database = request.app.state.database
    return database


def tenant_catalogs_of(request: Request) -> TenantCatalogs:
    """Return the catalogs of every tenant."""
    catalogs: TenantCatalogs = request.app.state.tenant_catalogs
    return catalogs


def tenant_policies_of(request: Request) -> TenantPolicies:
    """Return the active policy of every tenant."""
    policies: TenantPolicies = request.app.state.tenant_policies
    return policies


async def callers_catalogs(request: Request) -> Catalogs:
    """Return the catalogs that the caller's answers are made from.

    Raises:
        UnauthenticatedError: nobody said who calls.
    """
    caller = await caller_of(request)
    return (await tenant_catalogs_of(request).of(caller.tenant.name)).catalogs


def hub_of(request: Request) -> HubLookup | None:
    """Return the look-up of models the catalog does not know, where the site allows it."""
    hub: HubLookup | None = request.app.state.hub
    return hub


def inline(read: Callable[[Request], _Value]) -> Callable[[Request], Awaitable[_Value]]:
    """Return the reader as a dependency that FastAPI does not send through a thread."""

    async def dependency(request: Request) -> _Value:
        return read(request)

    return dependency


CatalogsDep = Annotated[Catalogs, Depends(callers_catalogs)]
TenantCatalogsDep = Annotated[TenantCatalogs, Depends(inline(tenant_catalogs_of))]
TenantPoliciesDep = Annotated[TenantPolicies, Depends(inline(tenant_policies_of))]
HubDep = Annotated[HubLookup | None, Depends(inline(hub_of))]
DatabaseDep = Annotated[Database, Depends(inline(database_of))]
CallerDep = Annotated[Caller, Security(caller_of)]


class CallerWith(CallerOf):
    """The dependency that gives a route its caller, who must hold a scope, or one of several."""

    def __init__(self, scope: Scope, *others: Scope) -> None:
        self.scope = scope
        self._enough = (scope, *others)

    async def __call__(self, request: Request) -> Caller:
        """Return who calls.

        Raises:
            UnauthenticatedError: nobody said so.
            ForbiddenError: the caller lacks the scope.
        """
        caller = await super().__call__(request)
        if not any(caller.may(scope) for scope in self._enough):
            raise ForbiddenError(caller, self.scope)
        return caller


def caller_with(scope: Scope, *others: Scope) -> Any:  # noqa: ANN401 as FastAPI types its dependencies
    """Return the dependency on a caller with a scope; each of the others is enough as well.

    One dependency that asks nothing of others: FastAPI takes a while for each.
    """
    return Security(CallerWith(scope, *others), scopes=[scope.value])


def told_of(*others: Scope) -> dict[str, Any]:
    """Return what tells OpenAPI that each of these scopes is enough as well; for ``openapi_extra``."""
    return {"security": [{CallerWith.scheme_name: [scope.value]} for scope in others]}
