"""Every route × every scope × every tenant: what each must answer, from the app's own routes.

A new route fails `test_every_route_is_in_the_table` until somebody has written down who may use it
and what another tenant's caller gets.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import httpx
import pytest_asyncio
from fastapi import FastAPI
from starlette.routing import BaseRoute

from tests.factories import a_job, a_request
from tests.kept_decisions import a_decision, keep_decisions
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.api import examples
from vramgate.persistence.engine import Database

OWN, OTHER = "team-a", "team-b"
MARK = "known-to-team-a-only"
"""Stands in everything that team-a has stored, so that it is seen wherever it leaks."""

ANY_STATE = {"If-Match": "*"}
MODEL, CARD = f"acme/{MARK}", f"acme-{MARK}"
A_CARD: dict[str, str | int] = {"vendor": "Acme", "memory_bytes_nominal": 2**36}


class Stored(Enum):
    """What a route has to do with what tenants have stored."""

    NOTHING = auto()
    """It answers everybody the same."""
    WRITES = auto()
    """It stores something in the caller's tenant, and shows nothing of another one."""
    LISTS = auto()
    """It shows the caller's own rows; another tenant's caller gets none of them."""
    COUNTS = auto()
    """It counts the caller's own rows, and shows none."""
    ONE = auto()
    """Its path names one row, which is not there for another tenant's caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Who may use an operation, how it is used, and what it shows."""

    operation: str
    scope: Scope | None
    """The one that is needed, beside `admin`; None for what is public."""
    or_scope: Scope | None = None
    """One that is enough as well."""
    stored: Stored = Stored.NOTHING
    body: Any = None
    content: str | None = None
    """A body that is no JSON."""
    status: int = 200
    again: int | None = None
    """The status where the same was asked before."""
    name: str = ""
    """What stands for the name in its path; without one, the row that it is to be used on."""
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def path(self, row_id: str) -> str:
        """Return the path with a value for each of its parameters."""
        template = self.operation.partition(" ")[2].replace("{code}", "forbidden")
        template = template.replace("{name:path}", self.name or row_id)
        template = template.replace("{sha256}", self.name or row_id)
        template = template.replace("{version}", row_id)
        template = template.replace("{decision_id}", row_id)
        return template.replace("{report_id}", row_id) + self.query


