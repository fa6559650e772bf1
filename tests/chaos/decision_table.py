"""The counts of runs, for a person."""

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from tests.chaos.decision_run import SCHEDULERS, DecisionOutcome
from tests.chaos.flights import CUT_OFF, UNREACHED
from tests.chaos.questions import SHORT_PATIENCE_MS
from tests.chaos.schedulers import COME_AGAIN

MOST_FINDINGS = 20
WIDTH = 118
P99 = 0.99


def decision_table(outcomes: dict[str, DecisionOutcome]) -> Table:
    """Return the counts, a column for each run."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in outcomes:
        table.add_column(name, justify="right")
    columns = [_counts_of(one) for one in outcomes.values()]
    for row in columns[0]:
        table.add_row(row, *(column[row] for column in columns), end_section=row in _LAST_OF_A_PART)
    return table


def print_decisions(outcomes: dict[str, DecisionOutcome]) -> None:
    """Print the counts of all runs, what befell, and what was found."""
    console = Console(width=WIDTH, highlight=False, soft_wrap=False)
    for name, outcome in outcomes.items():
        console.print(f"{name}: {_settings(outcome)}; {_blows(outcome)}")
    console.print(decision_table(outcomes))
    for name, outcome in outcomes.items():
        for finding in outcome.findings[:MOST_FINDINGS]:
            console.print(f"{name}: {finding}", markup=False, soft_wrap=True)


_LAST_OF_A_PART = {"seconds", "cut off at a blow", "in the journal at the end", "slowest, in ms"}


def _counts_of(outcome: DecisionOutcome) -> dict[str, str]:
    ledger, witness, found = outcome.ledger, outcome.witness, outcome.verdict
    counts = ledger.counts
    numbers = {
        "processes": len(outcome.plan.journals),
        "blows": len(ledger.strikes),
        "seconds": round(outcome.seconds),
        f"questions, by {SCHEDULERS} schedulers": ledger.questions,
        "requests": ledger.requests,
        "answers": ledger.answers,
        "  allow": counts.decisions["allow"],
        "  warn": counts.decisions["warn"],
        "  deny": counts.decisions["deny"],
        "  unchecked": counts.decisions["unchecked"],
        "  of them dry runs": counts.dry_runs,
        f"  of them to callers who wait {SHORT_PATIENCE_MS} ms": counts.hurried,
        "  in time": counts.in_time,
        "no connection": ledger.retries[UNREACHED],
        COME_AGAIN: ledger.retries[COME_AGAIN],
        CUT_OFF: ledger.retries[CUT_OFF],
        "cut off at a blow": sum(one.cut_off for one in ledger.strikes),
        "answered recorded: true": counts.recorded,
        "  rows when looked for at once": witness.seen,
        "  not there when looked for": len(witness.missed),
        "answered recorded: false": counts.journalled,
        "  of them denials": counts.denied_unrecorded,
        "in the journal at the end": outcome.left_in_journal,
        "rows": found.rows,
        "decisions that were told": len(ledger.told),
        "rows whose answer did not arrive": found.untold,
    }
    shown = {name: f"{number:,}" for name, number in numbers.items()}
    return {**shown, **_times(outcome), **_faults(outcome)}


def _times(outcome: DecisionOutcome) -> dict[str, str]:
    """Return the time of an answer that waited for its commit, and of one that did not."""
    counts = outcome.ledger.counts
    both = counts.seconds_recorded, counts.seconds_journalled
    return {
        "recorded / journalled: median, in ms": " / ".join(_milliseconds(one, 0.5) for one in both),
        "99th percentile, in ms": " / ".join(_milliseconds(one, P99) for one in both),
        "slowest, in ms": " / ".join(_milliseconds(one, 1.0) for one in both),
    }


def _milliseconds(seconds: Sequence[float], share: float) -> str:
    if not seconds:
        return "–"
    return f"{1000 * sorted(seconds)[round(share * (len(seconds) - 1))]:,.0f}"


def _faults(outcome: DecisionOutcome) -> dict[str, str]:
    found, ledger = outcome.verdict, outcome.ledger
    numbers = {
        "lost": len(found.lost),
        "not durable with all processes dead": len(outcome.missing),
        "doubled": len(found.doubled),
        "two verdicts under one id": len(found.contradicting),
        "half": len(found.half),
        "dry runs stored, never asked": len(found.stray),
        "wrongly allowed": len(ledger.wrongly_allowed),
        "other faults": len(outcome.faults),
    }
    return {name: f"{number:,}" for name, number in numbers.items()}


def _settings(outcome: DecisionOutcome) -> str:
    return ", ".join(f"{name} {value}" for name, value in outcome.settings.items())


def _blows(outcome: DecisionOutcome) -> str:
    counts = Counter(one.killed[0] for one in outcome.ledger.strikes)
    return "; ".join(f"{count} × {blow}" for blow, count in counts.items())
