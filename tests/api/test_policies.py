"""Policies over HTTP: drafted, linted, shown, activated under conditions, rolled back."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.databases import Databases
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.api import examples
from vramgate.persistence.audit import entries_of
from vramgate.persistence.engine import Database
from vramgate.wire.lists import cursor_of
from vramgate.workflows import change_policy

ENFORCE: dict[str, Any] = {"mode": "enforce", "risk": 0.02}
LATE: dict[str, Any] = {
    "rules": [{"name": "all", "mode": "enforce"}, {"name": "prod", "queue": "prod", "mode": "off"}]
}


@dataclass
class Admin:
    """An admin of one tenant, as a client of a running service."""

    client: httpx.AsyncClient
    headers: dict[str, str]

    async def get(self, path: str = "", **headers: str) -> httpx.Response:
        """Ask for something under /v1/policies."""
        return await self.client.get(
            f"/v1/policies{path}", headers={**self.headers, **_headers(headers)}
        )

    async def post(self, path: str, body: object = None, **headers: str) -> httpx.Response:
        """Post something under /v1/policies."""
        return await self.client.post(
            f"/v1/policies{path}",
            json=body,
            headers={**self.headers, **_headers(headers)},
        )

    async def draft(self, policy: object = None, note: str = "why") -> httpx.Response:
        """Keep a draft."""
        return await self.post("", {"policy": ENFORCE if policy is None else policy, "note": note})

    async def activate(self, version: str, tag: str | None = None) -> httpx.Response:
        """Activate a version, by default in the state that it is shown in now."""
        tag = (await self.get(f"/{version}")).headers["etag"] if tag is None else tag
        return await self.post(f"/{version}/activate", if_match=tag)


def _headers(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


async def _admin(client: httpx.AsyncClient, database: Database, tenant: str) -> Admin:
    token = await a_token(database, Scope.ADMIN, tenant=tenant, name=f"admin of {tenant}")
    return Admin(client, bearer(token))


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


# ---- drafts


async def test_a_draft_is_made_and_shown_as_normalised(own: Admin) -> None:
    made = await own.draft()
    assert made.status_code == HTTPStatus.CREATED, made.text
    version = made.json()["version"]
    assert made.headers["location"] == f"/v1/policies/{version}"
    shown = await own.get(f"/{version}")
    assert (shown.json(), shown.headers["etag"]) == (made.json(), made.headers["etag"])
    assert {name: value for name, value in shown.json().items() if name != "created_at"} == {
        "version": version,
        "status": "draft",
        "note": "why",
        "policy": {
            "mode": "enforce",
            "caller_may_choose": [],
            "risk": 0.02,
            "deny_probability": 0.5,
            "unknown_models": "warn",
            "capacity": {"queues": {}, "node_labels": {}},
            "rules": [],
            "exemptions": [],
            "break_glass": {"submitters": []},
            "report_token_seconds": 604_800,
        },
        "created_by": "admin of team-a",
        "activated_at": None,
        "activated_by": None,
        "retired_at": None,
        "active_version": "default",
        "warnings": [],
    }


async def test_the_same_document_is_answered_as_the_version_it_is(own: Admin) -> None:
    made = await own.draft()
    # As normalised, and in another order.
    again = await own.draft(dict(reversed(made.json()["policy"].items())), note="other")
    assert (again.status_code, again.json()) == (HTTPStatus.OK, made.json())
    assert again.headers["etag"] == made.headers["etag"]
    assert "location" not in again.headers
    await own.activate(made.json()["version"])
    active = await own.draft()
    assert (active.status_code, active.json()["status"]) == (HTTPStatus.OK, "active")


async def test_a_draft_comes_with_what_was_probably_not_meant(own: Admin) -> None:
    made = await own.draft(LATE)
    assert made.status_code == HTTPStatus.CREATED
    (warning,) = made.json()["warnings"]
    assert (warning["code"], warning["pointer"]) == ("unreachable_rule", "/rules/1")
    linted = await own.post("/lint", {"policy": LATE})
    assert linted.json() == {"valid": True, "warnings": [warning]}


async def test_the_examples_of_the_document_are_taken(own: Admin) -> None:
    for example in examples.POLICY.values():
        made = await own.post("", example["value"])
        assert made.status_code == HTTPStatus.CREATED, made.text
    for example in examples.LINT.values():
        linted = await own.post("/lint", example["value"])
        assert len(linted.json()["warnings"]) == 1


@pytest.mark.parametrize("path", ["", "/lint"])
@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/policy"]),
        ({"policy": None}, ["/policy"]),
        ({"policy": {"mode": "dictate"}}, ["/policy/mode"]),
        ({"policy": {"risk": 0.5, "deny_probability": 0.4}}, ["/policy/risk"]),
        (
            {"policy": {"capacity": {"queues": {"a/b": "a100-sxm4-88gb"}}}},
            ["/policy/capacity/queues/a~1b"],
        ),
        ({"policy": {}, "force": True}, ["/force"]),
    ],
)
async def test_what_is_wrong_is_named_by_its_pointer(
    own: Admin, path: str, body: object, pointers: list[str]
) -> None:
    answer = await own.post(path, body)
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed"), answer.text
    assert _pointers(answer) == pointers
    assert (await own.get()).json()["items"] == []


async def test_an_unknown_card_is_answered_with_those_it_may_mean(own: Admin) -> None:
    body = {"capacity": {"queues": {"a100": "a100-sxm4-88gb"}}}
    answer = await own.draft(body)
    assert "a100-sxm4-80gb" in answer.json()["errors"][0]["detail"]
    card = {"name": "a100-sxm4-88gb", "vendor": "Acme", "memory_bytes_nominal": 2**36}
    address = "/v1/accelerators/a100-sxm4-88gb"
    put = await own.client.put(address, json=card, headers=own.headers)
    assert put.status_code == HTTPStatus.CREATED
    made = await own.draft(body)
    assert made.status_code == HTTPStatus.CREATED
    # A card that leaves the catalog is told of where the policy is shown.
    await own.client.delete(address, headers={**own.headers, "If-Match": "*"})
    shown = await own.get(f"/{made.json()['version']}")
    assert [one["code"] for one in shown.json()["warnings"]] == ["unknown_accelerator"]


@pytest.mark.parametrize("note", ["n" * 501, "a\u202eb", 7, None])
async def test_a_note_is_a_short_plain_text(own: Admin, note: object) -> None:
    answer = await own.post("", {"policy": ENFORCE, "note": note})
    assert (answer.status_code, _pointers(answer)) == (422, ["/note"])


# ---- lists


async def test_versions_are_listed_newest_first_page_by_page(own: Admin, other: Admin) -> None:
    await other.draft()
    risks = [0.01 * number for number in range(1, 6)]
    made = [(await own.draft({"risk": risk})).json()["version"] for risk in risks]
    await own.activate(made[0])
    first = await own.get("?limit=2")
    items = first.json()["items"]
    assert [one["version"] for one in items] == [made[4], made[3]]
    assert items[0]["active_version"] == made[0]
    assert {"policy", "warnings"}.isdisjoint(items[0])
    assert "next" in first.headers["link"]
    seen, answer = [one["version"] for one in items], first
    while answer.json()["next_cursor"]:
        answer = await own.get(f"?limit=2&cursor={answer.json()['next_cursor']}")
        seen += [one["version"] for one in answer.json()["items"]]
    assert seen == list(reversed(made))
    held = await own.get("?limit=2", if_none_match=first.headers["etag"])
    assert held.status_code == HTTPStatus.NOT_MODIFIED


async def test_a_cursor_of_another_list_is_refused(own: Admin, other: Admin) -> None:
    for risk in (0.1, 0.2):
        await own.draft({"risk": risk})
    cursor = (await own.get("?limit=1")).json()["next_cursor"]
    forged = cursor_of("2026-11-29T12:00:00+00:00 \0", "policies team-a")
    for admin, given in ((other, cursor), (own, "rubbish"), (own, f"{cursor}A"), (own, forged)):
        answer = await admin.get(f"?cursor={given}")
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")
    for query in ("limit=0", "limit=201", "limit=x", "page=2"):
        assert (await own.get(f"?{query}")).status_code == 422


# ---- activation


async def test_the_built_in_policy_holds_until_one_is_activated(own: Admin) -> None:
    shown = await own.get("/active")
    assert (shown.json()["version"], shown.json()["status"]) == ("default", "active")
    assert (shown.json()["policy"]["mode"], shown.json()["policy"]["risk"]) == ("warn", 0.01)
    assert (shown.json()["created_at"], shown.json()["created_by"]) == (None, None)
    same = await own.get("/default")
    assert (same.json(), same.headers["etag"]) == (shown.json(), shown.headers["etag"])
    held = await own.get("/active", if_none_match=shown.headers["etag"])
    assert (held.status_code, held.content) == (HTTPStatus.NOT_MODIFIED, b"")
    version = (await own.draft()).json()["version"]
    active = await own.activate(version, shown.headers["etag"])
    assert active.status_code == HTTPStatus.OK, active.text
    now = await own.get("/active", if_none_match=shown.headers["etag"])
    assert (now.json(), now.headers["etag"]) == (active.json(), active.headers["etag"])
    assert (now.json()["version"], now.json()["activated_by"]) == (version, "admin of team-a")


async def test_activating_needs_the_state_that_was_seen(own: Admin) -> None:
    one, two = [(await own.draft({"risk": risk})).json()["version"] for risk in (0.1, 0.2)]
    seen = (await own.get(f"/{one}")).headers["etag"]
    seen_active = (await own.get("/active")).headers["etag"]
    unsaid = await own.post(f"/{one}/activate")
    assert (unsaid.status_code, unsaid.json()["code"]) == (428, "precondition_required")
    assert (await own.activate(two)).status_code == HTTPStatus.OK
    for tag in (seen, seen_active, '"other"', f"W/{seen}", seen.strip('"'), ""):
        late = await own.activate(one, tag)
        assert (late.status_code, late.json()["code"]) == (412, "precondition_failed"), tag
    assert (await own.get("/active")).json()["version"] == two
    now = (await own.get("/active")).headers["etag"]
    assert (await own.activate(one, f'"other", {now}')).status_code == HTTPStatus.OK


async def test_a_weaker_warning_does_not_undo_what_was_seen(own: Admin) -> None:
    """A card that leaves the catalog changes what is shown, not the version or what is active."""
    card = {"name": "acme-x1", "vendor": "Acme", "memory_bytes_nominal": 2**36}
    address = "/v1/accelerators/acme-x1"
    await own.client.put(address, json=card, headers=own.headers)
    made = await own.draft({"capacity": {"queues": {"q": "acme-x1"}}})
    await own.client.delete(address, headers={**own.headers, "If-Match": "*"})
    version, tag = made.json()["version"], made.headers["etag"]
    changed = await own.get(f"/{version}", if_none_match=tag)
    assert changed.status_code == HTTPStatus.OK
    assert (await own.activate(version, tag)).status_code == HTTPStatus.OK


async def test_of_two_administrators_at_once_one_wins(own: Admin) -> None:
    made = [(await own.draft({"risk": risk})).json()["version"] for risk in (0.1, 0.2, 0.3)]
    tag = (await own.get("/active")).headers["etag"]
    told = await asyncio.gather(*(own.activate(version, tag) for version in made))
    assert sorted(one.status_code for one in told) == [200, 412, 412]
    (winner,) = [one.json()["version"] for one in told if one.status_code == HTTPStatus.OK]
    assert (await own.get("/active")).json()["version"] == winner


async def test_a_retired_version_is_activated_again_and_default_ends_it(own: Admin) -> None:
    one, two = [(await own.draft({"risk": risk})).json()["version"] for risk in (0.1, 0.2)]
    for version in (one, two, one, "default"):
        answer = await own.activate(version)
        assert (answer.status_code, answer.json()["status"]) == (200, "active"), answer.text
    shown = (await own.get("/active")).json()
    assert (shown["version"], shown["active_version"]) == ("default", "default")
    assert (await own.get(f"/{one}")).json()["status"] == "retired"


async def test_only_a_draft_is_taken_back(own: Admin) -> None:
    one, two = [(await own.draft({"risk": risk})).json()["version"] for risk in (0.1, 0.2)]
    await own.activate(one)
    tags = [(await own.get(f"/{version}")).headers["etag"] for version in (one, two)]
    active = await own.post(f"/{one}/retire", if_match=tags[0])
    assert (active.status_code, active.json()["code"]) == (409, "not_a_draft")
    assert "Activate another" in active.json()["hint"]
    assert (await own.post(f"/{two}/retire")).status_code == 428
    assert (await own.post(f"/{two}/retire", if_match=tags[0])).status_code == 412
    gone = await own.post(f"/{two}/retire", if_match=tags[1])
    assert (gone.status_code, gone.json()["status"]) == (200, "retired")
    assert gone.json()["retired_at"] is not None
    assert (await own.post(f"/{two}/retire", if_match="*")).status_code == 409


async def test_a_tenant_has_only_so_many(own: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_policy, "MOST_VERSIONS", 1)
    version = (await own.draft()).json()["version"]
    full = await own.draft({"risk": 0.1})
    assert (full.status_code, full.json()["code"]) == (409, "policies_full")
    await own.post(f"/{version}/retire", if_match="*")
    assert (await own.draft({"risk": 0.1})).status_code == HTTPStatus.CREATED


# ---- who may


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("p-000000000000", 404),
        ("x" * 64, 404),
        ("x" * 65, 422),
        ("a%20b", 422),
        ("%00", 422),
        ("p-1%0a", 422),
        ("é", 422),
    ],
)
async def test_a_version_that_is_not_there_is_a_problem(
    own: Admin, version: str, status: int
) -> None:
    for answer in (
        await own.get(f"/{version}"),
        await own.post(f"/{version}/activate", if_match="*"),
        await own.post(f"/{version}/retire", if_match="*"),
    ):
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"


async def test_another_tenant_s_versions_are_not_there(own: Admin, other: Admin) -> None:
    version = (await own.draft()).json()["version"]
    await own.activate(version)
    assert (await other.get(f"/{version}")).status_code == HTTPStatus.NOT_FOUND
    assert (await other.post(f"/{version}/activate", if_match="*")).status_code == 404
    assert (await other.get("/active")).json()["version"] == "default"
    assert (await other.get()).json()["items"] == []
    assert (await own.get("/active")).json()["version"] == version


@pytest.mark.parametrize("scope", [Scope.READ, Scope.ADMIT])
async def test_who_reads_or_admits_sees_policies_and_changes_none(
    client: httpx.AsyncClient, database: Database, own: Admin, scope: Scope
) -> None:
    version = (await own.draft()).json()["version"]
    reader = Admin(client, bearer(await a_token(database, scope)))
    for path in ("", "/active", f"/{version}"):
        assert (await reader.get(path)).status_code == HTTPStatus.OK
    assert (await reader.post("/lint", {"policy": {}})).status_code == HTTPStatus.OK
    for path in ("", f"/{version}/activate", f"/{version}/retire"):
        refused = await reader.post(path, {"policy": {}}, if_match="*")
        assert (refused.status_code, refused.json()["scope"]) == (403, "admin")


async def test_acts_are_in_the_audit_trail(own: Admin, database: Database) -> None:
    version = (await own.draft()).json()["version"]
    await own.activate(version)
    async with database.reading() as connection:
        found = await entries_of(connection, tenant="team-a", before=None, limit=2)
    activated, created = found
    assert (created.action, created.subject) == ("policy.create", version)
    assert created.actor == activated.actor == "admin of team-a"
    assert activated.detail == {"before": "default", "after": version}


async def test_an_activation_reaches_the_other_replica_within_five_seconds(
    postgres: Databases,
) -> None:
    settings = a_settings(postgres.fresh())
    database = Database(settings.database_url.get_secret_value())
    async with served(settings) as first, served(settings) as second:
        own = await _admin(first, database, "team-a")
        known = second._transport.app.state.tenant_policies  # type: ignore[attr-defined]
        assert (await known.of("team-a")).version == "default"
        for version in ((await own.draft()).json()["version"], "default"):
            await own.activate(version)
            changed = time.monotonic()
            while (await known.of("team-a")).version != version:
                assert time.monotonic() - changed < 5
                await asyncio.sleep(0.05)
    await database.close()
