"""Run every benchmark, or those whose names are given: ``python -m tests.bench [NAME …]``."""

import sys
from collections.abc import Callable

from rich.console import Console

from tests.bench import estimates, launches, reading, reports
from tests.bench.harness import Comparison, show

# Add a benchmark here: a function that returns one comparison.
BENCHMARKS: dict[str, Callable[[], Comparison]] = {
    "one": estimates.one_estimate,
    "kinds": estimates.kinds_of_estimates,
    "many": estimates.many_estimates,
    "reading": reading.reading_a_body,
    "launch": launches.reading_a_launch,
    "reports": reports.reports_of_many_trainers,
    "few": reports.reports_of_few_trainers,
    "full": reports.reports_beside_ten_million,
}


def main(names: list[str]) -> int:
    """Print the asked benchmarks; 1 where a name is unknown."""
    console = Console()
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        console.print(f"No benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
        return 1
    for name in names or BENCHMARKS:
        show(BENCHMARKS[name](), console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
