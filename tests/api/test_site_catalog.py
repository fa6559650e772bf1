"""Models and accelerators of a tenant's own: put, used, replaced, deleted, and nobody else's."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.databases import Databases
from tests.factories import a_job, a_request
from tests.reports import a_report
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.api import examples
from vramgate.json_text import MAX_DEPTH
from vramgate.persistence.audit import entries_of
from vramgate.persistence.engine import Database
from vramgate.workflows import change_catalog

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
}
# By hand: embedding and head 2·1000·64, blocks 2·(4·64² + 3·64·128 + 2·64), last norm 64.
LLAMA_PARAMETERS = 210_240
MODEL = {"name": "acme/own", "aliases": ["own-one"], "config": LLAMA}
CARD = {"name": "acme-x1", "vendor": "Acme", "memory_bytes_nominal": 2**34}
JSON = {"Content-Type": "application/json"}


@dataclass
class Admin:
    """An admin of one tenant, as a client of a running service."""

    client: httpx.AsyncClient
    headers: dict[str, str]
    database: Database

    async def get(self, path: str) -> httpx.Response:
        """Ask for something under /v1."""
        return await self.client.get(f"/v1{path}", headers=self.headers)

    async def put(self, path: str, document: object, **conditions: str) -> httpx.Response:
        """Put an entry; ``if_match`` and ``if_none_match`` are sent as headers."""
        return await self.client.put(
            f"/v1{path}", json=document, headers={**self.headers, **_headers(conditions)}
        )

    async def put_raw(self, path: str, body: bytes, **more: str) -> httpx.Response:
        """Put bytes."""
        headers = {**self.headers, **JSON, **more}
        return await self.client.put(f"/v1{path}", content=body, headers=headers)

    async def delete(self, path: str, **conditions: str) -> httpx.Response:
        """Delete an entry."""
        headers = {**self.headers, **_headers(conditions)}
        return await self.client.delete(f"/v1{path}", headers=headers)

    async def estimate(self, **job: Any) -> httpx.Response:  # noqa: ANN401 whatever JSON holds
        """Ask for an estimate of ``a_job`` with these fields."""
        request = a_request(job=a_job(**job))
        return await self.client.post("/v1/estimates", json=request, headers=self.headers)

    async def report(self, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
        """Hand in a report, and return its receipt."""
        body = {"reports": [a_report(**fields)]}
        answer = await self.client.post("/v1/reports", json=body, headers=self.headers)
        item: dict[str, Any] = answer.json()["items"][0]
        return item


def _headers(conditions: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in conditions.items()}


async def _admin(client: httpx.AsyncClient, database: Database, tenant: str) -> Admin:
    token = await a_token(database, Scope.ADMIN, tenant=tenant, name=f"admin of {tenant}")
    return Admin(client, bearer(token), database)


@pytest_asyncio.fixture
async def client(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the service, where every request needs a token."""
    async with served(a_settings(database_url)) as opened:
        yield opened


@pytest_asyncio.fixture
async def own(client: httpx.AsyncClient, database: Database) -> Admin:
    """Return an admin of a tenant."""
    return await _admin(client, database, "team-a")


@pytest_asyncio.fixture
async def other(client: httpx.AsyncClient, database: Database) -> Admin:
    """Return an admin of another tenant."""
    return await _admin(client, database, "team-b")


def _pointers(answer: httpx.Response) -> list[str]:
    return [one["pointer"] for one in answer.json()["errors"]]


# ---- used at once


async def test_a_model_is_made_shown_and_used_at_once(own: Admin) -> None:
    made = await own.put("/models/acme/own", MODEL)
    assert made.status_code == HTTPStatus.CREATED, made.text
    assert made.headers["location"] == "/v1/models/acme/own"
    assert made.json()["parameters"] == LLAMA_PARAMETERS
    shown = await own.get("/models/acme/own")
    assert shown.json() == made.json()
    assert shown.headers["etag"] == made.headers["etag"]
    assert shown.json()["origin"] == "tenant"
    for name in ("acme/own", "ACME/OWN", "own-one"):
        answer = await own.estimate(model={"name": name})
        assert answer.json()["model"]["parameters"] == LLAMA_PARAMETERS
    listed = await own.get("/models?q=acme/own")
    assert [one["name"] for one in listed.json()["items"]] == ["acme/own"]


