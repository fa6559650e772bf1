from typing import Any

import httpx
import pytest

LISTS = ["/v1/models", "/v1/accelerators"]


async def _all_names(client: httpx.AsyncClient, path: str, **query: str | int) -> list[str]:
    names: list[str] = []
    cursor: str | None = None
    while True:
        given = {**query, "cursor": cursor} if cursor else query
        page = (await client.get(path, params=given)).json()
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return names


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", [7, 200])
async def test_pages_together_hold_every_entry_once(
    client: httpx.AsyncClient, path: str, limit: int
) -> None:
    names = await _all_names(client, path, limit=limit)
    assert len(names) == len(set(names)) > 50
    assert await _all_names(client, path) == names


async def test_a_search_narrows_the_list(client: httpx.AsyncClient) -> None:
    names = await _all_names(client, "/v1/models", q="llama-3.1-8b", limit=1)
    assert names[0] == "meta-llama/Llama-3.1-8B"
    assert len(names) < 20


async def test_the_link_header_leads_to_the_next_page(client: httpx.AsyncClient) -> None:
    first = await client.get("/v1/models", params={"limit": 2, "q": "qwen"})
    address = first.headers["link"].partition(">")[0].removeprefix("<")
    second = await client.get(address)
    assert second.status_code == 200
    assert not {m["name"] for m in first.json()["items"]} & {
        m["name"] for m in second.json()["items"]
    }


@pytest.mark.parametrize("cursor", ["x", "WyJ4Il0", "bnVsbA", "é", "A" * 100, "Wzdd"])
async def test_a_made_up_cursor_is_refused(client: httpx.AsyncClient, cursor: str) -> None:
    answer = await client.get("/v1/models", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


async def test_a_cursor_of_another_search_is_refused(client: httpx.AsyncClient) -> None:
    cursor = (await client.get("/v1/models", params={"limit": 1, "q": "qwen"})).json()
    answer = await client.get("/v1/models", params={"cursor": cursor["next_cursor"]})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"Q": 1}, "Q"),
    ],
)
async def test_a_parameter_that_is_wrong_or_unknown_is_named(
    client: httpx.AsyncClient, query: dict[str, Any], parameter: str
) -> None:
    answer = await client.get("/v1/accelerators", params=query)
    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/models/meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("/v1/models/meta-llama%2FLlama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("/v1/models/META-LLAMA/llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("/v1/models/TheBloke/Llama-2-7B-GPTQ", "meta-llama/Llama-2-7b-hf"),
        ("/v1/accelerators/a100-sxm4-80gb", "a100-sxm4-80gb"),
        ("/v1/accelerators/NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
    ],
)
async def test_a_name_in_the_wild_leads_to_its_entry(
    client: httpx.AsyncClient, path: str, name: str
) -> None:
    assert (await client.get(path)).json()["name"] == name


async def test_the_answer_says_what_was_read_into_a_name(client: httpx.AsyncClient) -> None:
    match = (await client.get("/v1/models/TheBloke/Llama-2-7B-GPTQ")).json()["match"]
    assert (match["how"], match["quantization"]) == ("quantized", "gptq-int4")
    assert match["note"]


async def test_an_unknown_name_is_not_found_with_suggestions(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/models/meta-llama/Lama-3.1-8B-x")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_name")
    assert "meta-llama/Llama-3.1-8B" in answer.json()["suggestions"]


@pytest.mark.parametrize("path", [*LISTS, "/v1/models/gpt2", "/v1/accelerators/a100-sxm4-80gb"])
async def test_what_a_client_holds_already_is_not_sent_again(
    client: httpx.AsyncClient, path: str
) -> None:
    tag = (await client.get(path)).headers["etag"]
    for condition in (tag, f'"other", W/{tag}', "*"):
        answer = await client.get(path, headers={"If-None-Match": condition})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag
    assert (await client.get(path, headers={"If-None-Match": '"other"'})).status_code == 200
