"""Tokens as rows: who may call, for which tenant, until when. Of a secret only its hash is here."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.tables import tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """What is known of a token."""

    token_id: str
    tenant: str
    name: str
    """Who or what holds it. Several tokens may have one name, so that they are replaced at leisure."""
    scopes: tuple[str, ...]
    secret_hash: str = field(repr=False)
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    def is_valid(self, now: datetime) -> bool:
        """Return whether it was neither revoked nor has expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


async def add_token(connection: AsyncConnection, token: StoredToken) -> None:
    """Store a new token."""
    await connection.execute(
        sa.insert(tokens).values(
            token_id=token.token_id,
            tenant=token.tenant,
            name=token.name,
            scopes=" ".join(token.scopes),
            secret_hash=token.secret_hash,
            created_at=token.created_at,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
        )
    )


async def token_of_id(connection: AsyncConnection, token_id: str) -> StoredToken | None:
    """Return the token with the id, whether it is valid or not."""
    row = (await connection.execute(_BY_ID, {"token_id": token_id})).one_or_none()
    return None if row is None else _token(row)


async def tokens_of(connection: AsyncConnection, *, tenant: str | None) -> list[StoredToken]:
    """Return the tokens of a tenant, or of all, by tenant and name, the oldest of a name first."""
    query = sa.select(tokens)
    if tenant is not None:
        query = query.where(tokens.c.tenant == tenant)
    order = (tokens.c.tenant, tokens.c.name, tokens.c.created_at, tokens.c.token_id)
    return [_token(row) for row in await connection.execute(query.order_by(*order))]


async def revoke_token(connection: AsyncConnection, token_id: str, *, at: datetime) -> bool:
    """Revoke a token; return whether this did it, and not an earlier call."""
    done = await connection.execute(
        sa.update(tokens)
        .where(tokens.c.token_id == token_id, tokens.c.revoked_at.is_(None))
        .values(revoked_at=at)
    )
    return done.rowcount == 1


async def replace_hash(connection: AsyncConnection, token_id: str, *, old: str, new: str) -> None:
    """Store another hash of the same secret, unless another replica did already."""
    await connection.execute(
        sa.update(tokens)
        .where(tokens.c.token_id == token_id, tokens.c.secret_hash == old)
        .values(secret_hash=new)
    )


_BY_ID = sa.select(tokens).where(tokens.c.token_id == sa.bindparam("token_id"))


def _token(row: sa.Row[Any]) -> StoredToken:
    return StoredToken(
        token_id=row.token_id,
        tenant=row.tenant,
        name=row.name,
        scopes=tuple(row.scopes.split()),
        secret_hash=row.secret_hash,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
