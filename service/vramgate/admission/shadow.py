"""The shadow report: what enforcing would have refused, and was it right, with intervals.

A verdict of ``deny`` is wrong where the job ran all the same and did not run out of memory; an
``allow`` is wrong where it did. Both are known of runs that reported how they ended, and of no others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from statistics import NormalDist

from vramgate.admission.decision import Mode, Verdict

CONFIDENCE = 0.95
MOST_WEEKS = 53
"""A year, whatever weekday it begins with."""
DEFAULT_WEEKS = 4
_WEEK = timedelta(weeks=1)


class Fate(StrEnum):
    """What became of the job that was asked about."""

    RAN = "ran"
    RAN_OUT_OF_MEMORY = "ran_out_of_memory"
    QUARANTINED = "quarantined"
    """It reports, and every report is quarantined: possible, not plausible, and not released."""
    UNKNOWN = "unknown"
    """It did not run, does not report, has not ended, or was killed for another reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many decisions of a week are alike."""

    monday: date
    mode: Mode
    verdict: Verdict
    is_refused: bool
    """The scheduler was told to deny, so that the job did not run."""
    fate: Fate
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of so many, and where the share of all such runs lies at 95 % confidence."""

    count: int
    of: int

    @property
    def fraction(self) -> float | None:
        """Return the share; None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def low(self) -> float:
        """Return the lower end of the interval."""
        return wilson_interval(self.count, self.of)[0]

    @property
    def high(self) -> float:
        """Return the upper end of the interval."""
        return wilson_interval(self.count, self.of)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of the jobs under one verdict."""

    ran: int = 0
    ran_out_of_memory: int = 0
    quarantined: int = 0
    """Of unknown."""
    unknown: int = 0

    @property
    def count(self) -> int:
        """Return how many there are."""
        return self.reported + self.unknown

    @property
    def reported(self) -> int:
        """Return of how many the end is known."""
        return self.ran + self.ran_out_of_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowFigures:
    """The decisions of some whole weeks, by verdict and by what became of the jobs."""

    since: datetime
    until: datetime
    """The first moment that does not belong to them."""
    by_mode: Mapping[Mode, int]
    refused: int
    """Told to deny; these jobs did not run."""
    would_deny: Tally
    would_warn: Tally
    allowed: Tally
    unchecked: Tally

    @property
    def week(self) -> str:
        """Return the ISO week they begin in, as ``2026-W48``."""
        year, week, _ = self.since.isocalendar()
        return f"{year:04}-W{week:02}"

    @property
    def decisions(self) -> int:
        """Return how many there are."""
        return sum(self.by_mode.values())

    @property
    def reported(self) -> Share:
        """Return of how many of them the end is known."""
        tallies = (self.would_deny, self.would_warn, self.allowed, self.unchecked)
        return Share(count=sum(one.reported for one in tallies), of=self.decisions)

    @property
    def false_denials(self) -> Share:
        """Return how many of the jobs with verdict ``deny`` ran, of those whose end is known."""
        return Share(count=self.would_deny.ran, of=self.would_deny.reported)

    @property
    def missed_ooms(self) -> Share:
        """Return how many of the jobs with verdict ``allow`` ran out of memory."""
        return Share(count=self.allowed.ran_out_of_memory, of=self.allowed.reported)

    @property
    def warned_ooms(self) -> Share:
        """Return how many of the jobs with verdict ``warn`` ran out of memory."""
        return Share(count=self.would_warn.ran_out_of_memory, of=self.would_warn.reported)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowReport:
    """The figures of each week, and of all together."""

    weeks: tuple[ShadowFigures, ...]
    total: ShadowFigures

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the figures."""
        total = self.total
        notes = [
            f"The intervals are Wilson score intervals at {CONFIDENCE:.0%}. They rest only on runs "
            f"that reported how they ended: {total.reported.count:,} of {total.decisions:,} "
            "decisions. Jobs that do not report may fare otherwise."
        ]
        tallies = (total.would_deny, total.would_warn, total.allowed, total.unchecked)
        quarantined = sum(one.quarantined for one in tallies)
        if quarantined:
            notes.append(
                f"Runs whose reports are all quarantined: {quarantined:,}. They count as unknown. What "
                "is far from its estimate is quarantined, so wrong verdicts are among these first: "
                "look at GET /v1/reports/quarantine, and release what is true."
            )
        if total.refused:
            notes.append(
                f"Jobs under would_deny that were refused (mode enforce): {total.refused:,}. They did "
                "not run, and nobody knows how they would have ended."
            )
        return tuple(notes)


def wilson_interval(count: int, of: int) -> tuple[float, float]:
    """Return where a share lies at 95 % confidence, when ``count`` of ``of`` were seen.

    Wilson's score interval, which keeps its level where few were seen or all were alike. Of nothing
    seen, everything is possible.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference",
    JASA 22; recommended by Brown, Cai and DasGupta 2001, Statistical Science 16(2), equation 4.

    >>> [round(end, 4) for end in wilson_interval(1, 29)]
    [0.0061, 0.1718]
    """
    if of == 0:
        return 0.0, 1.0
    # The papers' symbols: k of n, the quantile z.
    k, n, z = count, of, NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    centre = (k + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * math.sqrt(k * (n - k) / n + z**2 / 4)
    # At the ends these are exact; rounding must not take them past.
    low = 0.0 if k == 0 else centre - half
    high = 1.0 if k == n else centre + half
    return low, high


def monday_of(moment: datetime) -> date:
    """Return the first day of the moment's ISO week, in UTC.

    >>> monday_of(datetime(2027, 1, 1, tzinfo=UTC)).isoformat()
    '2026-12-28'
    """
    day = moment.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def mondays_between(since: datetime, until: datetime) -> tuple[date, ...]:
    """Return the first days of the ISO weeks that hold any moment from ``since`` to before ``until``.

    >>> noon = datetime(2026, 11, 29, 12, tzinfo=UTC)  # a Sunday
    >>> [day.isoformat() for day in mondays_between(noon, noon + timedelta(days=1))]
    ['2026-11-23', '2026-11-30']
    """
    first = monday_of(since)
    last = monday_of(until - timedelta(microseconds=1))
    return tuple(first + number * _WEEK for number in range((last - first) // _WEEK + 1))


def start_of(monday: date) -> datetime:
    """Return the moment at which the day begins, in UTC."""
    return datetime.combine(monday, time(), tzinfo=UTC)


def shadow_report(mondays: Sequence[date], counted: Iterable[Counted]) -> ShadowReport:
    """Return the report on the weeks that begin on these days, which follow each other."""
    by_week: dict[date, list[Counted]] = {monday: [] for monday in mondays}
    for one in counted:
        by_week[one.monday].append(one)
    everything = [one for week in by_week.values() for one in week]
    return ShadowReport(
        weeks=tuple(
            _figures(monday, monday + _WEEK, counted) for monday, counted in by_week.items()
        ),
        total=_figures(mondays[0], mondays[-1] + _WEEK, everything),
    )


def _figures(first: date, after: date, counted: Sequence[Counted]) -> ShadowFigures:
    by_mode: Counter[Mode] = Counter()
    for one in counted:
        by_mode[one.mode] += one.count
    return ShadowFigures(
        since=start_of(first),
        until=start_of(after),
        by_mode={mode: by_mode[mode] for mode in Mode},
        refused=sum(one.count for one in counted if one.is_refused),
        would_deny=_tally(counted, Verdict.DENY),
        would_warn=_tally(counted, Verdict.WARN),
        allowed=_tally(counted, Verdict.ALLOW),
        unchecked=_tally(counted, Verdict.UNCHECKED),
    )


def _tally(counted: Sequence[Counted], verdict: Verdict) -> Tally:
    fates: Counter[Fate] = Counter()
    for one in counted:
        if one.verdict is verdict:
            fates[one.fate] += one.count
    return Tally(
        ran=fates[Fate.RAN],
        ran_out_of_memory=fates[Fate.RAN_OUT_OF_MEMORY],
        quarantined=fates[Fate.QUARANTINED],
        unknown=fates[Fate.UNKNOWN] + fates[Fate.QUARANTINED],
    )