async def test_a_card_is_made_and_used_at_once(own: Admin) -> None:
    made = await own.put("/accelerators/acme-x1", CARD)
    assert made.status_code == HTTPStatus.CREATED, made.text
    answer = await own.estimate(hardware={"accelerator": "acme-x1"})
    # 97 % of 16 GiB, as nobody stated the usable bytes.
    assert answer.json()["capacity"] == {
        "accelerator": "acme-x1",
        "usable_bytes": 2**34 * 97 // 100,
    }


async def test_a_known_card_states_only_what_differs(own: Admin) -> None:
    made = await own.put("/accelerators/a40", {"name": "a40", "usable_bytes": 40 * 2**30})
    assert made.status_code == HTTPStatus.CREATED, made.text
    assert made.json()["compute_capability"] == "8.6"
    assert made.json()["clashes"] == ["the tenant's a40 replaces the entry of that name"]
    shown = await own.get("/accelerators/NVIDIA A40")
    assert shown.json()["usable_bytes"] == 40 * 2**30


async def test_a_name_that_is_taken_over_is_reported(own: Admin) -> None:
    made = await own.put("/models/acme/m", {"name": "acme/m", "aliases": ["gpt2"], "parameters": 5})
    assert made.json()["clashes"] == [
        "gpt2 now means the tenant's acme/m, no longer openai-community/gpt2"
    ]
    assert (await own.get("/models/gpt2")).json()["name"] == "acme/m"


async def test_a_batch_uses_the_tenant_s_catalogs(own: Admin, other: Admin) -> None:
    await own.put("/models/acme/own", MODEL)
    body = {"items": [{"job": a_job(model={"name": "acme/own"})}]}
    for admin, expected in ((own, "estimate"), (other, "problem")):
        answer = await admin.client.post("/v1/estimates/batch", json=body, headers=admin.headers)
        assert list(answer.json()["items"][0]) == [expected]


# ---- conditions


async def test_what_is_there_is_replaced_only_by_who_knows_it(own: Admin) -> None:
    made = await own.put("/models/acme/own", MODEL, if_none_match="*")
    tag = made.headers["etag"]
    changed = {**MODEL, "note": "larger"}
    for conditions, status, code in [
        ({}, 428, "precondition_required"),
        ({"if_match": '"another"'}, 412, "precondition_failed"),
        ({"if_match": f"W/{tag}"}, 412, "precondition_failed"),
        ({"if_match": tag.strip('"')}, 412, "precondition_failed"),
        ({"if_match": '"*"'}, 412, "precondition_failed"),
        ({"if_match": ""}, 412, "precondition_failed"),
        ({"if_none_match": "*"}, 412, "precondition_failed"),
        ({"if_none_match": "*", "if_match": tag}, 412, "precondition_failed"),
    ]:
        refused = await own.put("/models/acme/own", changed, **conditions)
        assert (refused.status_code, refused.json()["code"]) == (status, code), conditions
    replaced = await own.put("/models/acme/own", changed, if_match=f'"other", {tag}')
    assert replaced.status_code == HTTPStatus.OK, replaced.text
    assert "location" not in replaced.headers
    assert replaced.headers["etag"] != tag
    late = await own.put("/models/acme/own", MODEL, if_match=tag)
    assert late.status_code == HTTPStatus.PRECONDITION_FAILED
    assert (await own.put("/models/acme/own", MODEL, if_match="*")).status_code == HTTPStatus.OK


