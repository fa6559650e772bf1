"""Who is answered: with tokens, without, from here, from elsewhere, and while things are away."""

import asyncio
import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.clocks import Clock
from tests.databases import rows_of
from tests.factories import a_request
from tests.hanging import hanging_database
from tests.issuer import AUDIENCE, Issuer, a_key, running_issuer
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.app import create_app
from vramgate.authentication.authenticator import Authenticator
from vramgate.authentication.bearer_tokens import new_bearer_token
from vramgate.authentication.secret_keys import SecretKeys
from vramgate.authentication.signing_keys import SigningKeys
from vramgate.authentication.token_lookup import (
    FRESH_SECONDS,
    KNOWN_WAIT_SECONDS,
    UNKNOWN_READS_AT_ONCE,
    TokenLookup,
)
from vramgate.authentication.tokens import revoke_token
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import tokens
from vramgate.settings import Settings

HERE = ("127.0.0.1", 50_000)
CHALLENGE = 'Bearer realm="vramgate"'
UNREACHABLE = "postgresql://nobody@127.0.0.1:1/nothing"


def _assert_refused(answer: httpx.Response, *, challenge: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == challenge


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/openapi.json", "/problems", "/problems/forbidden"]
)
async def test_what_is_public_needs_no_token_from_anywhere(database_url: str, path: str) -> None:
    async with served(a_settings(database_url)) as client:
        assert (await client.get(path)).status_code == 200
        # Nor is a token judged there: probes are answered while the database is away.
        assert (await client.get(path, headers=bearer("wrong"))).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/audit", "/v1/nothing", "/", "/problems/../v1/audit"]
)
async def test_everything_else_needs_one_even_what_does_not_exist(
    database_url: str, path: str
) -> None:
    async with served(a_settings(database_url)) as client:
        _assert_refused(await client.get(path), challenge=CHALLENGE)
        _assert_refused(await client.post(path, content=b"{"), challenge=CHALLENGE)


async def test_without_a_token_this_machine_is_not_answered_either_where_tokens_are_needed(
    database_url: str,
) -> None:
    async with served(a_settings(database_url), client=HERE, host="127.0.0.1") as client:
        _assert_refused(await client.get("/v1/models"), challenge=CHALLENGE)


async def test_a_token_is_answered_from_elsewhere_through_proxies_under_any_name(
    database_url: str, database: Database
) -> None:
    issued = await a_token(database, Scope.ESTIMATE)
    passed_on = {"X-Forwarded-For": "192.0.2.9", "Forwarded": "for=192.0.2.9"}
    async with served(a_settings(database_url)) as client:
        headers = {**bearer(issued), **passed_on}
        answer = await client.post("/v1/estimates", json=a_request(), headers=headers)
    assert answer.status_code == 200


async def test_the_name_of_the_scheme_has_no_case(database_url: str, database: Database) -> None:
    issued = await a_token(database, Scope.ESTIMATE)
    async with served(a_settings(database_url)) as client:
        for scheme in ("Bearer", "bearer", "BEARER", "Bearer "):
            headers = {"Authorization": f"{scheme} {issued.bearer.text()}"}
            assert (await client.get("/v1/models", headers=headers)).status_code == 200


async def test_every_wrong_token_gets_the_same_answer(
    database_url: str, database: Database
) -> None:
    good = await a_token(database)
    past = datetime.now(UTC) - timedelta(days=2)
    expired = await a_token(database, now=past, name="expired")
    revoked = await a_token(database, name="revoked")
    await revoke_token(database, revoked.stored.token_id, actor="test", now=datetime.now(UTC))
    another = new_bearer_token()
    wrong = [
        expired.bearer.text(),
        revoked.bearer.text(),
        another.text(),
        f"vg_{good.stored.token_id}_{another.secret}",
        good.bearer.text()[:-1],
        good.bearer.text() + "a",
        "",
        "a.b.c",
        "ä",
        f"{good.bearer.text()} x",
    ]
    async with served(a_settings(database_url)) as client:
        bodies = set()
        for text in wrong:
            shown = {b"Authorization": f"Bearer {text}".encode()}
            answer = await client.get("/v1/models", headers=shown)
            _assert_refused(answer, challenge=f'{CHALLENGE}, error="invalid_token"')
            bodies.add((answer.json()["detail"], answer.json()["hint"]))
    assert len(bodies) == 1


async def test_another_scheme_is_no_token(database_url: str) -> None:
    async with served(a_settings(database_url)) as client:
        for value in ("Basic dXNlcjpwYXNz", "vg_abc", ""):
            answer = await client.get("/v1/models", headers={"Authorization": value})
            # RFC 6750, 3.1: no error code where another method was tried.
            _assert_refused(answer, challenge=CHALLENGE)


async def test_two_tokens_at_once_are_none(database_url: str, database: Database) -> None:
    text = (await a_token(database, Scope.ESTIMATE)).bearer.text()
    headers = [("Authorization", f"Bearer {text}"), ("Authorization", f"Bearer {text}")]
    async with served(a_settings(database_url)) as client:
        answer = await client.get("/v1/models", headers=headers)
    _assert_refused(answer, challenge=f'{CHALLENGE}, error="invalid_token"')


