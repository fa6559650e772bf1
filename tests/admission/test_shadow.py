"""The shadow report's arithmetic: weeks, tallies, intervals."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramgate.admission.decision import Mode, Verdict
from vramgate.admission.shadow import (
    Counted,
    Fate,
    Share,
    mondays_between,
    shadow_report,
    wilson_interval,
)

MONDAY = date(2026, 11, 23)
NEXT = date(2026, 11, 30)


def _alike(count: int, **overrides: Any) -> Counted:  # noqa: ANN401 whatever it has
    given = {
        "monday": MONDAY,
        "mode": Mode.SHADOW,
        "verdict": Verdict.ALLOW,
        "is_refused": False,
        "fate": Fate.UNKNOWN,
        "count": count,
    }
    return Counted(**{**given, **overrides})


# ---------------------------------------------------------------- intervals


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        # Newcombe 1998, "Two-sided confidence intervals for the single proportion", Statistics in
        # Medicine 17, table I, method 3 (score).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_intervals_are_those_of_the_literature(
    count: int, of: int, low: float, high: float
) -> None:
    assert list(wilson_interval(count, of)) == pytest.approx([low, high], abs=5e-5)


def test_where_none_or_all_were_seen_one_end_is_exact() -> None:
    # z² / (n + z²) with z² = 3.841459 (the 95 % quantile of chi-square with one degree of freedom).
    edge = 3.841459 / (10 + 3.841459)
    none, every = wilson_interval(0, 10), wilson_interval(10, 10)
    assert (none[0], every[1]) == (0.0, 1.0)
    assert [none[1], every[0]] == pytest.approx([edge, 1 - edge], abs=1e-6)


def test_of_nothing_seen_everything_is_possible() -> None:
    nothing = Share(count=0, of=0)
    assert (nothing.fraction, nothing.low, nothing.high) == (None, 0.0, 1.0)


@given(st.integers(1, 10**9).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_holds_what_was_seen_and_mirrors_what_was_not(seen: tuple[int, int]) -> None:
    count, of = seen
    low, high = wilson_interval(count, of)
    assert 0 <= low <= count / of <= high <= 1
    mirrored = wilson_interval(of - count, of)
    assert list(mirrored) == pytest.approx([1 - high, 1 - low], abs=1e-9)


# ---------------------------------------------------------------- weeks


def test_weeks_are_whole_and_hold_every_moment_asked_for() -> None:
    week = timedelta(weeks=1)
    begin = datetime(2026, 11, 23, tzinfo=UTC)
    assert mondays_between(begin, begin + week) == (MONDAY,)
    assert mondays_between(begin + timedelta(days=6), begin + week) == (MONDAY,)
    assert mondays_between(begin, begin + week + timedelta(microseconds=1)) == (MONDAY, NEXT)
    before = begin - timedelta(microseconds=1)
    assert mondays_between(before, begin) == (date(2026, 11, 16),)


def test_a_week_has_the_name_that_iso_8601_gives_it() -> None:
    # ISO 8601: week 1 holds the year's first Thursday. 1 January 2027 is a Friday; 2026 begins on a
    # Thursday, so it has 53 weeks.
    names = {date(2026, 12, 28): "2026-W53", date(2027, 1, 4): "2027-W01", NEXT: "2026-W49"}
    for monday, name in names.items():
        (week,) = shadow_report([monday], []).weeks
        assert week.week == name
        assert week.until - week.since == timedelta(days=7)


# ---------------------------------------------------------------- figures


def test_each_decision_counts_once_under_its_verdict_and_its_end() -> None:
    report = shadow_report(
        [MONDAY, NEXT],
        [
            _alike(5, verdict=Verdict.DENY, fate=Fate.RAN),
            _alike(15, verdict=Verdict.DENY, fate=Fate.RAN_OUT_OF_MEMORY),
            _alike(7, verdict=Verdict.DENY, mode=Mode.ENFORCE, is_refused=True),
            _alike(1, verdict=Verdict.WARN, fate=Fate.RAN),
            _alike(2, verdict=Verdict.WARN, fate=Fate.RAN_OUT_OF_MEMORY, mode=Mode.WARN),
            _alike(90, fate=Fate.RAN),
            _alike(10, fate=Fate.RAN_OUT_OF_MEMORY),
            _alike(30, monday=NEXT, fate=Fate.RAN),
            _alike(4, monday=NEXT, verdict=Verdict.UNCHECKED, fate=Fate.RAN_OUT_OF_MEMORY),
            _alike(3, monday=NEXT),
        ],
    )
    first, second = report.weeks
    assert (first.decisions, second.decisions, report.total.decisions) == (130, 37, 167)
    assert first.by_mode == {Mode.OFF: 0, Mode.SHADOW: 121, Mode.WARN: 2, Mode.ENFORCE: 7}
    assert (first.refused, second.refused) == (7, 0)
    denied = first.would_deny
    assert (denied.count, denied.ran, denied.ran_out_of_memory, denied.unknown) == (27, 5, 15, 7)
    assert first.false_denials == Share(count=5, of=20)
    assert first.missed_ooms == Share(count=10, of=100)
    assert first.warned_ooms == Share(count=2, of=3)
    assert second.missed_ooms == Share(count=0, of=30)
    assert second.unchecked.count == 4
    assert report.total.missed_ooms == Share(count=10, of=130)
    assert report.total.reported == Share(count=123 + 34, of=167)
    assert (report.total.since, report.total.until) == (first.since, second.until)


def test_a_week_without_decisions_is_there() -> None:
    report = shadow_report([MONDAY, NEXT], [_alike(1, monday=NEXT)])
    assert [week.decisions for week in report.weeks] == [0, 1]
    assert report.weeks[0].false_denials.fraction is None


def test_notes_say_what_the_intervals_rest_on() -> None:
    counted = [_alike(1500, fate=Fate.RAN), _alike(500)]
    (note,) = shadow_report([MONDAY], counted).notes
    assert "Wilson" in note
    assert "95%" in note
    assert "1,500 of 2,000 decisions" in note
    refused = _alike(3, verdict=Verdict.DENY, mode=Mode.ENFORCE, is_refused=True)
    _, other = shadow_report([MONDAY], [*counted, refused]).notes
    assert "refused (mode enforce): 3." in other
