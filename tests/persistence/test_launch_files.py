"""Files that launches name: kept by their digest, of one tenant, for a time."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from vramgate.persistence import launch_files as rows
from vramgate.persistence.engine import Database
from vramgate.workflows import launch_files
from vramgate.workflows.storage import look_after

TEXT = '{"zero_optimization": {"stage": 3}}'
DIGEST = "b4d4d4b7b7a0cb5c0a6b8d1f1f8b3cfa9b2b39c3a7d5a8f8a9d5d8c1b2a3f4e5"


async def _keep(database: Database, now: datetime, tenant: str = "team-a") -> None:
    async with database.writing() as connection:
        await rows.keep(connection, tenant, DIGEST, TEXT, now)


async def _texts(database: Database, tenant: str = "team-a") -> dict[str, str]:
    async with database.reading() as connection:
        return await rows.texts_of(connection, tenant, [DIGEST, "0" * 64])


async def test_a_file_is_found_by_its_digest_in_its_own_tenant(database: Database) -> None:
    await _keep(database, datetime.now(UTC))
    assert await _texts(database) == {DIGEST: TEXT}
    assert await _texts(database, "team-b") == {}


async def test_a_file_leaves_when_nobody_sends_it_any_more(database: Database) -> None:
    long_ago = datetime.now(UTC) - launch_files.KEPT_FOR - timedelta(hours=1)
    await _keep(database, long_ago)
    await look_after(database)
    assert await _texts(database) == {}


async def test_sending_it_again_keeps_it(database: Database) -> None:
    long_ago = datetime.now(UTC) - launch_files.KEPT_FOR - timedelta(hours=1)
    await _keep(database, long_ago)
    await _keep(database, datetime.now(UTC))
    await look_after(database)
    assert await _texts(database) == {DIGEST: TEXT}


async def test_a_tenant_s_files_are_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_files, "MOST_BYTES", len(TEXT) + 3)
    await _keep(database, datetime.now(UTC))
    body = b"more"
    with pytest.raises(launch_files.FilesFullError, match=f"{len(TEXT)} of {len(TEXT) + 3} bytes"):
        await launch_files.put_file(database, "team-a", hashlib.sha256(body).hexdigest(), body)
    assert (
        await launch_files.put_file(database, "team-b", hashlib.sha256(body).hexdigest(), body)
    ).is_new
