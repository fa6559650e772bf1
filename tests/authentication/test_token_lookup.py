"""How often tokens are read from the database, whatever callers send."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
import sqlalchemy as sa

from tests.clocks import Clock
from tests.services import a_token
from vramgate.authentication.token_lookup import (
    FRESH_SECONDS,
    MAX_MISSING,
    UNKNOWN_READS_AT_ONCE,
    TokenLookup,
    TooManyAttemptsError,
)
from vramgate.persistence import callers
from vramgate.persistence.engine import Database, DatabaseUnavailableError


@pytest.fixture
def reads(database: Database) -> Iterator[list[str]]:
    """Return the reads of tokens that reach the database, as they happen."""
    seen: list[str] = []

    def listen(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        if statement.startswith("SELECT tokens"):
            seen.append(statement)

    sa.event.listen(database.engine.sync_engine, "before_cursor_execute", listen)
    yield seen
    sa.event.remove(database.engine.sync_engine, "before_cursor_execute", listen)


async def test_a_token_in_use_is_read_once_in_a_few_seconds(
    database: Database, reads: list[str]
) -> None:
    clock = Clock()
    lookup = TokenLookup(database, clock=clock)
    issued = await a_token(database)
    for _ in range(100):
        assert await lookup.token_of_id(issued.stored.token_id) == issued.stored
    assert len(reads) == 1
    clock.now += FRESH_SECONDS
    await lookup.token_of_id(issued.stored.token_id)
    assert len(reads) == 2


async def test_a_revocation_is_seen_when_the_row_is_read_again(database: Database) -> None:
    clock = Clock()
    lookup = TokenLookup(database, clock=clock)
    issued = await a_token(database)
    await lookup.token_of_id(issued.stored.token_id)
    async with database.writing() as connection:
        await callers.revoke_token(connection, issued.stored.token_id, at=issued.stored.created_at)
    # Promised: within 5 seconds.
    assert FRESH_SECONDS <= 5
    clock.now += FRESH_SECONDS
    found = await lookup.token_of_id(issued.stored.token_id)
    assert found is not None
    assert found.revoked_at is not None


async def test_requests_at_once_share_one_read(database: Database, reads: list[str]) -> None:
    lookup = TokenLookup(database)
    issued = await a_token(database)
    asked = [lookup.token_of_id(issued.stored.token_id) for _ in range(50)]
    assert set(await asyncio.gather(*asked)) == {issued.stored}
    assert len(reads) == 1


async def test_a_caller_that_goes_away_does_not_take_the_answer_along(database: Database) -> None:
    lookup = TokenLookup(database)
    issued = await a_token(database)
    first = asyncio.create_task(lookup.token_of_id(issued.stored.token_id))
    second = asyncio.create_task(lookup.token_of_id(issued.stored.token_id))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == issued.stored


async def test_one_unknown_token_is_looked_up_once_however_often_it_is_shown(
    database: Database, reads: list[str]
) -> None:
    lookup = TokenLookup(database, clock=Clock())
    assert {await lookup.token_of_id("nobody") for _ in range(5000)} == {None}
    assert len(reads) == 1


async def _refused_of(lookup: TokenLookup, names: Iterable[str]) -> int:
    refused = 0
    for name in names:
        try:
            await lookup.token_of_id(name)
        except TooManyAttemptsError:
            refused += 1
    return refused


async def test_many_unknown_tokens_are_looked_up_so_often_only(
    database: Database, reads: list[str]
) -> None:
    clock = Clock()
    lookup = TokenLookup(database, clock=clock)
    assert await _refused_of(lookup, (f"nobody{n}" for n in range(1000))) == 600
    assert len(reads) == UNKNOWN_READS_AT_ONCE == 400
    clock.now += 0.5
    # 200 a second.
    assert await _refused_of(lookup, (f"others{n}" for n in range(1000))) == 900


async def test_a_token_in_use_is_read_again_whatever_else_is_shown(database: Database) -> None:
    clock = Clock()
    lookup = TokenLookup(database, clock=clock)
    issued = await a_token(database)
    await lookup.token_of_id(issued.stored.token_id)
    clock.now += FRESH_SECONDS
    assert await _refused_of(lookup, (f"nobody{n}" for n in range(500))) == 100
    assert await lookup.token_of_id(issued.stored.token_id) == issued.stored


async def test_what_is_remembered_of_unknown_tokens_is_bounded(database: Database) -> None:
    clock = Clock()
    lookup = TokenLookup(database, clock=clock)
    for number in range(MAX_MISSING + 50):
        clock.now += 0.01
        await lookup.token_of_id(f"nobody{number}")
    assert len(lookup._missing) == MAX_MISSING


async def test_a_token_made_after_it_was_refused_is_found(database: Database) -> None:
    clock = Clock()
    lookup = TokenLookup(database, clock=clock)
    issued = await a_token(database)
    async with database.writing() as connection:
        await connection.execute(sa.text("DELETE FROM tokens"))
    assert await lookup.token_of_id(issued.stored.token_id) is None
    async with database.writing() as connection:
        await callers.add_token(connection, issued.stored)
    clock.now += FRESH_SECONDS
    assert await lookup.token_of_id(issued.stored.token_id) == issued.stored


async def test_a_database_that_is_away_is_no_unknown_token() -> None:
    lookup = TokenLookup(Database("postgresql://nobody@127.0.0.1:1/nothing"))
    with pytest.raises(DatabaseUnavailableError):
        await lookup.token_of_id("nobody")
    assert not lookup._missing
