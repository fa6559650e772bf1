"""Run every benchmark, or those whose names are given: ``python -m tests.bench [NAME …]``."""

import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from tests.bench import admissions, away, estimates, launches, reading, reports, stored
from tests.bench.harness import Shown, show

# Add a benchmark here: a function that returns what it shows.
BENCHMARKS: dict[str, Callable[[], Shown | Sequence[Shown]]] = {
    "one": estimates.one_estimate,
    "kinds": estimates.kinds_of_estimates,
    "many": estimates.many_estimates,
    "reading": reading.reading_a_body,
    "launch": launches.reading_a_launch,
    "reports": reports.reports_of_many_trainers,
    "few": reports.reports_of_few_trainers,
    "full": reports.reports_beside_ten_million,
    "admit": admissions.admissions_beside_bare,
    "admit-latency": admissions.latencies_at_rates,
    "admit-stopped": away.admissions_without_database,
    "admit-full": stored.admissions_beside_ten_million,
}
BY_NAME_ALONE: frozenset[str] = frozenset({"admit-full"})
"""They take many minutes."""


def main(names: list[str]) -> int:
    """Print the asked benchmarks; 1 where a name is unknown."""
    console = Console()
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        console.print(f"No benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
        return 1
    for name in names or [name for name in BENCHMARKS if name not in BY_NAME_ALONE]:
        found = BENCHMARKS[name]()
        for one in [found] if isinstance(found, Shown) else found:
            show(one, console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
