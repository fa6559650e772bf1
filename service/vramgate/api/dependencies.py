"""What routes are given: the settings, and a caller who may do what the route does."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from vramgate.access import LOCAL_CALLER, Caller, Scope
from vramgate.catalog.site import Catalogs
from vramgate.errors import DomainError
from vramgate.hub import HubLookup
from vramgate.settings import Settings


class ForbiddenError(DomainError):
    """The caller is known and lacks a scope."""

    code = "forbidden"


def settings_of(request: Request) -> Settings:
    """Return the settings the service was started with."""
    settings: Settings = request.app.state.settings
    return settings


async def caller_of() -> Caller:
    """Return who asks: without tokens, whoever reaches the loopback address."""
    return LOCAL_CALLER


def catalogs_of(request: Request) -> Catalogs:
    """Return the catalogs that answers are made from."""
    catalogs: Catalogs = request.app.state.catalogs
    return catalogs


def hub_of(request: Request) -> HubLookup | None:
    """Return the look-up of models the catalog does not know, where the site allows it."""
    hub: HubLookup | None = request.app.state.hub
    return hub


CatalogsDep = Annotated[Catalogs, Depends(catalogs_of)]
HubDep = Annotated[HubLookup | None, Depends(hub_of)]
CallerDep = Annotated[Caller, Depends(caller_of)]


def requires(scope: Scope) -> Callable[[Caller], Awaitable[None]]:
    """Return a dependency that refuses callers without the scope.

    Raises:
        ForbiddenError: the caller lacks it.
    """

    async def check(caller: CallerDep) -> None:
        if not caller.may(scope):
            raise ForbiddenError(
                f"{caller.name} may not do this: it needs the scope {scope.value!r}.",
                hint="Ask with a token that has the scope.",
            )

    return check
