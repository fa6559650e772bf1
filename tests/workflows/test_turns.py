"""Pieces of work take turns, and nobody waits for one that it cannot wait for."""

import asyncio

import pytest

from vramgate.workflows.turns import FIRST_GUESS_SECONDS, Turns


async def test_one_at_a_time_in_the_order_they_came() -> None:
    turns = Turns()
    inside, order = 0, []

    async def work(number: int) -> None:
        nonlocal inside
        async with turns.one(within_seconds=10):
            inside += 1
            assert inside == 1
            order.append(number)
            inside -= 1

    await asyncio.gather(*(work(number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_who_would_wait_too_long_is_told_at_once() -> None:
    turns, go = Turns(), asyncio.Event()

    async def work() -> None:
        async with turns.one(within_seconds=10):
            await go.wait()

    waiting = [asyncio.create_task(work()) for _ in range(100)]
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with turns.one(within_seconds=99 * FIRST_GUESS_SECONDS):
            pytest.fail("it had the turn")
    go.set()
    await asyncio.gather(*waiting)
    async with turns.one(within_seconds=0):
        pass


async def test_work_that_fails_gives_the_turn_back() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError):
        async with turns.one(within_seconds=1):
            raise ZeroDivisionError
    async with turns.one(within_seconds=0):
        pass


async def test_how_long_work_takes_is_learned() -> None:
    moments = iter(range(0, 4000, 2))
    turns, go = Turns(clock=lambda: float(next(moments))), asyncio.Event()
    for _ in range(100):
        async with turns.one(within_seconds=10):
            pass

    async def work() -> None:
        async with turns.one(within_seconds=10):
            await go.wait()

    holder = asyncio.create_task(work())
    await asyncio.sleep(0)
    # Every piece took two seconds of this clock.
    with pytest.raises(TimeoutError):
        async with turns.one(within_seconds=1.9):
            pytest.fail("it had the turn")
    go.set()
    await holder
