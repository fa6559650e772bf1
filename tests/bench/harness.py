"""How a benchmark is timed and told."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

MICROSECONDS = 1e6
MILLISECONDS = 1e3
MIN_SECONDS = 0.5
"""Each timing repeats until this much has been measured."""


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


def show(comparison: Comparison, console: Console) -> None:
    """Print one table: each way's time for one unit, and how many times the first one's it is."""
    table = Table(title=comparison.title, title_justify="left")
    table.add_column("")
    for heading in (f"per {comparison.unit}", "spread", "ratio", "budget"):
        table.add_column(heading, justify="right")
    first = comparison.timings[0].seconds
    for one in comparison.timings:
        table.add_row(
            one.name,
            readable(one.seconds),
            f"±{one.spread / 2:.0%}",
            _ratio(one.seconds / first),
            _budget(one),
        )
    console.print(table)


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


def _budget(one: Timing) -> str:
    if one.budget_seconds is None:
        return ""
    word = "kept" if one.is_within_budget else "[red]missed[/red]"
    return f"{readable(one.budget_seconds)} {word}"