async def test_a_scope_that_lacks_is_named(database_url: str, database: Database) -> None:
    issued = await a_token(database, Scope.REPORT, Scope.READ)
    async with served(a_settings(database_url)) as client:
        answer = await client.get("/v1/models", headers=bearer(issued))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert answer.json()["scope"] == "estimate"
    assert answer.headers["www-authenticate"] == (
        f'{CHALLENGE}, error="insufficient_scope", scope="estimate"'
    )


async def test_on_this_machine_a_token_that_is_shown_decides(
    database_url: str, database: Database
) -> None:
    reader = await a_token(database, Scope.READ)
    settings = a_settings(database_url, loopback_without_token=True)
    async with served(settings, client=HERE, host="127.0.0.1") as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.get("/v1/models", headers=bearer(reader))).status_code == 403
        answer = await client.get("/v1/models", headers=bearer("wrong"))
        _assert_refused(answer, challenge=f'{CHALLENGE}, error="invalid_token"')


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-Server": "proxy"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_without_a_token_only_what_comes_straight_from_here_is_answered(
    database_url: str, database: Database, headers: dict[str, str]
) -> None:
    issued = await a_token(database, Scope.ESTIMATE)
    settings = a_settings(database_url, loopback_without_token=True)
    async with served(settings, client=HERE, host="127.0.0.1") as client:
        answer = await client.get("/v1/models", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "loopback_only")
        with_token = {**headers, **bearer(issued)}
        assert (await client.get("/v1/models", headers=with_token)).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8000", "http://localhost:3000", "http://[::1]"]
)
async def test_pages_of_this_machine_may_ask(database_url: str, origin: str) -> None:
    settings = a_settings(database_url, loopback_without_token=True)
    async with served(settings, client=HERE, host="127.0.0.1") as client:
        assert (await client.get("/v1/models", headers={"Origin": origin})).status_code == 200


async def test_a_stranger_s_body_is_not_read(database_url: str) -> None:
    """Nobody without a token can make the service hold megabytes."""
    read = 0

    async def endless() -> Any:  # noqa: ANN401 as httpx takes it
        nonlocal read
        while True:
            read += 1
            yield b"x" * 2**16

    async with served(a_settings(database_url)) as client:
        # The transport without a socket hands bodies over as they are asked for.
        answer = await client.post("/v1/estimates", content=endless())
    assert (answer.status_code, read) == (401, 0)


async def test_a_revoked_token_is_refused_by_every_replica_within_five_seconds(
    database_url: str, database: Database
) -> None:
    issued = await a_token(database, Scope.ESTIMATE)
    settings = a_settings(database_url)
    async with served(settings) as one, served(settings) as other:
        for client in (one, other):
            assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200
        now = datetime.now(UTC)
        await revoke_token(database, issued.stored.token_id, actor="test", now=now)
        await asyncio.sleep(FRESH_SECONDS + 0.1)
        for client in (one, other):
            assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 401
    assert (datetime.now(UTC) - now).total_seconds() < 5


async def test_a_token_that_expires_is_refused_at_that_moment(
    database_url: str, database: Database
) -> None:
    issued = await a_token(database, Scope.ESTIMATE, lifetime=timedelta(seconds=0.6))
    async with served(a_settings(database_url)) as client:
        assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200
        await asyncio.sleep(0.7)
        assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 401


async def test_the_old_and_the_new_token_of_a_name_are_both_taken(
    database_url: str, database: Database
) -> None:
    both = [await a_token(database, Scope.ESTIMATE, name="ci") for _ in range(2)]
    async with served(a_settings(database_url)) as client:
        for issued in both:
            assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200


def _keys_file(file: Path, *names: str) -> None:
    lines = [f"{name}:{base64.b64encode(name.encode() * 32).decode()}" for name in names]
    file.write_text("\n".join(lines))


async def _stored_hash(database: Database) -> str:
    (row,) = await rows_of(database, tokens)
    return str(row["secret_hash"])


