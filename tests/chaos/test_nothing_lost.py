"""Acknowledged reports survive kills of the service and crashes of PostgreSQL, each once."""

import pytest

from tests.chaos.run import Plan, run_on_postgresql, run_on_sqlite


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
