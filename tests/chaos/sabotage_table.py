"""What runs found that were damaged on purpose."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tests.chaos.decision_run import DecisionOutcome
from tests.chaos.decision_table import WIDTH
from tests.chaos.sabotage import Sabotage

MOST_CHARACTERS = 160


def what_was_overlooked(sabotage: Sabotage, outcome: DecisionOutcome) -> list[str]:
    """Return the kinds of faults that the run must have found and did not."""
    found = outcome.verdict
    kinds: Mapping[str, Sequence[str]] = {"not durable": outcome.missing, "lost": found.lost}
    if sabotage is Sabotage.TOLD_TOO_EARLY:
        kinds = {"not durable": [*outcome.missing, *outcome.witness.missed]}
    if sabotage is Sabotage.ROWS:
        kinds = {
            "lost": found.lost,
            "doubled": found.doubled,
            "contradicting": found.contradicting,
            "half": found.half,
            "stray": found.stray,
        }
    return [kind for kind, faults in kinds.items() if not faults]


def print_sabotages(outcomes: Mapping[Sabotage, DecisionOutcome]) -> None:
    """Print what each run found."""
    table = Table("damage", "faults found", "for example", box=box.SIMPLE_HEAD, pad_edge=False)
    for sabotage, outcome in outcomes.items():
        overlooked = what_was_overlooked(sabotage, outcome)
        words = ", ".join([str(len(outcome.findings)), *(f"none {one}" for one in overlooked)])
        example = next(iter(outcome.findings), "")[:MOST_CHARACTERS]
        table.add_row(sabotage.value, words, Text(example))
    Console(width=WIDTH, highlight=False).print(table)