async def test_nothing_is_made_where_something_was_meant_to_be_replaced(own: Admin) -> None:
    for tag in ("*", '"any"', (await own.get("/models/gpt2")).headers["etag"]):
        answer = await own.put("/models/gpt2", {"name": "gpt2", "parameters": 5}, if_match=tag)
        assert (answer.status_code, answer.json()["code"]) == (412, "precondition_failed")


async def test_an_etag_is_the_same_however_the_document_is_written(own: Admin) -> None:
    made = await own.put("/models/acme/own", MODEL)
    reordered = json.dumps(dict(reversed(MODEL.items())), indent=3).encode()
    again = await own.put_raw("/models/acme/own", reordered, **{"If-Match": made.headers["etag"]})
    assert (again.status_code, again.headers["etag"]) == (200, made.headers["etag"])


async def test_what_is_deleted_uncovers_what_it_stood_above(own: Admin) -> None:
    await own.put("/accelerators/a40", {"name": "a40", "usable_bytes": 40 * 2**30})
    tag = (await own.get("/accelerators/a40")).headers["etag"]
    assert (await own.delete("/accelerators/a40")).status_code == 428
    assert (await own.delete("/accelerators/a40", if_match='"x"')).status_code == 412
    gone = await own.delete("/accelerators/a40", if_match=tag)
    assert (gone.status_code, gone.content) == (204, b"")
    shown = (await own.get("/accelerators/a40")).json()
    assert (shown["origin"], shown["clashes"]) == ("built-in", [])
    again = await own.delete("/accelerators/a40", if_match=tag)
    assert (again.status_code, again.json()["code"]) == (404, "not_found")


async def test_of_two_who_replace_the_same_state_one_is_refused(own: Admin) -> None:
    tag = (await own.put("/models/acme/own", MODEL)).headers["etag"]
    answers = await asyncio.gather(
        *(own.put("/models/acme/own", {**MODEL, "note": str(n)}, if_match=tag) for n in range(4))
    )
    assert sorted(one.status_code for one in answers) == [200, 412, 412, 412]


async def test_of_several_who_make_the_same_one_does(own: Admin) -> None:
    answers = await asyncio.gather(
        *(own.put("/models/acme/own", MODEL, if_none_match="*") for _ in range(4))
    )
    assert sorted(one.status_code for one in answers) == [201, 412, 412, 412]


# ---- tenants


async def test_another_tenant_s_answers_are_as_they_were(own: Admin, other: Admin) -> None:
    before = (await other.estimate()).json()
    shown = await other.get("/accelerators/a100-sxm4-80gb")
    name = "meta-llama/Llama-3.1-8B"
    await own.put(f"/models/{name}", {"name": name, "config": LLAMA})
    await own.put("/accelerators/a100-sxm4-80gb", {"name": "a100-sxm4-80gb", "usable_bytes": 2**30})
    assert (await own.estimate()).json()["model"]["parameters"] == LLAMA_PARAMETERS
    assert (await own.estimate()).json()["capacity"]["usable_bytes"] == 2**30
    assert (await other.estimate()).json() == before
    after = await other.get("/accelerators/a100-sxm4-80gb")
    assert (after.text, after.headers["etag"]) == (shown.text, shown.headers["etag"])
    assert (await other.get("/models/acme/own")).status_code == HTTPStatus.NOT_FOUND


async def test_reports_are_held_against_the_tenant_s_own_catalogs(own: Admin, other: Admin) -> None:
    job = a_job(model={"name": "acme/own"})
    measured = {"max_allocated_bytes": 300_000_000}
    unknown = await own.report(job=job, measured=measured)
    assert [one["code"] for one in unknown["reasons"]] == ["unknown_name"]
    tag = (await own.put("/models/acme/own", MODEL)).headers["etag"]
    known = await own.report(job=job, measured=measured)
    first = known["residuals"]["allocated"]["estimated_bytes"]
    await own.put("/models/acme/own", {"name": "acme/own", "parameters": 10**9}, if_match=tag)
    changed = await own.report(job=job, measured=measured)
    assert changed["residuals"]["allocated"]["estimated_bytes"] > 2 * first
    assert (await other.report(job=job, measured=measured))["residuals"] == {}


