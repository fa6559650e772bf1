"""What decisions were about, several at once."""

from collections.abc import Collection
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.persistence.decision_documents import SUBJECTS, document_of_decision
from vramgate.persistence.tables import decision_keys, decisions


async def subjects_of(
    connection: AsyncConnection, *, tenant: str, decision_ids: Collection[str]
) -> dict[str, str]:
    """Return the documents of what a tenant's decisions were about; unknown ones are left out."""
    given = {"tenant": tenant, "decision_ids": sorted(decision_ids)}
    return {row.decision_id: row.document for row in await connection.execute(_subjects(), given)}


@cache
def _subjects() -> sa.Select[Any]:
    keys = decision_keys.c
    is_there = sa.and_(
        decisions.c.decided_at == keys.decided_at,
        decisions.c.decision_id == keys.decision_id,
        decisions.c.tenant == keys.tenant,
    )
    return (
        sa.select(keys.decision_id, document_of_decision(SUBJECTS).label("document"))
        .select_from(decision_keys)
        .join(decisions, is_there)
        .where(
            keys.tenant == sa.bindparam("tenant"),
            keys.decision_id.in_(sa.bindparam("decision_ids", expanding=True)),
        )
    )
