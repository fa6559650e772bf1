"""The audit trail: who did which administrative act, on what. Rows are added, never changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.identifiers import time_ordered_id
from vramgate.persistence.tables import audit


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One administrative act."""

    audit_id: str
    at: datetime
    tenant: str
    actor: str
    """The name of the caller, or of the user of the command line."""
    action: str
    """As ``token.create``, ``report.release``, ``purge``."""
    subject: str
    """What it was done to: an id."""
    detail: Mapping[str, Any]


async def append(
    connection: AsyncConnection,
    *,
    tenant: str,
    actor: str,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
) -> str:
    """Add an entry in the caller's transaction, so that act and entry stand or fall together.

    Returns its id. ``detail`` must be JSON, and holds no secret.
    """
    row = entry_row(tenant=tenant, actor=actor, action=action, subject=subject, detail=detail)
    await connection.execute(sa.insert(audit).values(row))
    return str(row["audit_id"])


def entry_row(
    *, tenant: str, actor: str, action: str, subject: str, detail: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the row of a new entry, for a statement that writes more than that."""
    return {
        "audit_id": time_ordered_id(),
        "at": datetime.now(UTC),
        "tenant": tenant,
        "actor": actor,
        "action": action,
        "subject": subject,
        "detail": json.dumps(dict(detail or {}), ensure_ascii=False, allow_nan=False),
    }


async def entries_of(
    connection: AsyncConnection, *, tenant: str, before: str | None, limit: int
) -> list[AuditEntry]:
    """Return a tenant's entries, newest first, starting after the one with the id ``before``."""
    query = sa.select(audit).where(audit.c.tenant == tenant)
    if before is not None:
        query = query.where(audit.c.audit_id < before)
    rows = await connection.execute(query.order_by(audit.c.audit_id.desc()).limit(limit))
    return [_entry(row) for row in rows]


def _entry(row: sa.Row[Any]) -> AuditEntry:
    return AuditEntry(
        audit_id=row.audit_id,
        at=row.at,
        tenant=row.tenant,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        detail=json.loads(row.detail),
    )