TABLE = (
    Row(operation="GET /livez", scope=None),
    Row(operation="GET /readyz", scope=None),
    Row(operation="GET /openapi.json", scope=None),
    Row(operation="GET /problems", scope=None),
    Row(operation="GET /problems/{code}", scope=None),
    Row(operation="POST /v1/estimates", scope=Scope.ESTIMATE, body=a_request()),
    Row(operation="POST /v1/estimates/batch", scope=Scope.ESTIMATE, body={"items": [a_request()]}),
    Row(
        operation="POST /v1/launches/parse",
        scope=Scope.ESTIMATE,
        body=examples.LAUNCHES["axolotl"]["value"],
    ),
    Row(
        operation="PUT /v1/files/{sha256}",
        scope=Scope.ESTIMATE,
        stored=Stored.WRITES,
        name=sha256(b"stage: 3").hexdigest(),
        content="stage: 3",
        status=201,
        again=200,
    ),
    Row(operation="GET /v1/files/{sha256}", scope=Scope.ESTIMATE, stored=Stored.ONE),
    Row(
        operation="GET /v1/models",
        scope=Scope.ESTIMATE,
        stored=Stored.LISTS,
        query=f"?q={MARK}",
    ),
    Row(operation="GET /v1/models/{name:path}", scope=Scope.ESTIMATE, name="gpt2"),
    Row(
        operation="GET /v1/accelerators",
        scope=Scope.ESTIMATE,
        stored=Stored.LISTS,
        query=f"?q={MARK}",
    ),
    Row(operation="GET /v1/accelerators/{name:path}", scope=Scope.ESTIMATE, name="h100"),
    Row(
        operation="POST /v1/reports",
        scope=Scope.REPORT,
        stored=Stored.WRITES,
        body=examples.REPORTS["completed"]["value"],
        status=202,
    ),
    Row(operation="GET /v1/reports", scope=Scope.READ, stored=Stored.LISTS),
    Row(operation="GET /v1/reports/export", scope=Scope.READ, stored=Stored.LISTS),
    Row(operation="GET /v1/reports/quarantine", scope=Scope.READ, stored=Stored.LISTS),
    Row(operation="GET /v1/reports/{report_id}", scope=Scope.READ, stored=Stored.ONE),
    Row(
        operation="POST /v1/reports/quarantine/{report_id}/release",
        scope=Scope.CALIBRATE,
        stored=Stored.ONE,
        body={"reason": "measured twice"},
    ),
    Row(
        operation="PUT /v1/models/{name:path}",
        scope=Scope.ADMIN,
        stored=Stored.WRITES,
        name="acme/titan",
        body={"name": "acme/titan", "parameters": 7_000_000_000},
        status=201,
    ),
    Row(
        operation="DELETE /v1/models/{name:path}",
        scope=Scope.ADMIN,
        stored=Stored.ONE,
        headers=ANY_STATE,
        status=204,
    ),
    Row(
        operation="PUT /v1/accelerators/{name:path}",
        scope=Scope.ADMIN,
        stored=Stored.WRITES,
        name="acme-x1",
        body={"name": "acme-x1", "vendor": "Acme", "memory_bytes_nominal": 2**36},
        status=201,
    ),
    Row(
        operation="DELETE /v1/accelerators/{name:path}",
        scope=Scope.ADMIN,
        stored=Stored.ONE,
        headers=ANY_STATE,
        status=204,
    ),
    Row(
        operation="POST /v1/admit",
        scope=Scope.ADMIT,
        stored=Stored.WRITES,
        body=examples.ADMIT["job"]["value"],
    ),
    Row(
        operation="POST /admit",
        scope=Scope.ADMIT,
        stored=Stored.WRITES,
        body=examples.ADMIT["devices"]["value"],
    ),
    Row(operation="GET /v1/admissions", scope=Scope.READ, stored=Stored.LISTS),
    Row(operation="GET /v1/admissions/shadow-report", scope=Scope.READ, stored=Stored.COUNTS),
    Row(operation="GET /v1/admissions/{decision_id}", scope=Scope.READ, stored=Stored.ONE),
    Row(operation="POST /v1/admissions/{decision_id}/replay", scope=Scope.READ, stored=Stored.ONE),
    Row(
        operation="POST /v1/policies",
        scope=Scope.ADMIN,
        stored=Stored.WRITES,
        body=examples.POLICY["enforcing"]["value"],
        status=201,
        again=200,
    ),
    Row(
        operation="POST /v1/policies/lint",
        scope=Scope.READ,
        or_scope=Scope.ADMIT,
        body=examples.LINT["late"]["value"],
    ),
    Row(
        operation="GET /v1/policies",
        scope=Scope.READ,
        or_scope=Scope.ADMIT,
        stored=Stored.LISTS,
    ),
    Row(
        operation="GET /v1/policies/active",
        scope=Scope.READ,
        or_scope=Scope.ADMIT,
        stored=Stored.LISTS,
    ),
    Row(
        operation="GET /v1/policies/{version}",
        scope=Scope.READ,
        or_scope=Scope.ADMIT,
        stored=Stored.ONE,
    ),
    Row(
        operation="POST /v1/policies/{version}/activate",
        scope=Scope.ADMIN,
        stored=Stored.ONE,
        headers=ANY_STATE,
    ),
    Row(
        operation="POST /v1/policies/{version}/retire",
        scope=Scope.ADMIN,
        stored=Stored.ONE,
        headers=ANY_STATE,
    ),
    Row(operation="GET /v1/audit", scope=Scope.ADMIN, stored=Stored.LISTS),
)


