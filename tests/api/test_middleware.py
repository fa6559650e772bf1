import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope, Send

from tests.factories import BASE_URL
from vramgate.api.middleware import BodyLimit, RequestContext


async def test_a_request_id_is_echoed(client: httpx.AsyncClient) -> None:
    answer = await client.get("/livez", headers={"X-Request-Id": "slurm-4711"})
    assert answer.headers["x-request-id"] == "slurm-4711"


@pytest.mark.parametrize("given", ["two words", "a" * 129, "line\tbreak", ""])
async def test_a_request_id_that_is_not_safe_to_log_is_replaced(
    client: httpx.AsyncClient, given: str
) -> None:
    answer = await client.get("/livez", headers={"X-Request-Id": given})
    assert len(answer.headers["x-request-id"]) == 32


async def test_head_is_answered_as_get_without_a_body(client: httpx.AsyncClient) -> None:
    answer = await client.head("/livez")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == "18"


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:8000", "LOCALHOST:1"])
async def test_a_loopback_host_is_answered(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/livez", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "10.0.0.1:8000"},
        {"Host": ""},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"Via": "1.1 proxy"},
    ],
)
async def test_what_may_come_from_elsewhere_is_refused(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await client.get("/livez", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "loopback_only")


async def test_a_caller_from_another_machine_is_refused(app: FastAPI) -> None:
    transport = httpx.ASGITransport(app, client=("192.0.2.1", 40000))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as stranger:
        assert (await stranger.get("/livez")).status_code == 403


async def test_a_body_with_its_length_over_the_limit_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/livez", content=b" " * (4 * 2**20 + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_a_body_in_chunks_over_the_limit_is_refused(client: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 2**20

    answer = await client.post("/livez", content=chunks())
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


async def test_a_body_of_exactly_the_limit_reaches_the_route_once() -> None:
    async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
        first, second = await receive(), await receive()
        assert second["type"] == "http.disconnect"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": first["body"]})

    arriving: list[Message] = [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"cd", "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return arriving.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    limited = BodyLimit(echo, max_bytes=4)
    await limited({"type": "http", "headers": [], "path": "/"}, receive, send)
    assert sent[-1]["body"] == b"abcd"


async def test_a_fault_of_the_service_is_a_problem_document_without_its_reason() -> None:
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise RuntimeError("password=hunter2")

    transport = httpx.ASGITransport(RequestContext(broken))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        answer = await client.get("/livez", headers={"X-Request-Id": "r1"})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(answer.text)["request_id"] == "r1"
    assert "hunter2" not in answer.text
