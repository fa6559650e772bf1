"""Idempotency keys: the answer to a request, given again where the request comes again."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.tables import idempotency_keys

KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A key of a tenant on a route, and the digest of the body it came with."""

    tenant: str
    route: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A status and a body; ``is_reuse`` where the key came with another body before."""

    status: int
    body: str
    is_reuse: bool = False


_REUSE = StoredAnswer(status=0, body="", is_reuse=True)


class AnsweredKeys:
    """The keys that have an answer already, as one transaction sees and adds to them."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._answers: dict[tuple[str, str, str], tuple[str, StoredAnswer]] = {}
        self._new: list[tuple[Claim, StoredAnswer]] = []

    @classmethod
    async def of(cls, connection: AsyncConnection, claims: Iterable[Claim], now: datetime) -> Self:
        """Look up the claims; answers that have expired count no more."""
        found = cls(now)
        columns = idempotency_keys.c
        for claim in claims:
            query = sa.select(columns.fingerprint, columns.status, columns.answer).where(
                *_is_under(claim), columns.expires_at > now
            )
            row = (await connection.execute(query)).one_or_none()
            if row is not None:
                answer = StoredAnswer(status=row.status, body=row.answer)
                found._answers[_name(claim)] = (row.fingerprint, answer)
        return found

    def under(self, claim: Claim | None) -> StoredAnswer | None:
        """Return the answer under a claim's key; one of reuse where the body was another."""
        if claim is None or (known := self._answers.get(_name(claim))) is None:
            return None
        fingerprint, answer = known
        return answer if fingerprint == claim.fingerprint else _REUSE

    def add(self, claim: Claim | None, answer: StoredAnswer) -> None:
        """Note the answer that was just made; without effect where no key was claimed."""
        if claim is not None:
            self._answers[_name(claim)] = (claim.fingerprint, answer)
            self._new.append((claim, answer))

    async def keep(self, connection: AsyncConnection) -> None:
        """Write what was added, in the transaction that made it true."""
        for claim, answer in self._new:
            # What is there has expired.
            await connection.execute(sa.delete(idempotency_keys).where(*_is_under(claim)))
            await connection.execute(
                sa.insert(idempotency_keys).values(
                    tenant=claim.tenant,
                    route=claim.route,
                    key=claim.key,
                    fingerprint=claim.fingerprint,
                    status=answer.status,
                    answer=answer.body,
                    expires_at=self._now + KEPT_FOR,
                )
            )


async def forget_expired(connection: AsyncConnection, now: datetime) -> int:
    """Delete the keys whose day is over; return how many."""
    gone = await connection.execute(
        sa.delete(idempotency_keys).where(idempotency_keys.c.expires_at <= now)
    )
    return int(gone.rowcount)


def _name(claim: Claim) -> tuple[str, str, str]:
    return claim.tenant, claim.route, claim.key


def _is_under(claim: Claim) -> tuple[sa.ColumnElement[bool], ...]:
    columns = idempotency_keys.c
    return (
        columns.tenant == claim.tenant,
        columns.route == claim.route,
        columns.key == claim.key,
    )
