"""JWTs of an OpenID provider as tokens: who they say calls, once everything about them holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from vramgate.access import Caller, Tenant, is_tenant_name, scopes_in
from vramgate.authentication.issuer_keys import IssuerKeys, Jwk
from vramgate.errors import shortened

LEEWAY_SECONDS = 30
"""How far the issuer's clock may be from ours."""
MAX_TOKEN_CHARACTERS = 16_384
MAX_KEYS_TRIED = 4
"""Of a token that does not name its key."""
MAX_NAME = 200

_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_BY_CURVE = {
    "P-256": frozenset({"ES256"}),
    "P-384": frozenset({"ES384"}),
    "P-521": frozenset({"ES512"}),
    "Ed25519": frozenset({"EdDSA"}),
}
_REQUIRED = ("iss", "aud", "exp", "sub")


class RejectedTokenError(Exception):
    """The token is not taken. The message is for our log; the caller is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcRules:
    """What a token must say, and where it says who calls."""

    issuer: str
    audience: str
    algorithms: Sequence[str]
    tenant_claim: str
    scope_claim: str


async def caller_of_jwt(text: str, rules: OidcRules, keys: IssuerKeys) -> Caller:
    """Return who the token says calls.

    Raises:
        RejectedTokenError: it is none, not the issuer's, not for us, not now, or names no tenant.
        IssuerUnavailableError: the issuer's keys are not known and cannot be fetched.
    """
    algorithm, kid = _header(text, rules.algorithms)
    candidates = [key for key in await keys.candidates(kid) if algorithm in _algorithms_of(key)]
    if not candidates:
        raise RejectedTokenError("no key of the issuer fits")
    rejected = RejectedTokenError("no key was tried")
    for key in candidates[:MAX_KEYS_TRIED]:
        try:
            return _caller(_claims(text, key, algorithm, rules), rules)
        except jwt.InvalidSignatureError:
            rejected = RejectedTokenError("the signature does not hold")
    raise rejected


def _header(text: str, allowed: Sequence[str]) -> tuple[str, str | None]:
    """Return the algorithm and the key id; nothing here is proven yet."""
    if len(text) > MAX_TOKEN_CHARACTERS:
        raise RejectedTokenError("too long")
    try:
        header = jwt.get_unverified_header(text)
    except jwt.PyJWTError as error:
        raise RejectedTokenError(f"no header can be read ({type(error).__name__})") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in allowed:
        raise RejectedTokenError("its algorithm is not allowed")
    if "crit" in header:
        # We know no extension, so one that must be understood is not (RFC 7515, 4.1.11).
        raise RejectedTokenError("it needs an extension")
    return str(algorithm), kid


def _algorithms_of(key: Jwk) -> frozenset[str]:
    """Return what a published key may be used for here (RFC 7517, 4; RFC 7518, 6)."""
    operations = key.get("key_ops")
    is_for_signatures = key.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )
    if not is_for_signatures:
        return frozenset()
    # Symmetric keys (`oct`) are never among them: what is published is no secret.
    fitting = _RSA if key.get("kty") == "RSA" else _BY_CURVE.get(str(key.get("crv")), frozenset())
    own = key.get("alg")
    return fitting if own is None else fitting & {str(own)}


def _claims(text: str, key: Jwk, algorithm: str, rules: OidcRules) -> Mapping[str, Any]:
    try:
        return jwt.decode(
            text,
            key=jwt.PyJWK(dict(key), algorithm=algorithm),
            algorithms=[algorithm],
            audience=rules.audience,
            issuer=rules.issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": list(_REQUIRED), "enforce_minimum_key_length": True},
        )
    except jwt.InvalidSignatureError:
        raise
    except jwt.PyJWTError as error:
        # The class says which rule; the message may repeat what the token holds.
        raise RejectedTokenError(type(error).__name__) from None


def _caller(claims: Mapping[str, Any], rules: OidcRules) -> Caller:
    tenant = _claim(claims, rules.tenant_claim)
    if not isinstance(tenant, str) or not is_tenant_name(tenant):
        raise RejectedTokenError("its tenant claim names no tenant")
    granted = _claim(claims, rules.scope_claim)
    words = granted.split() if isinstance(granted, str) else granted
    if not isinstance(words, list):
        words = []
    subject = "".join(letter for letter in claims["sub"] if letter.isprintable())
    return Caller(
        name=shortened(subject, MAX_NAME),
        tenant=Tenant(name=tenant),
        scopes=scopes_in(word for word in words if isinstance(word, str)),
    )


def _claim(claims: Mapping[str, Any], name: str) -> object:
    """Return the claim of this name; where there is none, dots lead into objects."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
