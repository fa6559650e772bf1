"""Many writers, one commit: what is acknowledged is stored, and each gets its own answer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.databases import Databases
from vramgate.persistence.engine import Database, DatabaseUnavailableError
from vramgate.persistence.group_commit import GroupCommit, OverloadedError, StoppingError

TABLE = sa.Table("numbers", sa.MetaData(), sa.Column("n", sa.Integer, primary_key=True))

Numbers = GroupCommit[int, str]


class Groups:
    """Writes numbers into a table and remembers which came together."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    async def write(self, connection: AsyncConnection, items: Sequence[int]) -> list[str]:
        self.seen.append(list(items))
        await connection.execute(sa.insert(TABLE), [{"n": n} for n in items])
        return [f"wrote {n}" for n in items]


@asynccontextmanager
async def writer(
    database: Database,
    groups: Groups,
    *,
    most_rows: int = 100,
    most_waiting: int = 10_000,
    most_seconds: float | None = None,
) -> AsyncIterator[Numbers]:
    async with database.writing() as connection:
        await connection.run_sync(TABLE.metadata.create_all)
    numbers = Numbers(
        database,
        groups.write,
        write_alone=groups.write,
        most_rows=most_rows,
        most_waiting_rows=most_waiting,
        most_seconds=most_seconds,
    )
    task = asyncio.create_task(numbers.run())
    try:
        yield numbers
    finally:
        numbers.close()
        await task


async def stored(database: Database) -> list[int]:
    async with database.reading() as connection:
        return list((await connection.execute(sa.select(TABLE.c.n).order_by(TABLE.c.n))).scalars())


async def test_what_waits_while_a_commit_is_under_way_goes_into_the_next_one(
    database: Database,
) -> None:
    groups = Groups()
    async with writer(database, groups) as numbers:
        answers = await asyncio.gather(*[numbers.submit(n) for n in range(50)])
    assert answers == [f"wrote {n}" for n in range(50)]
    assert await stored(database) == list(range(50))
    # All were waiting before the writer first ran.
    assert [len(group) for group in groups.seen] == [50]


async def test_a_commit_takes_only_so_many_rows(database: Database) -> None:
    groups = Groups()
    async with writer(database, groups, most_rows=10) as numbers:
        await asyncio.gather(*[numbers.submit(n, rows=4) for n in range(5)])
        await numbers.submit(5, rows=1_000)
    assert [len(group) for group in groups.seen] == [2, 2, 1, 1]


async def test_one_that_cannot_be_written_fails_alone(database: Database) -> None:
    groups = Groups()
    async with writer(database, groups) as numbers:
        await numbers.submit(3)
        found = await asyncio.gather(*[numbers.submit(n) for n in range(6)], return_exceptions=True)
    assert [one if isinstance(one, str) else type(one).__name__ for one in found] == [
        "wrote 0", "wrote 1", "wrote 2", "IntegrityError", "wrote 4", "wrote 5",
    ]  # fmt: skip
    assert await stored(database) == [0, 1, 2, 3, 4, 5]


async def test_a_caller_that_left_takes_nobody_along(database: Database) -> None:
    groups = Groups()
    async with writer(database, groups) as numbers:
        gone = asyncio.create_task(numbers.submit(1))
        stays = asyncio.create_task(numbers.submit(2))
        await asyncio.sleep(0)
        gone.cancel()
        assert await stays == "wrote 2"
        assert await numbers.submit(3) == "wrote 3"
    assert {2, 3} <= set(await stored(database))


async def test_what_nobody_waits_for_any_more_is_not_written(database: Database) -> None:
    groups = Groups()
    async with writer(database, groups, most_waiting=3) as numbers:
        gone = [asyncio.create_task(numbers.submit(n)) for n in range(3)]
        await asyncio.sleep(0)
        for one in gone:
            one.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        assert await numbers.submit(7, rows=3) == "wrote 7"
    # The first three may have been under way already.
    assert groups.seen[-1] == [7]
    assert sum(len(group) for group in groups.seen) in {1, 4}


async def test_a_transaction_that_hangs_is_given_up_and_the_next_one_works(
    postgres: Databases,
) -> None:
    url = postgres.fresh()
    database, other = Database(url), Database(url)
    groups = Groups()
    async with writer(database, groups, most_seconds=0.3) as numbers:
        async with other.writing() as connection:
            await connection.exec_driver_sql("LOCK TABLE numbers")
            with pytest.raises(DatabaseUnavailableError, match=r"within 0\.3 s"):
                await numbers.submit(1)
        assert await numbers.submit(2) == "wrote 2"
    assert await stored(database) == [2]
    await database.close()
    await other.close()


async def test_beyond_what_may_wait_new_ones_are_refused(database: Database) -> None:
    groups = Groups()
    async with writer(database, groups, most_waiting=3) as numbers:
        found = await asyncio.gather(*[numbers.submit(n) for n in range(5)], return_exceptions=True)
        assert [type(one) for one in found[3:]] == [OverloadedError, OverloadedError]
        assert found[:3] == ["wrote 0", "wrote 1", "wrote 2"]
        # One that is larger than everything that may wait is taken where nothing waits.
        assert await numbers.submit(7, rows=99) == "wrote 7"


async def test_closing_writes_what_was_taken_and_takes_nothing_more(database: Database) -> None:
    groups = Groups()
    async with writer(database, groups) as numbers:
        taken = [asyncio.create_task(numbers.submit(n)) for n in range(5)]
        await asyncio.sleep(0)
    assert [await one for one in taken] == [f"wrote {n}" for n in range(5)]
    with pytest.raises(StoppingError):
        await numbers.submit(9)
    assert await stored(database) == [0, 1, 2, 3, 4]


async def test_while_the_database_is_away_nothing_is_acknowledged() -> None:
    away = Database("postgresql://nobody@127.0.0.1:9/none")
    groups = Groups()
    numbers = Numbers(
        away, groups.write, write_alone=groups.write, most_rows=9, most_waiting_rows=9
    )
    task = asyncio.create_task(numbers.run())
    with pytest.raises(DatabaseUnavailableError):
        await numbers.submit(1)
    numbers.close()
    await task
    await away.close()
    assert groups.seen == []
