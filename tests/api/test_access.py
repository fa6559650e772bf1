import httpx

from tests.factories import BASE_URL, a_request
from vramgate.access import LOCAL_CALLER, Caller, Scope, Tenant
from vramgate.api.auth import caller_of
from vramgate.app import create_app
from vramgate.settings import Settings


def test_an_admin_may_do_everything_and_others_what_they_hold() -> None:
    reporter = Caller(name="ci", tenant=Tenant(name="t"), scopes=frozenset({Scope.REPORT}))
    assert [scope for scope in Scope if reporter.may(scope)] == [Scope.REPORT]
    assert all(LOCAL_CALLER.may(scope) for scope in Scope)


async def test_a_caller_without_the_scope_is_refused() -> None:
    app = create_app(Settings())
    reporter = Caller(name="ci", tenant=Tenant(name="t"), scopes=frozenset({Scope.REPORT}))
    app.dependency_overrides[caller_of] = lambda: reporter
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        for answer in (
            await client.post("/v1/estimates", json=a_request()),
            await client.get("/v1/models"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert "'estimate'" in answer.json()["detail"]
        assert (await client.get("/livez")).status_code == 200