async def test_each_tenant_has_an_entry_of_the_same_name(own: Admin, other: Admin) -> None:
    tags = [(await one.put("/models/acme/own", MODEL)).headers["etag"] for one in (own, other)]
    assert tags[0] == tags[1]
    changed = await own.put("/models/acme/own", {**MODEL, "note": "ours"}, if_match=tags[0])
    assert changed.status_code == HTTPStatus.OK
    assert (await other.get("/models/acme/own")).headers["etag"] == tags[1]
    assert (await own.delete("/models/acme/own", if_match="*")).status_code == 204
    assert (await other.get("/models/acme/own")).status_code == HTTPStatus.OK


async def test_the_site_s_file_stands_between_the_built_in_and_the_tenant_s_own(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "site.json"
    card = {**CARD, "aliases": ["x1"], "architecture": "One"}
    model = {"name": "acme/site", "aliases": ["gpt2"], "parameters": 7}
    file.write_text(json.dumps({"accelerators": [card], "models": [model]}))
    async with served(a_settings(database_url, site_catalog=file)) as client:
        own = await _admin(client, database, "team-a")
        other = await _admin(client, database, "team-b")
        # Names its card alone, as the site's file knows the rest.
        made = await own.put("/accelerators/acme-x1", {"name": "acme-x1", "usable_bytes": 2**33})
        assert made.status_code == HTTPStatus.CREATED, made.text
        assert (made.json()["architecture"], made.json()["usable_bytes"]) == ("One", 2**33)
        assert (await own.get("/accelerators/x1")).json()["usable_bytes"] == 2**33
        assert (await own.get("/models/gpt2")).json()["origin"] == str(file)
        await own.put("/models/acme/site", {"name": "acme/site", "parameters": 8})
        assert (await own.get("/models/gpt2")).json()["parameters"] == 8
        assert (await other.get("/models/gpt2")).json()["parameters"] == 7
        assert (await other.get("/accelerators/x1")).json()["origin"] == str(file)


# ---- what is refused


@pytest.mark.parametrize(
    ("path", "document", "pointers"),
    [
        ("/models/a", [], [""]),
        ("/models/a", {}, ["/name"]),
        ("/models/a", {"name": "a"}, [""]),
        ("/models/a", {"name": "a", "parameters": 0}, ["/parameters"]),
        ("/models/a", {"name": "a", "parameters": True}, ["/parameters"]),
        ("/models/a", {"name": "a", "parameters": 1.0}, ["/parameters"]),
        ("/models/a", {"name": "a", "parameters": 10**30}, ["/parameters"]),
        ("/models/a", {"name": "a", "parameters": 5, "config": LLAMA}, [""]),
        ("/models/a", {"name": "a", "parameters": 5, "size/x": 1}, ["/size~1x"]),
        ("/models/a", {"name": "a", "parameters": 5, "aliases": ["b", 7]}, ["/aliases/1"]),
        ("/models/a", {"name": "b", "parameters": 5}, ["/name"]),
        ("/models/a", {"name": 5, "parameters": 5}, ["/name"]),
        ("/models/a", {"name": "a", "config": None}, ["/config"]),
        ("/models/a", {"name": "a", "config": {}}, ["/config"]),
        ("/models/a", {"name": "a", "config": {**LLAMA, "hidden_size": -1}}, ["/config"]),
        ("/models/a", {"name": "a", "config": {**LLAMA, "vocab_size": 10**40}}, ["/config"]),
        ("/models/a", {"name": "a", "config": {"model_type": ["llama"]}}, ["/config"]),
        ("/accelerators/x", {"name": "x"}, ["/vendor", "/memory_bytes_nominal"]),
        ("/accelerators/X Y", {"name": "X Y", "vendor": "a"}, ["/name"]),
        ("/accelerators/acme-x1", {**CARD, "usable_bytes": 2**35}, ["/usable_bytes"]),
        ("/accelerators/acme-x1", {**CARD, "compute_capability": "٣.0"}, ["/compute_capability"]),
        ("/accelerators/acme-x1", {**CARD, "mig_profiles": [{}]}, None),
        (
            "/accelerators/a100-sxm4-80gb-mig-1g.10gb",
            {"name": "a100-sxm4-80gb-mig-1g.10gb", "usable_bytes": 2**30},
            ["/name"],
        ),
    ],
)
async def test_what_is_wrong_is_named_by_its_pointer(
    own: Admin, path: str, document: object, pointers: list[str] | None
) -> None:
    answer = await own.put(path, document)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed"), answer.text
    if pointers is not None:
        assert _pointers(answer) == pointers


async def test_an_alias_that_another_entry_of_the_tenant_claims_is_refused(own: Admin) -> None:
    await own.put("/models/acme/own", MODEL)
    second = {"name": "acme/two", "aliases": ["fine", "Own-One"], "parameters": 5}
    answer = await own.put("/models/acme/two", second)
    assert answer.status_code == 422
    assert _pointers(answer) == ["/aliases/1"]
    assert "acme/own" in answer.json()["detail"]
    # Cards are another kind.
    card = {**CARD, "aliases": ["own-one"]}
    assert (await own.put("/accelerators/acme-x1", card)).status_code == HTTPStatus.CREATED


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 422),
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b'{"name":"a","name":"a"}', {}, 400),
        (b'{"name":"a\\u0000","parameters":5}', {}, 400),
        (b'{"name":"a","parameters":NaN}', {}, 400),
        (b'{"config":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH, {}, 422),
        (b"[" * 10_000, {}, 400),
        (b'{"name":"a","note":"' + b"x" * 5_000_000 + b'"}', {}, 413),
        (b'{"name":"a","config":{"x":"' + b"x" * 1_000_000 + b'"}}', {}, 422),
        (b'{"name":"a","config":{"x":[' + b"1," * 300_000 + b"1]}}", {}, 422),
        (b"a: b", {"Content-Type": "application/yaml"}, 415),
    ],
)
async def test_a_body_that_is_no_entry_is_a_problem(
    own: Admin, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await own.put_raw("/models/a", body, **headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["a%00b", "%01", "%20", "x" * 300, "%0a"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("folder", ["models", "accelerators"])
async def test_a_name_that_none_can_have_is_a_problem(
    own: Admin, method: str, folder: str, name: str
) -> None:
    address = httpx.URL(f"http://vramgate.example/v1/{folder}/{name}")
    entry = {"name": address.path.removeprefix(f"/v1/{folder}/"), "parameters": 5}
    answer = await own.client.request(
        method,
        address,
        headers={**own.headers, **({"If-Match": "*"} if method == "DELETE" else {})},
        json=entry if method == "PUT" else None,
    )
    assert answer.status_code in ({400, 422} if method == "PUT" else {404, 422}), answer.text


@pytest.mark.parametrize("name", ["a/b/c", "a%b", "é ü", "a?b#c", "a+b", "%2F", "q:0", "ß", "İ"])
async def test_a_name_of_any_letters_leads_back_to_its_entry(own: Admin, name: str) -> None:
    document = {"name": name, "parameters": 5_000_000_000}
    escaped = "".join(f"%{byte:02X}" for byte in name.encode())
    made = await own.put(f"/models/{escaped}", document)
    assert made.status_code == HTTPStatus.CREATED, made.text
    address = made.headers["location"]
    shown = await own.client.get(address, headers=own.headers)
    assert (shown.json()["name"], shown.json()["origin"]) == (name, "tenant")
    gone = await own.client.delete(
        address, headers={**own.headers, "If-Match": shown.headers["etag"]}
    )
    assert gone.status_code == HTTPStatus.NO_CONTENT


async def test_a_tenant_has_only_so_many(
    own: Admin, other: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_catalog, "MOST_ENTRIES", 2)
    for number in range(2):
        name = f"acme/m{number}"
        made = await own.put(f"/models/{name}", {"name": name, "parameters": 5})
        assert made.status_code == HTTPStatus.CREATED
    full = await own.put("/accelerators/acme-x1", CARD)
    assert (full.status_code, full.json()["code"]) == (409, "catalog_full")
    changed = await own.put("/models/acme/m1", {"name": "acme/m1", "parameters": 6}, if_match="*")
    assert changed.status_code == HTTPStatus.OK
    assert (await other.put("/accelerators/acme-x1", CARD)).status_code == HTTPStatus.CREATED
    monkeypatch.setattr(change_catalog, "MOST_ENTRIES", 2000)
    monkeypatch.setattr(change_catalog, "MOST_CHARACTERS", 100)
    assert (await own.put("/accelerators/acme-x1", CARD)).json()["code"] == "catalog_full"


async def test_the_examples_of_the_document_are_taken(own: Admin) -> None:
    for folder, given in (("models", examples.MODEL), ("accelerators", examples.ACCELERATOR)):
        for example in given.values():
            document: dict[str, Any] = example["value"] or {}
            answer = await own.put(f"/{folder}/{document['name']}", document)
            assert answer.status_code == HTTPStatus.CREATED, answer.text


# ---- kept, and told of


async def test_acts_are_in_the_audit_trail_with_what_they_were_about(own: Admin) -> None:
    tag = (await own.put("/models/acme/own", MODEL)).headers["etag"]
    await own.put("/models/acme/own", {**MODEL, "note": "x"}, if_match=tag)
    await own.put("/models/acme/own", MODEL)
    await own.delete("/models/acme/own", if_match="*")
    async with own.database.reading() as connection:
        found = await entries_of(connection, tenant="team-a", before=None, limit=10)
    acts = [one for one in reversed(found) if one.action.startswith("catalog.")]
    assert [one.action for one in acts] == ["catalog.put", "catalog.put", "catalog.delete"]
    assert {(one.subject, one.actor) for one in acts} == {("model acme/own", "admin of team-a")}
    digests = [one.detail["digest"] for one in acts]
    assert tag.strip('"').startswith(digests[0][:32])
    assert (acts[1].detail["replaced"], digests[2]) == (digests[0], digests[1])


async def test_entries_are_there_after_a_restart(database_url: str, database: Database) -> None:
    settings = a_settings(database_url)
    async with served(settings) as client:
        own = await _admin(client, database, "team-a")
        tag = (await own.put("/models/acme/own", MODEL)).headers["etag"]
    async with served(settings) as client:
        shown = await Admin(client, own.headers, database).get("/models/acme/own")
    assert (shown.status_code, shown.headers["etag"]) == (200, tag)


async def test_a_change_reaches_the_other_replica_within_five_seconds(postgres: Databases) -> None:
    settings = a_settings(postgres.fresh())
    database = Database(settings.database_url.get_secret_value())
    async with served(settings) as first, served(settings) as second:
        own = await _admin(first, database, "team-a")
        elsewhere = Admin(second, own.headers, database)
        assert (await elsewhere.estimate(model={"name": "acme/own"})).status_code == 422
        for document, conditions in ((MODEL, {}), ({**MODEL, "note": "x"}, {"if_match": "*"})):
            put = await own.put("/models/acme/own", document, **conditions)
            changed = time.monotonic()
            while (await elsewhere.get("/models/acme/own")).headers.get("etag") != put.headers[
                "etag"
            ]:
                assert time.monotonic() - changed < 5
                await asyncio.sleep(0.05)
        answer = await elsewhere.estimate(model={"name": "acme/own"})
        assert answer.json()["model"]["parameters"] == LLAMA_PARAMETERS
    await database.close()
