"""Acknowledged reports and answered decisions survive kills and crashes of everything, each once."""

import pytest

from tests.chaos.blows import Blow
from tests.chaos.decision_run import DecisionPlan, decide_on_postgresql, decide_on_sqlite
from tests.chaos.run import Plan, run_on_postgresql, run_on_sqlite
from tests.chaos.sabotage import Sabotage
from tests.chaos.sabotage_table import what_was_overlooked


@pytest.mark.timeout(300)
def test_sqlite_loses_nothing_when_the_service_is_killed() -> None:
    outcome = run_on_sqlite(Plan(reports=1_500, service_kills=3, postgres_kills=0, seed=7))

    assert outcome.findings == []


@pytest.mark.timeout(300)
def test_postgresql_loses_nothing_when_it_or_the_service_is_killed() -> None:
    outcome = run_on_postgresql(Plan(reports=1_500, service_kills=3, postgres_kills=1, seed=7))

    assert outcome.findings == []


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_sqlite_loses_none_of_twenty_thousand_reports() -> None:
    outcome = run_on_sqlite(Plan(reports=20_000, service_kills=5, postgres_kills=0, seed=1))

    assert outcome.findings == []


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_postgresql_loses_none_of_twenty_thousand_reports() -> None:
    outcome = run_on_postgresql(Plan(reports=20_000, service_kills=5, postgres_kills=2, seed=1))

    assert outcome.findings == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_postgresql_keeps_what_was_answered_when_it_and_the_services_are_killed() -> None:
    blows = (Blow.BOTH, Blow.HANG_AND_SERVICE, Blow.SERVICE_STOPPED)
    outcome = decide_on_postgresql(DecisionPlan(questions=200, blows=blows, seed=7))

    assert outcome.findings == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sqlite_keeps_what_was_answered_when_a_service_is_killed_or_asked_to_stop() -> None:
    blows = (Blow.SERVICE, Blow.HANG_AND_SERVICE, Blow.SERVICE_STOPPED)
    outcome = decide_on_sqlite(DecisionPlan(questions=1_000, blows=blows, seed=7))

    assert outcome.findings == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_a_machine_left_waits_for_its_own_next_process() -> None:
    blows = (Blow.HANG_AND_SERVICE, Blow.SERVICE_STOPPED)
    plan = DecisionPlan(questions=1_000, blows=blows, journals=("here", "there"), seed=7)

    assert decide_on_postgresql(plan).findings == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sabotage", Sabotage)
def test_a_run_finds_what_was_damaged_on_purpose(sabotage: Sabotage) -> None:
    plan = DecisionPlan(questions=300, blows=(Blow.SERVICE, Blow.HANG), seed=7, sabotage=sabotage)
    outcome = decide_on_sqlite(plan)

    assert what_was_overlooked(sabotage, outcome) == []


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_postgresql_keeps_what_was_answered_through_every_blow_twice() -> None:
    blows = tuple(blow for blow in Blow if blow is not Blow.END)
    outcome = decide_on_postgresql(DecisionPlan(questions=4_000, blows=2 * blows, seed=2))

    assert outcome.findings == []
