"""The keys that report tokens are signed with, however many replicas start, whatever is away."""

import asyncio
import base64
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.databases import Databases, rows_of
from vramgate.authentication import signing_keys as module
from vramgate.authentication.secret_keys import SecretKeys
from vramgate.authentication.signing_keys import SigningKeys
from vramgate.persistence.engine import Database
from vramgate.persistence.migrate import migrate
from vramgate.persistence.tables import signing_keys

UNREACHABLE = "postgresql://nobody@127.0.0.1:1/nothing"


async def test_the_first_start_makes_a_key_and_every_later_one_finds_it(
    database: Database,
) -> None:
    first, later = SigningKeys(SecretKeys(None)), SigningKeys(SecretKeys(None))
    assert first.current() == ()
    async with first.reading(database):
        (key,) = first.current()
    async with later.reading(database):
        assert later.current() == (key,)
    # As long as the digest that it is used with (RFC 2104, 3).
    assert len(key.key) == 32
    (row,) = await rows_of(database, signing_keys)
    assert bytes(row["key"]) == key.key
    assert str(key.key) not in repr(key)


async def test_replicas_that_start_at_once_agree(database_url: str, database: Database) -> None:
    replicas = [(SigningKeys(SecretKeys(None)), Database(database_url)) for _ in range(8)]

    async def started(keys: SigningKeys, own: Database) -> bytes:
        async with keys.reading(own):
            (key,) = keys.current()
        await own.close()
        return key.key

    assert len(set(await asyncio.gather(*(started(*one) for one in replicas)))) == 1
    assert len(await rows_of(database, signing_keys)) == 1


async def test_the_site_s_own_keys_come_first_and_none_is_made(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    file.write_text("\n".join(f"{n}:{base64.b64encode(n.encode() * 32).decode()}" for n in "ab"))
    keys = SigningKeys(SecretKeys(file))
    async with keys.reading(database):
        assert [one.key_id for one in keys.current()] == ["a", "b"]
    assert await rows_of(database, signing_keys) == []


async def test_nothing_is_read_for_a_request(database: Database) -> None:
    statements: list[str] = []

    def listen(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    keys = SigningKeys(SecretKeys(None))
    async with keys.reading(database):
        sa.event.listen(database.engine.sync_engine, "before_cursor_execute", listen)
        assert all(keys.current() for _ in range(1000))
    assert statements == []


async def test_a_start_does_not_wait_for_a_database_that_is_away() -> None:
    keys = SigningKeys(SecretKeys(None))
    database = Database(UNREACHABLE)
    began = asyncio.get_running_loop().time()
    async with keys.reading(database):
        assert keys.current() == ()
    # Started and ended; ready within 2 seconds is promised.
    assert asyncio.get_running_loop().time() - began < 2
    await database.close()


async def test_the_key_comes_with_the_database(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.1)
    address = databases.empty()
    database = Database(address)
    keys = SigningKeys(SecretKeys(None))
    async with keys.reading(database):
        assert keys.current() == ()
        await asyncio.to_thread(migrate, address)
        for _ in range(200):
            if not keys.current():
                await asyncio.sleep(0.05)
        assert keys.current()
    await database.close()
