"""One slow write is no outage; nothing but slow writes, or a failed one, is."""

from tests.clocks import Clock
from vramgate.workflows.database_outage import SLOW_SECONDS, Outage


def test_a_failed_write_begins_it_and_a_working_one_ends_it() -> None:
    outage = Outage(clock=Clock())
    outage.begin("refused")
    assert outage.is_on
    outage.end()
    assert not outage.is_on


def test_a_burst_of_overruns_at_one_moment_is_none() -> None:
    outage = Outage(clock=Clock())
    for _ in range(100):
        outage.add_overrun()
    assert not outage.is_on


def test_overruns_without_a_commit_between_them_are_one() -> None:
    clock = Clock()
    outage = Outage(clock=clock)
    outage.add_overrun()
    clock.now += SLOW_SECONDS
    outage.add_overrun()
    assert outage.is_on


def test_a_commit_between_overruns_tells_that_the_database_works() -> None:
    clock = Clock()
    outage = Outage(clock=clock)
    for _ in range(10):
        outage.add_overrun()
        clock.now += SLOW_SECONDS
        outage.add_commit()
    assert not outage.is_on


def test_what_was_slow_before_it_does_not_begin_the_next() -> None:
    clock = Clock()
    outage = Outage(clock=clock)
    outage.add_overrun()
    outage.begin("refused")
    outage.end()
    clock.now += SLOW_SECONDS
    outage.add_overrun()
    assert not outage.is_on
