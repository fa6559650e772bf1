"""Lose nothing, and tell the counts: ``python -m tests.chaos [reports|admissions|sabotage] …``."""

import argparse
import sys
from collections.abc import Callable, Sequence

from tests.chaos.blows import Blow
from tests.chaos.decision_run import (
    DecisionOutcome,
    DecisionPlan,
    decide_on_postgresql,
    decide_on_sqlite,
)
from tests.chaos.decision_table import print_decisions
from tests.chaos.report_table import report_lines
from tests.chaos.run import Outcome, Plan, run_on_postgresql, run_on_sqlite
from tests.chaos.sabotage import Sabotage
from tests.chaos.sabotage_table import print_sabotages, what_was_overlooked

SERVICE_KILLS = 5
POSTGRES_KILLS = 2
SQLITE, POSTGRESQL, APART = "sqlite", "postgresql", "postgresql, two machines"
REPORTS: dict[str, Callable[[Plan], Outcome]] = {
    SQLITE: run_on_sqlite,
    POSTGRESQL: run_on_postgresql,
}
DECISIONS: dict[str, Callable[[DecisionPlan], DecisionOutcome]] = {
    SQLITE: decide_on_sqlite,
    POSTGRESQL: decide_on_postgresql,
    APART: decide_on_postgresql,
}
BLOWS = {
    SQLITE: (
        Blow.SERVICE,
        Blow.HANG,
        Blow.HANG_AND_SERVICE,
        Blow.SERVICE,
        Blow.SERVICE_STOPPED,
    ),
    POSTGRESQL: (
        Blow.SERVICE,
        Blow.POSTGRESQL,
        Blow.HANG,
        Blow.BOTH,
        Blow.HANG_AND_SERVICE,
        Blow.SERVICE_STOPPED,
        Blow.SERVICE,
        Blow.POSTGRESQL_STOPPED,
        Blow.BOTH,
        Blow.POSTGRESQL,
        Blow.SERVICE,
        Blow.SERVICE_STOPPED,
    ),
    APART: (Blow.HANG_AND_SERVICE, Blow.SERVICE_STOPPED, Blow.BOTH),
}
SABOTAGED_BLOWS = (Blow.SERVICE, Blow.HANG)
SABOTAGED_QUESTIONS = 300


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; 1 where anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("suite", nargs="?", choices=("reports", "admissions", "sabotage"))
    parser.add_argument("--database", choices=(SQLITE, POSTGRESQL, "both"), default="both")
    parser.add_argument("--reports", type=int, default=20_000, help="how many are posted")
    parser.add_argument("--questions", type=int, default=300, help="answered between two blows")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if given.suite == "sabotage":
        return int(not sabotages_are_found(given.seed))
    names = [name for name in DECISIONS if given.database == "both" or given.database in name]
    is_well = True
    if given.suite != "admissions":
        is_well = reports_are_well([name for name in names if name in REPORTS], given)
    if given.suite != "reports":
        is_well = admissions_are_well(names, given) and is_well
    return 0 if is_well else 1


def reports_are_well(names: Sequence[str], given: argparse.Namespace) -> bool:
    """Post reports to each database, and print what came of it."""
    is_well = True
    for name in names:
        plan = Plan(
            reports=given.reports,
            service_kills=SERVICE_KILLS,
            postgres_kills=POSTGRES_KILLS if name == POSTGRESQL else 0,
            seed=given.seed,
        )
        outcome = REPORTS[name](plan)
        print("\n".join(report_lines(name, outcome)), flush=True)
        is_well = is_well and not outcome.findings
    return is_well


def admissions_are_well(names: Sequence[str], given: argparse.Namespace) -> bool:
    """Ask about jobs on each database, and print what came of it."""
    outcomes = {}
    for name in names:
        plan = DecisionPlan(
            questions=given.questions * (len(BLOWS[name]) + 1),
            blows=BLOWS[name],
            journals=("here", "there") if name == APART else ("journal", "journal"),
            seed=given.seed,
        )
        outcomes[name] = DECISIONS[name](plan)
    print_decisions(outcomes)
    return not any(one.findings for one in outcomes.values())


def sabotages_are_found(seed: int) -> bool:
    """Damage one run after the other on purpose, and print what each has found."""
    outcomes = {
        one: decide_on_sqlite(
            DecisionPlan(
                questions=SABOTAGED_QUESTIONS, blows=SABOTAGED_BLOWS, seed=seed, sabotage=one
            )
        )
        for one in Sabotage
    }
    print_sabotages(outcomes)
    return not any(what_was_overlooked(*one) for one in outcomes.items())


if __name__ == "__main__":
    sys.exit(main())
