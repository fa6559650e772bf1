"""Schemathesis: what the document allows is answered as it says, what it does not is refused."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from vramgate.app import create_app
from vramgate.settings import Settings

EXAMPLES = 25


class FromThisMachine:
    """Schemathesis asks as "testclient" at "testserver", which the service refuses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            kept = [(name, value) for name, value in scope["headers"] if name != b"host"]
            headers = [(b"host", b"127.0.0.1"), *kept]
            scope = {**scope, "client": ("127.0.0.1", 50_000), "headers": headers}
        await self._app(scope, receive, send)


schema = schemathesis.openapi.from_asgi("/openapi.json", FromThisMachine(create_app(Settings())))


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
def test_any_request_is_answered_as_the_document_says(case: Case[Any]) -> None:
    is_batch = case.operation.path.endswith("/batch")
    case.call_and_validate(checks=BATCH_CHECKS if is_batch else CHECKS)
