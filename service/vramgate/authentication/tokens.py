"""Making and revoking our own tokens; both leave an entry in the audit trail."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vramgate.access import Scope, is_tenant_name
from vramgate.authentication.bearer_tokens import (
    BearerToken,
    SecretKey,
    hash_of_secret,
    new_bearer_token,
)
from vramgate.errors import DomainError, shortened
from vramgate.persistence import audit, callers
from vramgate.persistence.callers import StoredToken
from vramgate.persistence.engine import Database

MAX_NAME = 200


class InvalidTokenRequestError(DomainError):
    """No token can be made like this."""

    code = "invalid"


class UnknownTokenError(DomainError):
    """No token has the id."""

    code = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A token that was just made: the only time its secret is seen."""

    bearer: BearerToken
    stored: StoredToken


async def create_token(
    database: Database,
    *,
    tenant: str,
    name: str,
    scopes: Collection[Scope],
    lifetime: timedelta | None,
    keys: Sequence[SecretKey],
    actor: str,
    now: datetime,
) -> IssuedToken:
    """Make a token and store its hash; ``lifetime`` None is for ever.

    Raises:
        InvalidTokenRequestError: the tenant or the name cannot be one, or it could do nothing.
    """
    _check(tenant=tenant, name=name, scopes=scopes)
    bearer = new_bearer_token()
    stored = StoredToken(
        token_id=bearer.token_id,
        tenant=tenant,
        name=name,
        scopes=tuple(sorted(scope.value for scope in scopes)),
        secret_hash=hash_of_secret(bearer.secret, keys),
        created_at=now,
        expires_at=None if lifetime is None else now + lifetime,
        revoked_at=None,
    )
    async with database.writing() as connection:
        await callers.add_token(connection, stored)
        await audit.append(
            connection,
            tenant=tenant,
            actor=actor,
            action="token.create",
            subject=stored.token_id,
            detail={
                "name": name,
                "scopes": list(stored.scopes),
                "expires_at": None if stored.expires_at is None else stored.expires_at.isoformat(),
            },
        )
    return IssuedToken(bearer=bearer, stored=stored)


async def revoke_token(
    database: Database, token_id: str, *, actor: str, now: datetime
) -> StoredToken:
    """Revoke a token and return it; one that was revoked before stays as it was.

    Raises:
        UnknownTokenError: there is none with the id.
    """
    async with database.writing() as connection:
        is_new = await callers.revoke_token(connection, token_id, at=now)
        stored = await callers.token_of_id(connection, token_id)
        if stored is None:
            raise UnknownTokenError(
                f"There is no token {shortened(token_id, 40)!r}.",
                hint="`vramgate token list` shows the ids.",
            )
        if is_new:
            await audit.append(
                connection,
                tenant=stored.tenant,
                actor=actor,
                action="token.revoke",
                subject=token_id,
                detail={"name": stored.name},
            )
    return stored


def _check(*, tenant: str, name: str, scopes: Collection[Scope]) -> None:
    if not is_tenant_name(tenant):
        raise InvalidTokenRequestError(
            f"{shortened(tenant, 80)!r} cannot be a tenant.",
            hint="A tenant has up to 128 letters, digits and . _ - @ : / +, a letter or digit first.",
        )
    if not (0 < len(name) <= MAX_NAME and name.isprintable() and name.strip() == name):
        raise InvalidTokenRequestError(
            f"{shortened(name, 80)!r} cannot be the name of a token.",
            hint=f"Say who holds it, in up to {MAX_NAME} printable characters.",
        )
    if not scopes:
        raise InvalidTokenRequestError(
            "The token could do nothing.",
            hint=f"Give it scopes: {', '.join(scope.value for scope in Scope)}.",
        )
