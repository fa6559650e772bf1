"""How often tokens are read from the database, whatever callers send."""

import asyncio
import time
from collections.abc import Iterable, Iterator

import pytest
import sqlalchemy as sa

from tests.clocks import Clock
from tests.hanging import hanging_database
from tests.services import a_token
from vramgate.authentication.token_lookup import (
    FRESH_SECONDS,
    KNOWN_WAIT_SECONDS,
    MAX_MISSING,
    PAUSE_SECONDS,
    READ_SECONDS,
    UNKNOWN_READS_AT_ONCE,
    TokenLookup,
    TooManyAttemptsError,
    _Entry,
)
from vramgate.persistence import callers
from vramgate.persistence.callers import StoredToken
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


async def _lookup_that_found(database: Database, clock: Clock) -> tuple[TokenLookup, StoredToken]:
    """Return a look-up that has read a token from the database, some seconds ago."""
    issued = await a_token(database, lifetime=None)
    lookup = TokenLookup(database, clock=clock)
    assert await lookup.token_of_id(issued.stored.token_id) == issued.stored
    clock.now += FRESH_SECONDS
    return lookup, issued.stored


async def test_a_token_that_was_found_is_taken_for_an_hour_while_the_database_is_away(
    database: Database,
) -> None:
    clock = Clock()
    lookup, stored = await _lookup_that_found(database, clock)
    away = Database("postgresql://nobody@127.0.0.1:1/nothing")
    lookup._database = away
    assert await lookup.token_of_id(stored.token_id) == stored
    clock.now = 3599.0
    assert await lookup.token_of_id(stored.token_id) == stored
    clock.now = 3600.0
    with pytest.raises(DatabaseUnavailableError):
        await lookup.token_of_id(stored.token_id)
    with pytest.raises(DatabaseUnavailableError):
        await lookup.token_of_id("nobody")
    await away.close()


async def test_a_read_that_hangs_holds_a_known_token_up_for_a_moment_and_once(
    database: Database,
) -> None:
    clock = Clock()
    lookup, stored = await _lookup_that_found(database, clock)
    lookup._clock = time.monotonic
    lookup._found[stored.token_id] = _Entry(stored, time.monotonic() - FRESH_SECONDS)
    async with hanging_database() as hanging:
        lookup._database = away = Database(hanging.url)
        began = time.monotonic()
        first = [lookup.token_of_id(stored.token_id) for _ in range(20)]
        assert set(await asyncio.gather(*first)) == {stored}
        held = time.monotonic() - began
        # Who comes later does not wait again for the same read.
        assert await lookup.token_of_id(stored.token_id) == stored
        later = time.monotonic() - began - held
        await asyncio.sleep(READ_SECONDS - held)
        # The read was given up by now, and the next one is not begun at once.
        assert await lookup.token_of_id(stored.token_id) == stored
        assert hanging.connections == 1
        await away.close()
    assert held == pytest.approx(KNOWN_WAIT_SECONDS, abs=0.15)
    assert later < 0.1


async def test_a_read_that_hangs_is_given_up_for_an_unknown_token_too() -> None:
    async with hanging_database() as hanging:
        away = Database(hanging.url)
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailableError):
            await TokenLookup(away).token_of_id("nobody")
        assert time.monotonic() - began == pytest.approx(READ_SECONDS, abs=0.5)
        await away.close()


async def test_while_the_database_is_away_it_is_asked_once_a_second(database: Database) -> None:
    clock = Clock()
    lookup, stored = await _lookup_that_found(database, clock)
    away = Database("postgresql://nobody@127.0.0.1:1/nothing")
    tries: list[object] = []
    sa.event.listen(away.engine.sync_engine, "do_connect", lambda *_given: tries.append(_given))
    lookup._database = away
    for _ in range(50):
        assert await lookup.token_of_id(stored.token_id) == stored
    assert len(tries) == 1
    clock.now += 1
    await lookup.token_of_id(stored.token_id)
    assert len(tries) == 2
    await away.close()


async def test_once_the_database_answers_again_a_revocation_is_seen(database: Database) -> None:
    clock = Clock()
    lookup, stored = await _lookup_that_found(database, clock)
    away = Database("postgresql://nobody@127.0.0.1:1/nothing")
    lookup._database = away
    assert await lookup.token_of_id(stored.token_id) == stored
    await away.close()
    lookup._database = database
    async with database.writing() as connection:
        await callers.revoke_token(connection, stored.token_id, at=stored.created_at)
    clock.now += PAUSE_SECONDS
    found = await lookup.token_of_id(stored.token_id)
    assert found is not None
    assert found.revoked_at is not None


async def test_an_expired_or_revoked_token_stays_what_it_was_while_the_database_is_away(
    database: Database,
) -> None:
    clock = Clock()
    lookup, stored = await _lookup_that_found(database, clock)
    async with database.writing() as connection:
        await callers.revoke_token(connection, stored.token_id, at=stored.created_at)
    await lookup.token_of_id(stored.token_id)
    clock.now += FRESH_SECONDS
    away = Database("postgresql://nobody@127.0.0.1:1/nothing")
    lookup._database = away
    found = await lookup.token_of_id(stored.token_id)
    assert found is not None
    assert found.revoked_at is not None
    await away.close()