async def test_secret_keys_rotate_and_tokens_in_use_come_along(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    issued = await a_token(database, Scope.ESTIMATE)
    assert (await _stored_hash(database)).startswith("sha256:")
    file = tmp_path / "keys"
    for names in [("a",), ("a", "b"), ("b", "a"), ("b",)]:
        _keys_file(file, *names)
        async with served(a_settings(database_url, secret_keys_file=file)) as client:
            assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200
            assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200
        assert (await _stored_hash(database)).startswith(f"hmac-sha256:{names[0]}:")
    _keys_file(file, "c")
    async with served(a_settings(database_url, secret_keys_file=file)) as client:
        assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 401


async def test_secret_keys_rotate_while_the_service_runs(
    database_url: str, database: Database, tmp_path: Path
) -> None:
    issued = await a_token(database, Scope.ESTIMATE)
    file = tmp_path / "keys"
    _keys_file(file, "a")
    async with served(a_settings(database_url, secret_keys_file=file)) as client:
        assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200
        _keys_file(file, "b", "a")
        await asyncio.sleep(1.1)
        assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200
        assert (await _stored_hash(database)).startswith("hmac-sha256:b:")


async def test_a_hash_that_cannot_be_stored_anew_holds_nobody_up(
    database: Database, tmp_path: Path
) -> None:
    issued = await a_token(database, Scope.READ)
    file = tmp_path / "keys"
    _keys_file(file, "a")
    secret_keys = SecretKeys(file)
    async with hanging_database() as hanging:
        away = Database(hanging.url)
        authenticator = Authenticator(
            database=away,
            lookup=TokenLookup(database),
            secret_keys=secret_keys,
            signing_keys=SigningKeys(secret_keys),
            rules=None,
            issuer_keys=None,
        )
        loop = asyncio.get_running_loop()
        for most_seconds in (KNOWN_WAIT_SECONDS + 0.3, 0.1):
            began = loop.time()
            assert (await authenticator.caller_of(issued.bearer.text())).name == "trainer"
            assert loop.time() - began < most_seconds
        assert hanging.connections == 1
        await authenticator.close()
    await away.close()
    assert (await _stored_hash(database)).startswith("sha256:")


async def test_a_database_that_is_away_is_said_and_estimates_go_on_without_tokens() -> None:
    away = a_settings(UNREACHABLE, loopback_without_token=True)
    async with served(away, client=HERE, host="127.0.0.1") as client:
        answer = await client.get("/v1/models", headers=bearer(new_bearer_token().text()))
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert (await client.get("/v1/models")).status_code == 200


async def test_too_many_unknown_tokens_are_told_to_wait(
    database_url: str, database: Database
) -> None:
    app = create_app(a_settings(database_url))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://vramgate.example") as client,
    ):
        app.state.authenticator = Authenticator(
            database=database,
            # Its time stands still, so that nothing is forgiven meanwhile.
            lookup=TokenLookup(database, clock=Clock()),
            secret_keys=SecretKeys(None),
            signing_keys=app.state.signing_keys,
            rules=None,
            issuer_keys=None,
        )
        for _ in range(int(UNKNOWN_READS_AT_ONCE)):
            headers = bearer(new_bearer_token().text())
            assert (await client.get("/v1/models", headers=headers)).status_code == 401
        answer = await client.get("/v1/models", headers=bearer(new_bearer_token().text()))
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_attempts")
    assert answer.headers["retry-after"] == "1"


async def test_tokens_are_not_logged(database_url: str, database: Database) -> None:
    issued = await a_token(database, Scope.READ)
    wrong = f"vg_{issued.stored.token_id}_{new_bearer_token().secret}"
    async with served(a_settings(database_url)) as client:
        with capture_logs() as logged:
            await client.get("/v1/models", headers=bearer(issued))
            await client.get("/v1/models", headers=bearer(wrong))
            await client.get("/v1/models", headers=bearer("a.b.c"))
    assert issued.bearer.secret not in str(logged)
    assert wrong.rpartition("_")[2] not in str(logged)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """Return a running OpenID provider."""
    with running_issuer(a_key("first")) as one:
        yield one


def _with_issuer(database_url: str, issuer: Issuer) -> Settings:
    return a_settings(database_url, oidc_issuer=issuer.url, oidc_audience=AUDIENCE)


async def test_a_jwt_of_the_issuer_is_a_token_and_its_keys_rotate(
    database_url: str, issuer: Issuer
) -> None:
    async with served(_with_issuer(database_url, issuer)) as client:
        answer = await client.get("/v1/models", headers=bearer(issuer.token(scope="estimate")))
        assert answer.status_code == 200
        answer = await client.get("/v1/models", headers=bearer(issuer.token(scope="read")))
        assert answer.status_code == 403
        answer = await client.get("/v1/models", headers=bearer(issuer.token(aud="other")))
        _assert_refused(answer, challenge=f'{CHALLENGE}, error="invalid_token"')


async def test_tokens_of_ours_and_of_the_issuer_live_side_by_side(
    database_url: str, database: Database, issuer: Issuer
) -> None:
    issued = await a_token(database, Scope.ESTIMATE)
    async with served(_with_issuer(database_url, issuer)) as client:
        assert (await client.get("/v1/models", headers=bearer(issued))).status_code == 200
    # Without the setting, nobody else's token is taken.
    async with served(a_settings(database_url)) as client:
        answer = await client.get("/v1/models", headers=bearer(issuer.token(scope="estimate")))
        assert answer.status_code == 401


async def test_an_issuer_that_is_away_is_said(database_url: str, issuer: Issuer) -> None:
    issuer.is_down = True
    async with served(_with_issuer(database_url, issuer)) as client:
        answer = await client.get("/v1/models", headers=bearer(issuer.token(scope="estimate")))
    assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")
    assert answer.headers["retry-after"] == "10"
