"""JWTs of a real little issuer: taken when everything holds, refused otherwise, as keys rotate."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import serialization

from tests.clocks import Clock
from tests.issuer import AUDIENCE, Issuer, SigningKey, a_key, running_issuer
from vramgate.access import Caller, Scope
from vramgate.authentication.issuer_keys import (
    FRESH_SECONDS,
    KEPT_SECONDS,
    PAUSE_SECONDS,
    IssuerKeys,
    IssuerUnavailableError,
)
from vramgate.authentication.oidc import OidcRules, RejectedTokenError, caller_of_jwt

RSA = a_key("rsa-1", "RS256")
CURVE = a_key("ec-1", "ES256")
EDWARDS = a_key("ed-1", "EdDSA")


class Verifier:
    """What judges the issuer's tokens, with a clock for its keys."""

    def __init__(self, issuer: Issuer, **changed: Any) -> None:  # noqa: ANN401 rules of any kind
        given: dict[str, Any] = {
            "issuer": issuer.url,
            "audience": AUDIENCE,
            "algorithms": ("RS256", "ES256", "EdDSA"),
            "tenant_claim": "tenant",
            "scope_claim": "scope",
        }
        self.clock = Clock()
        self.rules = OidcRules(**{**given, **changed})
        self.keys = IssuerKeys(
            issuer=issuer.url, jwks_url=None, timeout_seconds=2.0, clock=self.clock
        )

    async def caller_of(self, token: str) -> Caller:
        return await caller_of_jwt(token, self.rules, self.keys)

    async def refuses(self, token: str) -> bool:
        try:
            await self.caller_of(token)
        except RejectedTokenError:
            return True
        return False


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with running_issuer(RSA, CURVE, EDWARDS) as one:
        yield one


@pytest_asyncio.fixture
async def verifier(issuer: Issuer) -> AsyncIterator[Verifier]:
    one = Verifier(issuer)
    yield one
    await one.keys.close()


@pytest.mark.parametrize("key", [RSA, CURVE, EDWARDS], ids=lambda one: one.algorithm)
async def test_a_good_token_says_who_calls_for_whom_and_what_he_may(
    issuer: Issuer, verifier: Verifier, key: SigningKey
) -> None:
    caller = await verifier.caller_of(issuer.token(key))
    assert (caller.name, caller.tenant.name) == ("trainer-7", "team-a")
    # `openid` is a scope of the issuer's, not of ours.
    assert caller.scopes == {Scope.REPORT, Scope.READ}


@pytest.mark.parametrize(
    ("claims", "taken"),
    [
        ({"exp": -3600}, False),
        ({"exp": -10}, True),  # within the leeway
        ({"nbf": 3600}, False),
        ({"nbf": 10}, True),
        ({"iat": 3600}, False),
    ],
    ids=str,
)
async def test_a_token_is_taken_in_its_time_only(
    issuer: Issuer, verifier: Verifier, claims: dict[str, int], taken: bool
) -> None:
    moments: dict[str, Any] = {name: int(time.time()) + shift for name, shift in claims.items()}
    assert await verifier.refuses(issuer.token(**moments)) is not taken


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example"},
        {"iss": None},
        {"aud": "https://other.example"},
        {"aud": ["https://a.example", "https://b.example"]},
        {"aud": None},
        {"exp": None},
        {"exp": "soon"},
        {"sub": None},
        {"tenant": None},
        {"tenant": ""},
        {"tenant": ["team-a"]},
        {"tenant": "team a\n"},
        {"tenant": 7},
    ],
    ids=str,
)
async def test_a_token_that_says_too_little_or_another_thing_is_refused(
    issuer: Issuer, verifier: Verifier, claims: dict[str, Any]
) -> None:
    assert await verifier.refuses(issuer.token(**claims))


async def test_one_of_several_audiences_may_be_ours(issuer: Issuer, verifier: Verifier) -> None:
    token = issuer.token(aud=["https://other.example", AUDIENCE])
    assert (await verifier.caller_of(token)).tenant.name == "team-a"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("report", {Scope.REPORT}),
        (["report", "admin", 7], {Scope.REPORT, Scope.ADMIN}),
        ("", set()),
        (None, set()),
        ({"report": True}, set()),
    ],
    ids=["a text", "a list", "nothing", "null", "an object"],
)
async def test_scopes_are_a_text_or_a_list(
    issuer: Issuer, verifier: Verifier, scope: object, expected: set[Scope]
) -> None:
    assert (await verifier.caller_of(issuer.token(scope=scope))).scopes == expected


