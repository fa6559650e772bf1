"""Every route × every scope × every tenant: what each must answer, from the app's own routes.

A new route fails `test_every_route_is_in_the_table` until somebody has written down who may use it
and what another tenant's caller gets.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import httpx
import pytest_asyncio
from fastapi import FastAPI
from starlette.routing import BaseRoute

from tests.factories import a_job, a_request
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.api import examples
from vramgate.persistence.engine import Database

OWN, OTHER = "team-a", "team-b"
MARK = "known-to-team-a-only"
"""Stands in everything that team-a has stored, so that it is seen wherever it leaks."""


class Stored(Enum):
    """What a route has to do with what tenants have stored."""

    NOTHING = auto()
    """It answers everybody the same."""
    WRITES = auto()
    """It stores something in the caller's tenant, and shows nothing of another one."""
    LISTS = auto()
    """It shows the caller's own rows; another tenant's caller gets none of them."""
    ONE = auto()
    """Its path names one row, which is not there for another tenant's caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Who may use an operation, how it is used, and what it shows."""

    operation: str
    scope: Scope | None
    """The one that is needed, beside `admin`; None for what is public."""
    stored: Stored = Stored.NOTHING
    body: Any = None
    status: int = 200

    def path(self, report_id: str) -> str:
        """Return the path with a value for each of its parameters."""
        template = self.operation.partition(" ")[2]
        names = {"/v1/models/{name": "gpt2", "/v1/accelerators/{name": "h100", "{code": "forbidden"}
        for start, value in names.items():
            before, found, rest = template.partition(start)
            if found:
                template = before + start.rpartition("{")[0] + value + rest.partition("}")[2]
        return template.replace("{report_id}", report_id)


TABLE = (
    Row(operation="GET /livez", scope=None),
    Row(operation="GET /readyz", scope=None),
    Row(operation="GET /openapi.json", scope=None),
    Row(operation="GET /problems", scope=None),
    Row(operation="GET /problems/{code}", scope=None),
    Row(operation="POST /v1/estimates", scope=Scope.ESTIMATE, body=a_request()),
    Row(operation="POST /v1/estimates/batch", scope=Scope.ESTIMATE, body={"items": [a_request()]}),
    Row(operation="GET /v1/models", scope=Scope.ESTIMATE),
    Row(operation="GET /v1/models/{name:path}", scope=Scope.ESTIMATE),
    Row(operation="GET /v1/accelerators", scope=Scope.ESTIMATE),
    Row(operation="GET /v1/accelerators/{name:path}", scope=Scope.ESTIMATE),
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
            assert said == ([] if row.scope is None else [{"bearer": [row.scope.value]}]), path


class Service:
    """A running service in which team-a has stored reports, and callers with one scope each."""

    def __init__(self, client: httpx.AsyncClient, database: Database) -> None:
        self._client = client
        self._database = database
        self._tokens: dict[tuple[str, Scope], dict[str, str]] = {}
        self.report_id = ""

    async def ask(
        self, row: Row, scope: Scope | None, tenant: str, report_id: str | None = None
    ) -> httpx.Response:
        """Use an operation as a caller of the tenant with this scope; None is without a token."""
        headers = {} if scope is None else await self._token(tenant, scope)
        method, path = row.operation.partition(" ")[0], row.path(report_id or self.report_id)
        return await self._client.request(method, path, headers=headers, json=row.body)

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
    """Return the service, where every request needs a token."""
    async with served(a_settings(database_url)) as client:
        one = Service(client, database)
        one.report_id = await one.post_quarantined(f"{MARK}-0")
        yield one


async def test_each_route_answers_the_callers_of_its_scope_and_refuses_all_others(
    service: Service,
) -> None:
    for number, row in enumerate(TABLE):
        for scope in [None, *Scope]:
            report_id = service.report_id
            if row.stored is Stored.ONE:
                # Of its own, since it can be released once.
                report_id = await service.post_quarantined(f"{MARK}-{number}-{scope}")
            answer = await service.ask(row, scope, OWN, report_id)
            case = (row.operation, scope, answer.text[:300])
            assert answer.status_code == _expected(row, scope), case
            if answer.status_code in {401, 403}:
                assert MARK not in _without_name(answer), case


def _expected(row: Row, scope: Scope | None) -> int:
    if row.scope is None or (scope is not None and scope in {row.scope, Scope.ADMIN}):
        return row.status
    return 401 if scope is None else 403


def _without_name(answer: httpx.Response) -> str:
    """Return a refusal without its sentence, which names the caller himself."""
    return json.dumps({**answer.json(), "detail": ""})


async def test_no_route_shows_what_another_tenant_has_stored(service: Service) -> None:
    for scope in Scope:
        # Makes team-a's tokens, so that its audit trail holds something.
        await service.ask(TABLE[0], scope, OWN)
    for row in TABLE:
        for scope in {row.scope or Scope.READ, Scope.ADMIN}:
            answer = await service.ask(row, scope, OTHER)
            case = (row.operation, scope, answer.text[:300])
            assert MARK not in answer.text, case
            if row.stored is not Stored.ONE:
                assert answer.status_code == row.status, case
                assert service.report_id not in answer.text, case


async def test_another_tenant_s_row_is_answered_as_one_that_does_not_exist(
    service: Service,
) -> None:
    nobody_s = "01890a5d-ac96-774b-bcce-b302099a8057"
    for row in TABLE:
        if row.stored is Stored.ONE:
            for scope in {row.scope or Scope.READ, Scope.ADMIN}:
                there = await service.ask(row, scope, OTHER)
                absent = await service.ask(row, scope, OTHER, nobody_s)
                assert (there.status_code, absent.status_code) == (404, 404), row.operation
                assert _anonymous(there, service.report_id) == _anonymous(absent, nobody_s)


def _anonymous(answer: httpx.Response, report_id: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(answer.text.replace(report_id, "ID"))
    return {**document, "request_id": None}


async def test_another_tenant_s_attempts_change_nothing(service: Service) -> None:
    one = next(row for row in TABLE if row.operation == "GET /v1/reports/{report_id}")
    before = await service.ask(one, Scope.READ, OWN)
    for row in TABLE:
        await service.ask(row, Scope.ADMIN, OTHER)
    after = await service.ask(one, Scope.READ, OWN)
    assert after.json() == before.json()
    assert after.json()["status"] == "quarantined"


async def test_each_route_shows_the_tenant_its_own(service: Service) -> None:
    for number, row in enumerate(TABLE):
        if row.stored in {Stored.LISTS, Stored.ONE}:
            scope = row.scope or Scope.READ
            # A release changes the row; the others are to find it as it is.
            report_id = await service.post_quarantined(f"{MARK}-own-{number}")
            answer = await service.ask(row, scope, OWN, report_id)
            assert MARK in answer.text, (row.operation, answer.text[:300])


async def test_one_key_in_two_tenants_is_two_reports(service: Service) -> None:
    row = next(one for one in TABLE if one.stored is Stored.WRITES)
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
