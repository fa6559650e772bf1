"""``vramgate purge`` as somebody at a terminal, or a nightly job, runs it."""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from tests.cli.conftest import Run
from tests.databases import rows_of
from tests.kept_decisions import a_decision, keep_decisions
from tests.kept_reports import a_caller, keep, kept, move_back
from tests.reports import a_report
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import audit, decisions

_Result = TypeVar("_Result")


@pytest.fixture(autouse=True)
def _database_of_the_command(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", database_url)


class _Terminal(io.StringIO):
    """Somebody at a terminal who has typed this."""

    def isatty(self) -> bool:
        return True


def _on(url: str, act: Callable[[Database], Awaitable[_Result]]) -> _Result:
    async def opened() -> _Result:
        database = Database(url)
        try:
            return await act(database)
        finally:
            await database.close()

    return asyncio.run(opened())


async def _fill(database: Database) -> None:
    (old,) = await keep(database, a_report(run_id="old"), caller=a_caller("team-a"))
    await keep(database, a_report(run_id="new"), caller=a_caller("team-a"))
    await keep(database, a_report(run_id="new"), caller=a_caller("team-b"))
    await move_back(database, str(old.report_id), datetime.now(UTC) - timedelta(days=500))


def test_a_dry_run_counts_and_deletes_nothing(run: Run, database_url: str) -> None:
    _on(database_url, _fill)
    assert run("purge", "--tenant", "team-a", "--dry-run") == (0, "team-a: 2 reports\n", "")
    assert run("purge", "--older-than", "400d", "--dry-run") == (0, "team-a: 1 report\n", "")
    code, out, _ = run("purge", "--tenant", "team-a", "--run", "none", "--dry-run")
    assert (code, out) == (0, "No report and no decision is meant.\n")
    assert len(_on(database_url, lambda one: kept(one, "team-a"))) == 2


def test_old_reports_go_and_the_trail_names_who_ran_it(run: Run, database_url: str) -> None:
    _on(database_url, _fill)
    code, out, err = run("purge", "--older-than", "400d", "--yes")
    assert (code, err) == (0, "")
    assert "team-a: deleted 1 report, 0 jobs, 0 idempotency keys" in out
    assert len(_on(database_url, lambda one: kept(one, "team-a"))) == 1
    entries = _on(database_url, lambda one: rows_of(one, audit))
    assert [entry.action for entry in entries] == ["purge.begin", "purge.end"]
    assert all(entry.actor.startswith("command line: ") for entry in entries)


def test_a_tenant_goes_whole_and_others_stay(run: Run, database_url: str) -> None:
    _on(database_url, _fill)
    code, out, _ = run("purge", "--tenant", "team-a", "--yes")
    assert code == 0
    assert "team-a: deleted 2 reports, 1 job," in out
    assert _on(database_url, lambda one: kept(one, "team-a")) == []
    assert len(_on(database_url, lambda one: kept(one, "team-b"))) == 1


def test_reports_and_decisions_go_together_or_apart(run: Run, database_url: str) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=500)

    async def fill(database: Database) -> None:
        await _fill(database)
        old = [a_decision(tenant=one, decided_at=long_ago) for one in ("team-a", "team-b")]
        await keep_decisions(database, *old, a_decision(tenant="team-a"))

    _on(database_url, fill)
    code, out, err = run("purge", "--older-than", "400d", "--only", "decisions", "--yes")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "team-a: 1 decision",
        "team-b: 1 decision",
        "team-a: deleted 1 decision, 0 jobs asked about, 0 answers",
        "team-b: deleted 1 decision, 1 job asked about, 1 answer",
    ]
    assert len(_on(database_url, lambda one: rows_of(one, decisions))) == 1
    code, out, _ = run("purge", "--tenant", "team-a", "--yes")
    assert out.splitlines() == [
        "team-a: 2 reports",
        "team-a: 1 decision",
        "team-a: deleted 2 reports, 1 job, 0 idempotency keys",
        "team-a: deleted 1 decision, 1 job asked about, 1 answer",
    ]
    assert run("purge", "--tenant", "team-a", "--only", "reports", "--dry-run") == (
        0, "No report is meant.\n", "",
    )  # fmt: skip


def test_nobody_to_ask_is_a_refusal(run: Run, database_url: str) -> None:
    _on(database_url, _fill)
    code, _, err = run("purge", "--tenant", "team-a")
    assert (code, "--yes" in err) == (2, True)
    assert len(_on(database_url, lambda one: kept(one, "team-a"))) == 2


@pytest.mark.parametrize(("answer", "left"), [("n", 2), ("y", 0)])
def test_at_a_terminal_it_asks(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    _on(database_url, _fill)
    monkeypatch.setattr(sys, "stdin", _Terminal(f"{answer}\n"))
    code, _, err = run("purge", "--tenant", "team-a")
    assert "Traceback" not in err
    assert (code == 0) == (answer == "y")
    assert len(_on(database_url, lambda one: kept(one, "team-a"))) == left


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Nothing says what is to go"),
        (("--run", "r"), "--tenant"),
        (("--submitter", "ci"), "--tenant"),
        (("--submitter", "ci", "--older-than", "1d"), "--tenant"),
        (("--older-than", "400"), "400d"),
        (("--older-than", "-1d"), "-1d"),
        (("--older-than", "999999w"), "no length of time"),
    ],
)
def test_what_is_unclear_is_a_sentence_and_exit_code_2(
    run: Run, arguments: tuple[Any, ...], words: str
) -> None:
    code, out, err = run("purge", *arguments, "--yes")
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