@pytest.mark.parametrize("claim", ["organization.name", "https://vramgate.example/tenant"])
async def test_claims_may_lie_deep_or_be_called_by_an_address(issuer: Issuer, claim: str) -> None:
    verifier = Verifier(issuer, tenant_claim=claim, scope_claim="permissions")
    claims: dict[str, Any] = {
        "organization": {"name": "team-b"},
        "https://vramgate.example/tenant": "team-b",
        "permissions": ["read"],
    }
    caller = await verifier.caller_of(issuer.token(**claims))
    assert caller.tenant.name == "team-b"
    assert caller.scopes == {Scope.READ}
    await verifier.keys.close()


def _signed_by_hand(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, claims)
    ]
    text = b".".join(parts)
    signature = b"" if secret is None else hmac.new(secret, text, hashlib.sha256).digest()
    return f"{text.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize("algorithm", ["none", "NONE", "nOnE", "", None])
async def test_a_token_without_signature_is_refused(
    issuer: Issuer, verifier: Verifier, algorithm: str | None
) -> None:
    header = {"alg": algorithm, "kid": "rsa-1"}
    assert await verifier.refuses(_signed_by_hand(header, issuer.claims(), None))


@pytest.mark.parametrize("allowed", [("RS256",), ("RS256", "HS256")])
async def test_a_public_key_is_never_a_shared_secret(
    issuer: Issuer, allowed: tuple[str, ...]
) -> None:
    # RFC 8725, 2.1: HS256 with the RSA key's public half as the secret.
    verifier = Verifier(issuer, algorithms=allowed)
    public = RSA.private.public_key()
    for encoding, form in [
        (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
    ]:
        secret = public.public_bytes(encoding, form)
        header = {"alg": "HS256", "kid": "rsa-1"}
        assert await verifier.refuses(_signed_by_hand(header, issuer.claims(), secret))
    await verifier.keys.close()


async def test_a_shared_secret_that_the_issuer_publishes_is_not_used(issuer: Issuer) -> None:
    verifier = Verifier(issuer, algorithms=("HS256", "RS256"))
    secret = base64.urlsafe_b64encode(b"s" * 32).rstrip(b"=").decode()
    issuer.extra_keys = [{"kty": "oct", "k": secret, "kid": "shared", "alg": "HS256"}]
    token = _signed_by_hand({"alg": "HS256", "kid": "shared"}, issuer.claims(), b"s" * 32)
    assert await verifier.refuses(token)
    await verifier.keys.close()


async def test_a_token_is_judged_by_the_key_it_names(issuer: Issuer, verifier: Verifier) -> None:
    stranger = a_key("ec-1")
    assert await verifier.refuses(issuer.token(stranger))
    head, claims, signature = issuer.token(CURVE).split(".")
    altered = base64.urlsafe_b64encode(json.dumps(issuer.claims(tenant="team-b")).encode())
    assert await verifier.refuses(f"{head}.{altered.rstrip(b'=').decode()}.{signature}")
    assert not await verifier.refuses(f"{head}.{claims}.{signature}")


@pytest.mark.parametrize(
    "change", [{"use": "enc"}, {"key_ops": ["sign"]}, {"alg": "ES384"}, {"crv": "P-384"}]
)
async def test_a_key_is_used_for_what_it_was_published_for(
    issuer: Issuer, verifier: Verifier, change: dict[str, Any]
) -> None:
    key = a_key("special")
    issuer.extra_keys = [{**key.published(), **change}]
    assert await verifier.refuses(issuer.token(key))


async def test_a_token_that_names_no_key_is_tried_with_those_that_fit(
    issuer: Issuer, verifier: Verifier
) -> None:
    another = a_key("ec-0")
    issuer.keys.insert(0, another)
    token = jwt.encode(issuer.claims(), CURVE.private, algorithm="ES256")
    assert (await verifier.caller_of(token)).tenant.name == "team-a"
    stranger = jwt.encode(issuer.claims(), a_key("x").private, algorithm="ES256")
    assert await verifier.refuses(stranger)


@pytest.mark.parametrize(
    "text", ["", "abc", "a.b.c", "....", "e30.e30.", "é.é.é", "x" * 20_000, "vg_short"]
)
async def test_rubbish_is_refused_without_asking_anybody(
    issuer: Issuer, verifier: Verifier, text: str
) -> None:
    assert await verifier.refuses(text)
    assert issuer.asked == []


async def test_a_token_that_needs_an_extension_is_refused(
    issuer: Issuer, verifier: Verifier
) -> None:
    headers = {"kid": "ec-1", "crit": ["https://vramgate.example/x"]}
    token = jwt.encode(issuer.claims(), CURVE.private, algorithm="ES256", headers=headers)
    assert await verifier.refuses(token)


async def test_keys_rotate_without_a_restart(issuer: Issuer, verifier: Verifier) -> None:
    before = issuer.token(CURVE)
    await verifier.caller_of(before)
    new = a_key("ec-2")
    issuer.keys.append(new)
    verifier.clock.now += PAUSE_SECONDS
    # Both keys at once: tokens of either are taken.
    assert not await verifier.refuses(issuer.token(new))
    assert not await verifier.refuses(before)
    issuer.keys.remove(CURVE)
    verifier.clock.now += FRESH_SECONDS + 1
    # The first token after the time sets the fetch off; the withdrawn key is gone after it.
    await verifier.caller_of(before)
    for _ in range(200):
        if await verifier.refuses(before):
            break
        await asyncio.sleep(0.01)
    assert await verifier.refuses(before)
    assert not await verifier.refuses(issuer.token(new))


async def test_keys_are_fetched_once_while_they_are_fresh(
    issuer: Issuer, verifier: Verifier
) -> None:
    tokens = [issuer.token(CURVE) for _ in range(20)]
    await asyncio.gather(*(verifier.caller_of(token) for token in tokens))
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_unknown_keys_make_us_ask_once_in_a_while_only(
    issuer: Issuer, verifier: Verifier
) -> None:
    await verifier.caller_of(issuer.token())
    stranger = a_key("nobody's")
    for _ in range(50):
        assert await verifier.refuses(issuer.token(stranger))
    assert issuer.asked.count("/keys") == 1
    verifier.clock.now += PAUSE_SECONDS
    for _ in range(50):
        assert await verifier.refuses(issuer.token(stranger))
    assert issuer.asked.count("/keys") == 2


async def test_what_is_known_lasts_a_day_while_the_issuer_is_away(
    issuer: Issuer, verifier: Verifier
) -> None:
    await verifier.caller_of(issuer.token())
    issuer.is_down = True
    verifier.clock.now += KEPT_SECONDS - 1
    assert not await verifier.refuses(issuer.token())
    verifier.clock.now += PAUSE_SECONDS
    with pytest.raises(IssuerUnavailableError):
        await verifier.caller_of(issuer.token())
    issuer.is_down = False
    verifier.clock.now += PAUSE_SECONDS
    assert not await verifier.refuses(issuer.token())


async def test_an_issuer_that_was_never_reached_is_no_bad_token(issuer: Issuer) -> None:
    issuer.is_down = True
    verifier = Verifier(issuer)
    for _ in range(5):
        with pytest.raises(IssuerUnavailableError):
            await verifier.caller_of(issuer.token())
    assert len(issuer.asked) == 1
    await verifier.keys.close()


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/.well-known/openid-configuration", {"issuer": "https://other.example"}),
        ("/.well-known/openid-configuration", {"jwks_uri": "https://other.example/keys"}),
        ("/.well-known/openid-configuration", ["not an object"]),
        ("/keys", {"keys": "none"}),
        ("/keys", "x" * (2**20 + 1)),
    ],
    ids=["another issuer", "no issuer", "a list", "no list of keys", "endless"],
)
async def test_an_issuer_that_answers_unusably_gives_no_keys(
    issuer: Issuer, verifier: Verifier, path: str, document: object
) -> None:
    issuer.documents[path] = document
    with pytest.raises(IssuerUnavailableError):
        await verifier.caller_of(issuer.token())


