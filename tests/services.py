"""The service with settings of a test's own, and tokens for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from pydantic import SecretStr

from tests.factories import BASE_URL
from vramgate.access import Scope
from vramgate.app import create_app
from vramgate.authentication.tokens import IssuedToken, create_token
from vramgate.persistence.engine import Database
from vramgate.settings import Settings

ELSEWHERE = ("192.0.2.1", 40_000)
"""A client on another machine (an address of RFC 5737)."""


def a_settings(database_url: str, **overrides: Any) -> Settings:  # noqa: ANN401 whatever settings hold
    """Return settings where every request needs a token, unless they are overridden."""
    given = {"loopback_without_token": False, "database_url": SecretStr(database_url)}
    return Settings(**{**given, **overrides})


@asynccontextmanager
async def served(
    settings: Settings, *, client: tuple[str, int] = ELSEWHERE, host: str = "vramgate.example"
) -> AsyncIterator[httpx.AsyncClient]:
    """Run the service and give a client of it, by default one that comes from another machine."""
    app = create_app(settings)
    base_url = f"http://{host}" if host else BASE_URL
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=client), base_url=base_url
        ) as opened,
    ):
        yield opened


async def a_token(
    database: Database,
    *scopes: Scope,
    tenant: str = "team-a",
    name: str = "trainer",
    lifetime: timedelta | None = timedelta(days=1),
    now: datetime | None = None,
) -> IssuedToken:
    """Make a token as the command does."""
    return await create_token(
        database,
        tenant=tenant,
        name=name,
        scopes=scopes or (Scope.READ,),
        lifetime=lifetime,
        keys=(),
        actor="test",
        now=now or datetime.now(UTC),
    )


def bearer(token: IssuedToken | str) -> dict[str, str]:
    """Return the header that shows a token."""
    text = token if isinstance(token, str) else token.bearer.text()
    return {"Authorization": f"Bearer {text}"}
