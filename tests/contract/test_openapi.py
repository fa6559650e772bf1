import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tests.databases import Databases
from tests.factories import BASE_URL
from vramgate.app import create_app, openapi_text
from vramgate.settings import Settings

KEPT = Path(__file__).parents[2] / "openapi" / "openapi.json"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(openapi_text())
    return loaded


def _operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [op for methods in document["paths"].values() for op in methods.values()]


def test_the_kept_document_is_current() -> None:
    assert KEPT.read_text(encoding="utf-8") == openapi_text(), "run `make openapi`"


async def test_the_service_serves_the_kept_document() -> None:
    transport = httpx.ASGITransport(create_app(Settings()))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        served = (await client.get("/openapi.json")).json()
    assert served == json.loads(KEPT.read_text(encoding="utf-8"))


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")


def test_every_operation_has_a_name_a_summary_and_a_tag(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in _operations(document)]
    assert len(names) == len(set(names))
    for operation in _operations(document):
        assert operation["summary"]
        assert operation["tags"]


def test_every_error_is_declared_as_a_problem_document(document: dict[str, Any]) -> None:
    for operation in _operations(document):
        for status, response in operation["responses"].items():
            if status[0] in "45" and operation["operationId"] != "getReadiness":
                assert list(response["content"]) == ["application/problem+json"]
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    schemas = document["components"]["schemas"]
    references = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert references <= schemas.keys()


def test_every_number_that_arrives_is_bounded(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        if name.endswith("In"):
            for field, shape in schema.get("properties", {}).items():
                for branch in shape.get("anyOf", [shape]):
                    if branch.get("type") in {"integer", "number"}:
                        assert branch.keys() & {"maximum", "exclusiveMaximum"}, (name, field)


async def test_every_example_is_answered(document: dict[str, Any], sqlite_files: Databases) -> None:
    app = create_app(Settings(database_url=SecretStr(sqlite_files.fresh())))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client,
    ):
        for path, methods in document["paths"].items():
            if "requestBody" not in methods.get("post", {}):
                continue
            content = methods["post"]["requestBody"]["content"]["application/json"]
            for example in content["examples"].values():
                # No example can know the id of a row of this database.
                address = re.sub(r"\{\w+\}", "01900000-0000-7000-8000-000000000000", path)
                answer = await client.post(address, json=example["value"])
                told = {int(status) for status in methods["post"]["responses"] if status < "300"}
                success = {404} if "{" in path else told
                assert answer.status_code in success, answer.text
                assert '"problem":{' not in answer.text
