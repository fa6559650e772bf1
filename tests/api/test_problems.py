import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from vramgate.api.problem_kinds import KINDS
from vramgate.errors import DomainError
from vramgate.wire.problems import Problem


def _failures(base: type[DomainError]) -> Iterator[type[DomainError]]:
    yield base
    for derived in base.__subclasses__():
        yield from _failures(derived)


def test_every_failure_of_the_domain_is_a_known_kind_of_problem(app: FastAPI) -> None:
    del app  # Putting the service together imports all of it.
    in_package = [kind for kind in _failures(DomainError) if kind.__module__[:9] == "vramgate."]
    elsewhere = (
        "vramgate.cli",
        "vramgate.accuracy",
        "vramgate.calibration.calibrate",
    )  # never behind HTTP
    # Told by commands, by a service that does not start, and by its log.
    at_start = {
        "invalid_database_url", "invalid_journal_folder", "invalid_secret_keys", "migration_failed",
        "unknown_revision",
    }  # fmt: skip
    in_the_log = {"journal_full", "journal_unavailable", "newer_decision", "unreadable_decision"}
    codes = {kind.code for kind in in_package if not kind.__module__.startswith(elsewhere)}
    assert codes - KINDS.keys() == at_start | in_the_log


def _operations(app: FastAPI) -> list[tuple[str, str]]:
    document = app.openapi()
    return [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]


def _paths_that_want_a_body(app: FastAPI) -> list[str]:
    paths = app.openapi()["paths"]
    return [
        path
        for path, methods in paths.items()
        if methods.get("post", {}).get("requestBody", {}).get("required")
    ]


async def _assert_problem(answer: httpx.Response) -> Problem:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = Problem.model_validate_json(answer.content)
    assert document.status == answer.status_code
    assert document.type == f"/problems/{document.code}"
    assert document.request_id == answer.headers["x-request-id"]
    assert document.detail
    return document


async def test_every_path_refuses_other_methods_with_a_problem_document(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    for _, path in _operations(app):
        answer = await client.request("PATCH", re.sub(r"\{\w+\}", "a", path))
        assert answer.status_code == 405
        assert answer.headers["allow"]
        await _assert_problem(answer)


async def test_every_path_that_takes_a_body_refuses_rubbish_with_a_problem_document(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    json_type = {"content-type": "application/json"}
    rubbish: list[tuple[bytes, dict[str, str], int]] = [
        (b"", json_type, 422),
        (b"{", json_type, 400),
        (b"\xff", json_type, 400),
        (b'{"a": NaN}', json_type, 400),
        (b'{"a": 1, "a": 1}', json_type, 400),
        (b"[" * 1000, json_type, 400),
        (b'"\\ud800"', json_type, 400),
        (b"null", json_type, 422),
        (b"[]", json_type, 422),
        (b'{"nobody_knows": 1}', json_type, 422),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {"content-type": "application/json; charset=latin-1"}, 415),
        (b"{}", {}, 415),
        (b"{}", {**json_type, "content-encoding": "br"}, 415),
        (b"{}", {**json_type, "content-encoding": "gzip"}, 400),
    ]
    posted = _paths_that_want_a_body(app)
    paths = [re.sub(r"\{\w+\}", "01900000-0000-7000-8000-000000000000", path) for path in posted]
    assert paths
    for path in paths:
        for content, headers, status in rubbish:
            answer = await client.post(path, content=content, headers=headers)
            assert answer.status_code == status, (path, content, answer.text)
            await _assert_problem(answer)


async def test_an_address_that_does_not_exist_is_a_problem_document(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/v1/nothing/ä b")
    assert answer.status_code == 404
    assert (await _assert_problem(answer)).instance == "/v1/nothing/%C3%A4%20b"


@pytest.mark.parametrize("code", sorted(KINDS))
async def test_the_type_of_every_problem_leads_to_its_page(
    client: httpx.AsyncClient, code: str
) -> None:
    page = (await client.get(f"/problems/{code}")).json()
    assert page["status"] == KINDS[code].status
    assert page["description"]


async def test_the_pages_of_problems_are_listed(client: httpx.AsyncClient) -> None:
    listed = (await client.get("/problems")).json()
    assert [page["type"].rpartition("/")[2] for page in listed["items"]] == list(KINDS)
    assert listed["next_cursor"] is None