def _routes(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    for route in routes:
        included = getattr(route, "original_router", None)
        if included is None:
            yield route
        else:
            yield from _routes(included.routes)


def _operations(app: FastAPI) -> set[str]:
    found = set()
    for route in _routes(app.routes):
        # A mounted application has no methods; it would have to be written down as `MOUNT /path`.
        methods: set[str] = getattr(route, "methods", None) or {"MOUNT"}
        found |= {f"{method} {getattr(route, 'path', route)}" for method in methods - {"HEAD"}}
    return found


def test_every_route_is_in_the_table(app: FastAPI) -> None:
    assert _operations(app) == {row.operation for row in TABLE}
    assert len({row.operation for row in TABLE}) == len(TABLE)


def test_the_document_says_which_scope_each_route_needs(app: FastAPI) -> None:
    document = app.openapi()["paths"]
    for row in TABLE:
        method, _, template = row.operation.partition(" ")
        path = template.replace(":path", "")
        if path in document:
            said = document[path][method.lower()].get("security", [])
            enough = [one.value for one in (row.scope, row.or_scope) if one is not None]
            assert said == [{"bearer": [one]} for one in enough], path


class Service:
    """A running service in which team-a has stored reports, and callers with one scope each."""

    def __init__(self, client: httpx.AsyncClient, database: Database) -> None:
        self._client = client
        self._database = database
        self._tokens: dict[tuple[str, Scope], dict[str, str]] = {}
        self.report_id = ""
        self.file_id = ""
        self.decision_id = ""
        self.policy_version = ""

    async def ask(
        self, row: Row, scope: Scope | None, tenant: str, row_id: str | None = None
    ) -> httpx.Response:
        """Use an operation as a caller of the tenant with this scope; None is without a token."""
        headers = {} if scope is None else await self._token(tenant, scope)
        method, path = row.operation.partition(" ")[0], row.path(row_id or self.default_row(row))
        body: dict[str, Any] = (
            {"json": row.body} if row.content is None else {"content": row.content}
        )
        return await self._client.request(method, path, headers={**row.headers, **headers}, **body)

    def default_row(self, row: Row) -> str:
        """Return what team-a has from the start, of the kind that an operation is used on."""
        kept = {
            "/v1/accelerators": CARD,
            "/v1/models": MODEL,
            "/v1/files": self.file_id,
            "/v1/admissions": self.decision_id,
            "/v1/policies": self.policy_version,
        }
        return next(
            (row_id for part, row_id in kept.items() if part in row.operation), self.report_id
        )

    async def make_row(self, row: Row, label: str) -> str:
        """Store something new for team-a, of the kind that an operation is used on."""
        label = label.replace(":", "-").replace("_", "-").lower()
        if "/v1/models" in row.operation:
            return await self.put("models", f"{MODEL}-{label}", parameters=7_000_000_000)
        if "/v1/accelerators" in row.operation:
            return await self.put("accelerators", f"{CARD}-{label}", **A_CARD)
        if "/v1/files" in row.operation:
            return await self.put_file(f"{MARK}-{label}")
        if "/v1/admissions" in row.operation:
            return await self.keep_decision()
        if "/v1/policies" in row.operation:
            return await self.draft_policy(f"{MARK}-{label}")
        return await self.post_quarantined(f"{MARK}-{label}")

    async def keep_decision(self) -> str:
        """Keep a decision on a job of team-a, and return its id."""
        decision = a_decision(tenant=OWN, submitter=MARK)
        await keep_decisions(self._database, decision)
        return decision.decision_id

    async def draft_policy(self, name: str) -> str:
        """Draft a policy of team-a with a rule of this name, and return its version."""
        headers = await self._token(OWN, Scope.ADMIN)
        policy = {"rules": [{"name": name, "queue": "prod", "mode": "enforce"}]}
        body = {"policy": policy, "note": MARK}
        answer = await self._client.post("/v1/policies", headers=headers, json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["version"])

    async def use_policy(self, version: str) -> None:
        """Activate a policy of team-a."""
        headers = {**await self._token(OWN, Scope.ADMIN), **ANY_STATE}
        answer = await self._client.post(f"/v1/policies/{version}/activate", headers=headers)
        assert answer.status_code == 200, answer.text

    async def put_file(self, text: str) -> str:
        """Send a file ahead for team-a, and return its digest."""
        headers = await self._token(OWN, Scope.ESTIMATE)
        digest = sha256(text.encode()).hexdigest()
        answer = await self._client.put(f"/v1/files/{digest}", headers=headers, content=text)
        assert answer.status_code == 201, answer.text
        return digest

    async def put(self, folder: str, name: str, **facts: str | int) -> str:
        """Put an entry into team-a's catalog, and return its name."""
        headers = await self._token(OWN, Scope.ADMIN)
        address = f"/v1/{folder}/{name}"
        answer = await self._client.put(address, headers=headers, json={"name": name, **facts})
        assert answer.status_code == 201, answer.text
        return name

    async def post_quarantined(self, run_id: str) -> str:
        """Post a report for team-a that is kept in quarantine, and return its id."""
        report = {
            "run_id": run_id,
            "rank": 0,
            "job": a_job(),
            "outcome": "completed",
            # Weights of an 8B model in bf16 alone take 16 GB.
            "measured": {"max_allocated_bytes": 1_000_000_000},
            "labels": {"note": MARK},
        }
        headers = await self._token(OWN, Scope.REPORT)
        answer = await self._client.post("/v1/reports", headers=headers, json={"reports": [report]})
        (item,) = answer.json()["items"]
        assert item["status"] == "quarantined", answer.text
        return str(item["report_id"])

    async def _token(self, tenant: str, scope: Scope) -> dict[str, str]:
        if (tenant, scope) not in self._tokens:
            name = f"{MARK} {scope}" if tenant == OWN else f"of {tenant}, {scope}"
            issued = await a_token(self._database, scope, tenant=tenant, name=name)
            self._tokens[tenant, scope] = bearer(issued)
        return self._tokens[tenant, scope]


@pytest_asyncio.fixture
async def service(database_url: str, database: Database) -> AsyncIterator[Service]:
    """Return the service, where every request needs a token and team-a has stored things."""
    async with served(a_settings(database_url)) as client:
        one = Service(client, database)
        one.report_id = await one.post_quarantined(f"{MARK}-0")
        one.file_id = await one.put_file(MARK)
        one.decision_id = await one.keep_decision()
        await one.use_policy(await one.draft_policy(MARK))
        one.policy_version = await one.draft_policy(f"{MARK}-draft")
        await one.put("models", MODEL, parameters=7_000_000_000)
        await one.put("accelerators", CARD, **A_CARD)
        yield one


async def test_each_route_answers_the_callers_of_its_scope_and_refuses_all_others(
    service: Service,
) -> None:
    for number, row in enumerate(TABLE):
        for scope in [None, *Scope]:
            row_id = None
            if row.stored is Stored.ONE:
                # Of its own, since it can be released or deleted once.
                row_id = await service.make_row(row, f"{number}-{scope}")
            answer = await service.ask(row, scope, OWN, row_id)
            case = (row.operation, scope, answer.text[:300])
            expected = _expected(row, scope)
            assert answer.status_code in {expected, row.again or expected}, case
            if answer.status_code in {401, 403}:
                assert MARK not in _without_name(answer), case


def _expected(row: Row, scope: Scope | None) -> int:
    if row.scope is None or (scope is not None and scope in _enough(row)):
        return row.status
    return 401 if scope is None else 403


def _enough(row: Row) -> set[Scope]:
    return {one for one in (row.scope or Scope.READ, row.or_scope, Scope.ADMIN) if one is not None}


def _without_name(answer: httpx.Response) -> str:
    """Return a refusal without its sentence and address, which say what the caller knows."""
    return json.dumps({**answer.json(), "detail": "", "instance": ""})


async def test_no_route_shows_what_another_tenant_has_stored(service: Service) -> None:
    for scope in Scope:
        # Makes team-a's tokens, so that its audit trail holds something.
        await service.ask(TABLE[0], scope, OWN)
    for row in TABLE:
        for scope in _enough(row):
            answer = await service.ask(row, scope, OTHER)
            case = (row.operation, scope, answer.text[:300])
            # The answer that there is none repeats the name that was asked for.
            asked = service.default_row(row) if row.stored is Stored.ONE else "\0"
            assert MARK not in answer.text.replace(asked, ""), case
            if row.stored is not Stored.ONE:
                assert answer.status_code in {row.status, row.again or row.status}, case
                assert service.report_id not in answer.text, case


async def test_another_tenant_s_row_is_answered_as_one_that_does_not_exist(
    service: Service,
) -> None:
    for row in TABLE:
        if row.stored is Stored.ONE:
            is_file = "/v1/files" in row.operation
            nobody_s = "0" * 64 if is_file else "01890a5d-ac96-774b-bcce-b302099a8057"
            for scope in _enough(row):
                there = await service.ask(row, scope, OTHER)
                absent = await service.ask(row, scope, OTHER, nobody_s)
                assert (there.status_code, absent.status_code) == (404, 404), row.operation
                known = _anonymous(there, service.default_row(row))
                assert known == _anonymous(absent, nobody_s)


def _anonymous(answer: httpx.Response, row_id: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(answer.text.replace(row_id, "ID"))
    return {**document, "request_id": None}


async def test_another_tenant_s_attempts_change_nothing(service: Service) -> None:
    operations = ("GET /v1/reports/{report_id}", "GET /v1/models", "GET /v1/accelerators")
    rows = [row for row in TABLE if row.operation in operations]
    before = [await service.ask(row, Scope.ADMIN, OWN) for row in rows]
    for row in TABLE:
        await service.ask(row, Scope.ADMIN, OTHER)
    after = [await service.ask(row, Scope.ADMIN, OWN) for row in rows]
    assert [one.json() for one in after] == [one.json() for one in before]
    assert '"quarantined"' in "".join(one.text for one in after)


async def test_each_route_shows_the_tenant_its_own(service: Service) -> None:
    for number, row in enumerate(TABLE):
        if row.stored in {Stored.LISTS, Stored.ONE}:
            scope = row.scope or Scope.READ
            # A release changes the row; the others are to find it as it is.
            row_id = await service.make_row(row, f"own-{number}")
            answer = await service.ask(row, scope, OWN, row_id)
            is_told = MARK in answer.text or row_id in answer.text
            shown = answer.status_code == HTTPStatus.NO_CONTENT or is_told
            assert shown, (row.operation, answer.text[:300])


async def test_one_key_in_two_tenants_is_two_reports(service: Service) -> None:
    row = next(one for one in TABLE if one.operation == "POST /v1/reports")
    for tenant in (OWN, OTHER):
        answer = await service.ask(row, Scope.REPORT, tenant)
        (item,) = answer.json()["items"]
        assert item["status"] == "accepted", answer.text
    answer = await service.ask(row, Scope.REPORT, OTHER)
    assert answer.json()["items"][0]["status"] == "duplicate"


async def test_a_scope_for_any_tenant_of_admissions_opens_nothing_else(service: Service) -> None:
    for row in TABLE:
        if row.scope is not None:
            answer = await service.ask(row, Scope.ADMIT_ANY_TENANT, OTHER)
            assert answer.status_code == 403, row.operation
