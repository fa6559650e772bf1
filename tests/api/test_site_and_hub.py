"""Models that do not ship with the package: a site's own, and those of a hub."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from tests.factories import BASE_URL, a_job
from vramgate.app import create_app
from vramgate.catalog.site import InvalidSiteCatalogError
from vramgate.settings import Settings

_LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


class _Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Serve one model's config."""
        known = self.path == "/acme/tiny/resolve/main/config.json"
        body = json.dumps(_LLAMA).encode() if known else b""
        self.send_response(200 if known else 404)
        self.send_header("x-repo-commit", "c0ffee")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub_url() -> Iterator[str]:
    """Return the address of a hub that has one model."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@asynccontextmanager
async def _service(**settings: Any) -> AsyncIterator[httpx.AsyncClient]:  # noqa: ANN401
    app = create_app(Settings(**settings))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client,
    ):
        yield client


async def test_a_hub_is_asked_for_what_the_catalog_does_not_know(
    hub_url: str, tmp_path: Path
) -> None:
    async with _service(hub_lookup=True, hub_url=hub_url, hub_cache=tmp_path) as client:
        answer = await client.post(
            "/v1/estimates", json={"job": a_job(model={"name": "acme/tiny"})}
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"]["name"] == "acme/tiny"
        assert answer.json()["assumptions"][0] == {
            "field": "model.config",
            "value": "acme/tiny",
            "from": "Hugging Face Hub at c0ffee",
        }
        known = await client.post("/v1/estimates", json={"job": a_job()})
        assert known.status_code == 200
        nobody = await client.post("/v1/estimates", json={"job": a_job(model={"name": "acme/no"})})
        assert (nobody.status_code, nobody.json()["code"]) == (422, "unknown_name")


async def test_a_hub_that_is_away_is_a_problem_document(tmp_path: Path) -> None:
    async with _service(
        hub_lookup=True, hub_url="http://127.0.0.1:9", hub_cache=tmp_path
    ) as client:
        answer = await client.post(
            "/v1/estimates", json={"job": a_job(model={"name": "acme/tiny"})}
        )
    assert (answer.status_code, answer.json()["code"]) == (503, "hub_unavailable")


async def test_no_hub_is_asked_unless_the_site_says_so(hub_url: str, tmp_path: Path) -> None:
    async with _service(hub_url=hub_url, hub_cache=tmp_path) as client:
        answer = await client.post(
            "/v1/estimates", json={"job": a_job(model={"name": "acme/tiny"})}
        )
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_name")


async def test_a_site_has_models_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "site.json"
    file.write_text(json.dumps({"models": [{"name": "acme/own", "config": _LLAMA}]}))
    async with _service(site_catalog=file) as client:
        shown = (await client.get("/v1/models/acme/own")).json()
        assert shown["origin"] == str(file)
        answer = await client.post("/v1/estimates", json={"job": a_job(model={"name": "acme/own"})})
        assert answer.status_code == 200


def test_a_site_catalog_with_faults_keeps_the_service_from_starting(tmp_path: Path) -> None:
    file = tmp_path / "site.json"
    file.write_text('{"models": [{"label": "acme/own"}]}')
    with pytest.raises(InvalidSiteCatalogError):
        create_app(Settings(site_catalog=file))
