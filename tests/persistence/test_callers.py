"""Tokens and the audit trail as rows, on both databases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from tests.databases import rows_of
from vramgate.persistence import audit, callers
from vramgate.persistence.callers import StoredToken
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import audit as audit_table

NOW = datetime(2026, 11, 29, 12, 0, 0, 123456, tzinfo=UTC)


def a_row(number: int = 1, **overrides: Any) -> StoredToken:  # noqa: ANN401 whatever a row holds
    given: dict[str, Any] = {
        "token_id": f"id-{number}",
        "tenant": "team-a",
        "name": "trainer",
        "scopes": ("read", "report"),
        "secret_hash": f"sha256:{number}",
        "created_at": NOW,
        "expires_at": NOW + timedelta(days=90),
        "revoked_at": None,
    }
    return StoredToken(**{**given, **overrides})


async def _add(database: Database, *rows: StoredToken) -> None:
    async with database.writing() as connection:
        for row in rows:
            await callers.add_token(connection, row)


async def test_a_token_is_read_as_it_was_stored(database: Database) -> None:
    row = a_row()
    await _add(database, row)
    async with database.reading() as connection:
        assert await callers.token_of_id(connection, row.token_id) == row
        assert await callers.token_of_id(connection, "nobody") is None


async def test_one_name_has_any_number_of_tokens_but_an_id_is_unique(database: Database) -> None:
    await _add(database, a_row(), a_row(2))
    with pytest.raises(IntegrityError):
        await _add(database, a_row(name="another"))


async def test_tokens_are_listed_for_one_tenant_or_all(database: Database) -> None:
    rows = [
        a_row(3, tenant="team-b"),
        a_row(2, created_at=NOW + timedelta(hours=1)),
        a_row(1),
    ]
    await _add(database, *rows)
    async with database.reading() as connection:
        own = await callers.tokens_of(connection, tenant="team-a")
        everybody = await callers.tokens_of(connection, tenant=None)
    assert [one.token_id for one in own] == ["id-1", "id-2"]
    assert [one.token_id for one in everybody] == ["id-1", "id-2", "id-3"]


async def test_the_first_revocation_is_the_one_that_counts(database: Database) -> None:
    await _add(database, a_row())
    later = NOW + timedelta(hours=1)
    async with database.writing() as connection:
        first = await callers.revoke_token(connection, a_row().token_id, at=NOW)
        second = await callers.revoke_token(connection, a_row().token_id, at=later)
        unknown = await callers.revoke_token(connection, "nobody", at=NOW)
        stored = await callers.token_of_id(connection, a_row().token_id)
    assert (first, second, unknown) == (True, False, False)
    assert stored is not None
    assert stored.revoked_at == NOW


async def test_a_hash_is_replaced_only_where_it_is_still_the_old_one(database: Database) -> None:
    await _add(database, a_row())
    async with database.writing() as connection:
        await callers.replace_hash(connection, a_row().token_id, old="sha256:1", new="first")
        await callers.replace_hash(connection, a_row().token_id, old="sha256:1", new="second")
        stored = await callers.token_of_id(connection, a_row().token_id)
    expected = replace(a_row(), secret_hash="first")  # noqa: S106 no real one
    assert stored == expected


def test_a_token_is_valid_until_it_expires_or_is_revoked() -> None:
    assert a_row(expires_at=None).is_valid(NOW)
    assert a_row(expires_at=NOW + timedelta(seconds=1)).is_valid(NOW)
    assert not a_row(expires_at=NOW).is_valid(NOW)
    assert not a_row(revoked_at=NOW).is_valid(NOW)


async def test_the_trail_is_read_newest_first_page_by_page_and_by_tenant(
    database: Database,
) -> None:
    async with database.writing() as connection:
        for tenant, subject in [("a", "1"), ("b", "other"), ("a", "2"), ("a", "3")]:
            await audit.append(
                connection, tenant=tenant, actor="admin", action="test", subject=subject
            )
    async with database.reading() as connection:
        first = await audit.entries_of(connection, tenant="a", before=None, limit=2)
        rest = await audit.entries_of(connection, tenant="a", before=first[-1].audit_id, limit=2)
    assert [one.subject for one in first] == ["3", "2"]
    assert [one.subject for one in rest] == ["1"]


async def test_an_entry_keeps_its_detail_and_its_moment(database: Database) -> None:
    before = datetime.now(UTC)
    detail = {"scopes": ["read"], "reason": "größer", "count": 2**40}
    async with database.writing() as connection:
        audit_id = await audit.append(
            connection, tenant="a", actor="me", action="test.act", subject="s", detail=detail
        )
    async with database.reading() as connection:
        (entry,) = await audit.entries_of(connection, tenant="a", before=None, limit=10)
    assert (entry.audit_id, entry.detail) == (audit_id, detail)
    assert before <= entry.at <= datetime.now(UTC)


async def test_an_act_that_fails_leaves_no_entry(database: Database) -> None:
    async def act() -> None:
        async with database.writing() as connection:
            await audit.append(connection, tenant="a", actor="me", action="test", subject="s")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await act()
    assert await rows_of(database, audit_table) == []
