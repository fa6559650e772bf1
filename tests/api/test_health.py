import httpx
from fastapi import FastAPI

from tests.factories import BASE_URL
from vramgate.app import create_app
from vramgate.settings import Settings


async def test_the_process_is_alive_before_it_is_ready() -> None:
    app: FastAPI = create_app(Settings())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await client.get("/readyz")).status_code == 503
        async with app.router.lifespan_context(app):
            assert (await client.get("/readyz")).json() == {"status": "ready"}
        assert (await client.get("/readyz")).status_code == 503


async def test_readiness_tells_each_check_when_asked(client: httpx.AsyncClient) -> None:
    checks = (await client.get("/readyz?verbose")).json()["checks"]
    assert [check["name"] for check in checks] == ["service", "catalog", "database", "journal"]
    assert all(check["passed"] for check in checks)
