"""Schemathesis: what the document allows is answered as it says, what it does not is refused."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.python.asgi import ASGIClient, get_client
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.databases import Databases
from tests.services import a_settings, a_token
from vramgate.access import Scope
from vramgate.app import create_app, openapi_text
from vramgate.persistence.engine import Database

EXAMPLES = 25


schema = schemathesis.openapi.from_dict(json.loads(openapi_text()))


@schema.auth()
class _Bearer:
    """The token of an admin, where a case is not about callers without one."""

    token = ""

    def get(self, _case: Case[Any], _context: object) -> str:
        return _Bearer.token

    def set(self, case: Case[Any], data: str, _context: object) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@pytest.fixture(scope="module")
def service(sqlite_files: Databases) -> Iterator[ASGIClient]:
    """Return a client of the service as the document describes it: every caller has a token."""
    url = sqlite_files.fresh()
    _Bearer.token = asyncio.run(_token_of_an_admin(url))
    app: Any = create_app(a_settings(url))
    with get_client(app) as client:
        yield client


async def _token_of_an_admin(url: str) -> str:
    database = Database(url)
    try:
        issued = await a_token(database, Scope.ADMIN, now=datetime.now(UTC))
    finally:
        await database.close()
    return issued.bearer.text()


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# A batch answers a bad item with its problem, and 200.
BATCH_CHECKS = [check for check in CHECKS if check is not negative_data_rejection]


@schema.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_any_request_is_answered_as_the_document_says(case: Case[Any], service: ASGIClient) -> None:
    is_batch = case.operation.path.endswith("/batch")
    case.call_and_validate(
        session=service,
        base_url="http://vramgate.example",
        checks=BATCH_CHECKS if is_batch else CHECKS,
    )
