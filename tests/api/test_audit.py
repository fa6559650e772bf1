from datetime import UTC, datetime

from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.authentication.tokens import revoke_token
from vramgate.persistence.engine import Database


async def test_an_admin_reads_what_was_done_in_his_tenant(
    database_url: str, database: Database
) -> None:
    admin = await a_token(database, Scope.ADMIN, name="admin")
    await a_token(database, Scope.READ, tenant="team-b", name="stranger")
    await revoke_token(database, admin.stored.token_id, actor="test", now=datetime.now(UTC))
    other = await a_token(database, Scope.ADMIN, name="another admin")
    async with served(a_settings(database_url)) as client:
        answer = await client.get("/v1/audit", headers=bearer(other))
    assert answer.status_code == 200
    listed = answer.json()
    acts = [(one["action"], one["subject"], one["actor"]) for one in listed["items"]]
    assert acts == [
        ("token.create", other.stored.token_id, "test"),
        ("token.revoke", admin.stored.token_id, "test"),
        ("token.create", admin.stored.token_id, "test"),
    ]
    assert listed["items"][0]["detail"] == {
        "name": "another admin",
        "scopes": ["admin"],
        "expires_at": other.stored.expires_at.isoformat() if other.stored.expires_at else None,
    }
    assert listed["next_cursor"] is None
    assert other.bearer.secret not in answer.text


async def test_the_trail_is_read_page_by_page(database_url: str, database: Database) -> None:
    admin = await a_token(database, Scope.ADMIN)
    for number in range(6):
        await a_token(database, name=f"n{number}")
    async with served(a_settings(database_url)) as client:
        seen, path = [], "/v1/audit?limit=3"
        while path:
            answer = await client.get(path, headers=bearer(admin))
            assert answer.status_code == 200
            seen.append([one["detail"]["name"] for one in answer.json()["items"]])
            path = answer.links["next"]["url"] if "next" in answer.links else ""
            if path:
                # An act meanwhile moves nothing of what follows.
                await a_token(database, name="meanwhile")
    assert seen == [["n5", "n4", "n3"], ["n2", "n1", "n0"], ["trainer"]]


async def test_a_cursor_of_another_tenant_or_none_at_all_is_refused(
    database_url: str, database: Database
) -> None:
    own = await a_token(database, Scope.ADMIN)
    await a_token(database)
    other = await a_token(database, Scope.ADMIN, tenant="team-b")
    async with served(a_settings(database_url)) as client:
        first = await client.get("/v1/audit", params={"limit": 1}, headers=bearer(own))
        cursor = first.json()["next_cursor"]
        for token, given in [(other, cursor), (own, "rubbish"), (own, "")]:
            answer = await client.get("/v1/audit", params={"cursor": given}, headers=bearer(token))
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")
        answer = await client.get("/v1/audit", params={"limit": 201}, headers=bearer(own))
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter")
