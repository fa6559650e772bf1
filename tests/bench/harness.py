"""How a benchmark is timed and told."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

MICROSECONDS = 1e6
MILLISECONDS = 1e3
MIN_SECONDS = 0.5
"""Each timing repeats until this much has been measured."""
ROUNDS = 5
"""Ways that take seconds have their turn this often, one after the other, so that the machine's moods
hit all."""
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "latest": 1.0}
"""Of the answers that came sooner, as columns of a table of latencies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long one unit of work takes."""

    name: str
    seconds: float
    """Median over the repeats, for one unit."""
    spread: float
    """(p90 - p10) / median of the repeats."""
    budget_seconds: float | None = None

    @property
    def is_within_budget(self) -> bool:
        """Whether the time keeps to its budget, where it has one."""
        return self.budget_seconds is None or self.seconds <= self.budget_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Timings of one unit of work by several ways; ratios are taken against the first."""

    title: str
    unit: str
    timings: Sequence[Timing]
    notes: Sequence[str] = ()
    """What else the run showed, a line each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long the answers to one load took."""

    name: str
    seconds: Sequence[float]
    """Of every answer, in any order."""
    budget: tuple[str, float] | None = None
    """One of ``SHARES``, and what it may take."""

    def within(self, share: str) -> float:
        """Return the time in which so many answers came (nearest rank).

        >>> Latency(name="", seconds=[4.0, 1.0, 3.0, 2.0]).within("p50")
        2.0
        """
        return sorted(self.seconds)[math.ceil(SHARES[share] * len(self.seconds)) - 1]

    @property
    def is_within_budget(self) -> bool:
        """Whether the times keep to their budget, where they have one."""
        return self.budget is None or self.within(self.budget[0]) <= self.budget[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Latencies of several loads."""

    title: str
    rows: Sequence[Latency]
    notes: Sequence[str] = ()
    """What else the run showed, a line each."""


Shown = Comparison | Latencies


def timing(
    name: str,
    run: Callable[[int], object],
    *,
    units: int = 1,
    budget_seconds: float | None = None,
    min_seconds: float = MIN_SECONDS,
) -> Timing:
    """Time ``run(repeat)``, which does ``units`` of work; each repeat gets its own number.

    The number lets a benchmark make inputs that no cache has seen. The first call, which imports,
    is not counted.
    """
    run(0)
    samples: list[float] = []
    gc.collect()
    gc.disable()
    try:
        began, repeat = time.perf_counter(), 1
        while not samples or time.perf_counter() - began < min_seconds:
            started = time.perf_counter()
            run(repeat)
            samples.append((time.perf_counter() - started) / units)
            repeat += 1
    finally:
        gc.enable()
    median = statistics.median(samples)
    deciles = statistics.quantiles(samples, n=10) if len(samples) > 1 else [median, median]
    return Timing(
        name=name,
        seconds=median,
        spread=(deciles[-1] - deciles[0]) / median,
        budget_seconds=budget_seconds,
    )


def in_turn(ways: Mapping[str, Callable[[int], float]]) -> list[Timing]:
    """Time ways that take seconds, in rounds.

    A way is given the number of its turn and returns the time of one unit. The first turn, which warms
    up, is not counted.
    """
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, run in ways.items():
            seconds = run(turn)
            if turn:
                samples[name].append(seconds)
    return [_over_rounds(name, found) for name, found in samples.items()]


def _over_rounds(name: str, samples: Sequence[float]) -> Timing:
    median = statistics.median(samples)
    return Timing(name=name, seconds=median, spread=(max(samples) - min(samples)) / median)


def show(shown: Shown, console: Console) -> None:
    """Print one table and its notes."""
    console.print(_of_latencies(shown) if isinstance(shown, Latencies) else _of_timings(shown))
    for note in shown.notes:
        console.print(f"  {note}")


def _of_timings(comparison: Comparison) -> Table:
    """Return each way's time for one unit, and how many times the first one's it is."""
    table = _table(comparison.title, f"per {comparison.unit}", "spread", "ratio", "budget")
    first = comparison.timings[0].seconds
    for one in comparison.timings:
        table.add_row(
            one.name,
            readable(one.seconds),
            f"±{one.spread / 2:.0%}",
            _ratio(one.seconds / first),
            _budget(one.budget_seconds, is_kept=one.is_within_budget),
        )
    return table


def _of_latencies(latencies: Latencies) -> Table:
    table = _table(latencies.title, "answers", *SHARES, "budget")
    for one in latencies.rows:
        share, seconds = one.budget or ("", None)
        budget = _budget(seconds, is_kept=one.is_within_budget)
        table.add_row(
            one.name,
            f"{len(one.seconds):,}",
            *(readable(one.within(name)) for name in SHARES),
            f"{share} {budget}".strip(),
        )
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def readable(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> readable(0.00042), readable(0.25), readable(3)
    ('420 µs', '250 ms', '3 s')
    """
    if seconds < 1 / MILLISECONDS:
        return f"{seconds * MICROSECONDS:.3g} µs"
    if seconds < 1:
        return f"{seconds * MILLISECONDS:.3g} ms"
    return f"{seconds:.3g} s"


def _ratio(value: float) -> str:
    return f"{value:.3g}x" if value >= 1 else f"1/{1 / value:.3g}"


def _budget(seconds: float | None, *, is_kept: bool) -> str:
    if seconds is None:
        return ""
    word = "kept" if is_kept else "[red]missed[/red]"
    return f"{readable(seconds)} {word}"
