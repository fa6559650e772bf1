"""The service as its callers meet it."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI

from tests.factories import BASE_URL
from vramgate.app import create_app
from vramgate.settings import Settings


@pytest.fixture(scope="session")
def app() -> FastAPI:
    """Return the service with the settings it has out of the box."""
    return create_app(Settings())


@pytest_asyncio.fixture(scope="session")
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the running service, without a socket between them."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE_URL) as client,
    ):
        yield client