async def test_keys_that_come_over_an_open_line_are_not_fetched(
    issuer: Issuer, verifier: Verifier
) -> None:
    issuer.documents["/.well-known/openid-configuration"] = {
        "issuer": issuer.url,
        "jwks_uri": "http://keys.example/keys",
    }
    with pytest.raises(IssuerUnavailableError):
        await verifier.caller_of(issuer.token())


async def test_the_address_of_the_keys_may_be_given(issuer: Issuer) -> None:
    verifier = Verifier(issuer)
    await verifier.keys.close()
    verifier.keys = IssuerKeys(
        issuer=issuer.url, jwks_url=f"{issuer.url}/keys", timeout_seconds=2.0
    )
    assert not await verifier.refuses(issuer.token())
    assert issuer.asked == ["/keys"]
    await verifier.keys.close()


async def test_broken_keys_among_good_ones_do_no_harm(issuer: Issuer, verifier: Verifier) -> None:
    issuer.extra_keys = [
        {"kty": "RSA", "kid": "broken", "n": "AA", "e": "AQAB"},
        {"kty": "EC", "kid": "broken", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kid": "broken"},
        {},
    ]
    assert not await verifier.refuses(issuer.token(CURVE))
    assert await verifier.refuses(issuer.token(a_key("broken")))
    assert await verifier.refuses(issuer.token(a_key("broken", "RS256")))
