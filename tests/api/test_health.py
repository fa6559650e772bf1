from pathlib import Path

import httpx
from fastapi import FastAPI

from tests.databases import Databases
from tests.factories import BASE_URL
from tests.services import a_settings, served
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


async def test_who_asks_for_verdicts_alone_is_not_sent_away_while_the_database_is(
    postgres: Databases, tmp_path: Path
) -> None:
    url = postgres.fresh().replace("host=", "host=/nowhere")
    async with served(a_settings(url, journal_folder=tmp_path / "journal")) as client:
        whole = await client.get("/readyz?verbose")
        rest = await client.get("/readyz?verbose&exclude=database&exclude=journal")
        wrong = await client.get("/readyz?exclude=clock")
    assert whole.status_code == 503
    assert rest.status_code == 200
    assert [check["name"] for check in rest.json()["checks"]] == ["service", "catalog"]
    assert wrong.status_code == 422
    assert "'database'" in wrong.json()["detail"]
