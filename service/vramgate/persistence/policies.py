"""Versions of tenants' policies, as rows. Every statement is bound to one tenant.

A document never changes under its version; what changes is which one of a tenant is active.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.tables import policies


class PolicyStatus(StrEnum):
    """Where a version stands: not in use yet, in use, not in use any more."""

    DRAFT = "draft"
    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """One version."""

    version: str
    status: PolicyStatus
    note: str
    document: str
    digest: str
    """Of the document."""
    created_at: datetime
    created_by: str
    activated_at: datetime | None = None
    activated_by: str | None = None
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivePolicy:
    """The version that a tenant has active."""

    version: str
    document: str | None
    """None where it is the version that is known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPair:
    """A version that was asked for and the active one, which may be the same; None is none."""

    meant: StoredPolicy | None
    active: StoredPolicy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyList:
    """Some versions, and the one that is active, which need not be among them."""

    items: Sequence[StoredPolicy]
    active_version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPlace:
    """Where a version stands in the list of a tenant's."""

    created_at: datetime
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyHoldings:
    """What a tenant keeps."""

    versions: int
    characters: int
    """Of all documents together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentPolicy:
    """A version that may go, and what its document takes."""

    version: str
    characters: int


async def begin_change(connection: AsyncConnection, tenant: str) -> None:
    """Hold off other changes of the tenant's policies to the commit."""
    # SQLite has one writer at a time anyway.
    if connection.dialect.name == "postgresql":
        await connection.execute(_HOLD, {"name": f"policies of {tenant}"})


async def read_active(
    connection: AsyncConnection, tenant: str, *, known: str | None
) -> ActivePolicy | None:
    """Return which version is active, with its document unless it is the one that is known."""
    row = (await connection.execute(_ACTIVE, {"tenant": tenant, "known": known or ""})).first()
    return None if row is None else ActivePolicy(version=row.version, document=row.document)


async def find_policy(connection: AsyncConnection, tenant: str, version: str) -> PolicyPair:
    """Return a version and the one that is active, as they are at one moment."""
    is_meant = sa.or_(_P.version == version, _P.status == PolicyStatus.ACTIVE)
    rows = await connection.execute(sa.select(policies).where(_P.tenant == tenant, is_meant))
    found = [_stored(row, document=row.document) for row in rows]
    return PolicyPair(
        meant=next((one for one in found if one.version == version), None),
        active=next((one for one in found if one.status is PolicyStatus.ACTIVE), None),
    )


async def find_in_use(connection: AsyncConnection, tenant: str, digest: str) -> str | None:
    """Return the draft or active version of a document; None where there is neither."""
    found: str | None = await connection.scalar(
        sa.select(_P.version).where(
            _P.tenant == tenant, _P.digest == digest, _P.status != PolicyStatus.RETIRED
        )
    )
    return found


async def versions_like(connection: AsyncConnection, tenant: str, stem: str) -> set[str]:
    """Return the versions whose names begin with a text, which holds no wildcard."""
    rows = await connection.execute(
        sa.select(_P.version).where(
            _P.tenant == tenant, _P.version.startswith(stem, autoescape=True)
        )
    )
    return set(rows.scalars())


async def list_policies(
    connection: AsyncConnection, tenant: str, *, after: PolicyPlace | None, limit: int
) -> PolicyList:
    """Return versions, newest first, from behind a place on; their documents are left empty."""
    other = policies.alias()
    active = sa.select(other.c.version).where(
        other.c.tenant == tenant, other.c.status == PolicyStatus.ACTIVE
    )
    columns = [one for one in _P if one is not _P.document]
    query: sa.Select[Any] = sa.select(*columns, active.scalar_subquery().label("active"))
    query = query.where(_P.tenant == tenant)
    if after is not None:
        behind = sa.tuple_(sa.literal(after.created_at, _P.created_at.type), after.version)
        query = query.where(sa.tuple_(_P.created_at, _P.version) < behind)
    query = query.order_by(_P.created_at.desc(), _P.version.desc()).limit(limit)
    rows = (await connection.execute(query)).all()
    return PolicyList(
        items=[_stored(row, document="") for row in rows],
        active_version=rows[0].active if rows else None,
    )


async def holdings_of(connection: AsyncConnection, tenant: str) -> PolicyHoldings:
    """Return how much a tenant keeps."""
    characters = sa.func.coalesce(sa.func.sum(sa.func.length(_P.document)), 0)
    row = (
        await connection.execute(sa.select(sa.func.count(), characters).where(_P.tenant == tenant))
    ).one()
    return PolicyHoldings(versions=row[0], characters=row[1])


async def spent_versions(
    connection: AsyncConnection, tenant: str, *, before: datetime
) -> list[SpentPolicy]:
    """Return the retired versions that were never active, or not since a moment; oldest first."""
    spent = sa.or_(_P.activated_at.is_(None), _P.retired_at < before)
    rows = await connection.execute(
        sa.select(_P.version, sa.func.length(_P.document).label("characters"))
        .where(_P.tenant == tenant, _P.status == PolicyStatus.RETIRED, spent)
        .order_by(_P.retired_at, _P.version)
    )
    return [SpentPolicy(version=row.version, characters=row.characters) for row in rows]


async def remove_policy(connection: AsyncConnection, tenant: str, version: str) -> None:
    """Delete a version."""
    await connection.execute(sa.delete(policies).where(_P.tenant == tenant, _P.version == version))


async def add_policy(connection: AsyncConnection, tenant: str, policy: StoredPolicy) -> None:
    """Store a new version."""
    row = {one.name: getattr(policy, one.name) for one in _P if one.name != "tenant"}
    await connection.execute(
        sa.insert(policies).values(**{**row, "tenant": tenant, "status": policy.status.value})
    )


async def retire_policy(
    connection: AsyncConnection, tenant: str, version: str, *, at: datetime
) -> None:
    """Take a version out of use."""
    await _change(connection, tenant, version, status=PolicyStatus.RETIRED.value, retired_at=at)


async def activate_policy(
    connection: AsyncConnection, tenant: str, version: str, *, by: str, at: datetime
) -> None:
    """Take a version into use; none may be in use, which the database holds to."""
    await _change(
        connection,
        tenant,
        version,
        status=PolicyStatus.ACTIVE.value,
        activated_at=at,
        activated_by=by,
        retired_at=None,
    )


_P = policies.c

_HOLD = sa.text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
# A document can have a million characters, and every replica asks every few seconds.
_ACTIVE = sa.select(
    _P.version,
    sa.case((_P.version != sa.bindparam("known"), _P.document), else_=None).label("document"),
).where(
    _P.tenant == sa.bindparam("tenant"),
    # Written into the statement, so that the index of active versions serves it.
    _P.status == sa.literal(PolicyStatus.ACTIVE.value, literal_execute=True),
)


async def _change(connection: AsyncConnection, tenant: str, version: str, **values: object) -> None:
    await connection.execute(
        sa.update(policies).where(_P.tenant == tenant, _P.version == version).values(**values)
    )


def _stored(row: sa.Row[Any], *, document: str) -> StoredPolicy:
    return StoredPolicy(
        version=row.version,
        status=PolicyStatus(row.status),
        note=row.note,
        document=document,
        digest=row.digest,
        created_at=row.created_at,
        created_by=row.created_by,
        activated_at=row.activated_at,
        activated_by=row.activated_by,
        retired_at=row.retired_at,
    )
