"""``vramgate migrate``: what it says, and what it leaves alone."""

import asyncio
import subprocess
import sys

import pytest
import sqlalchemy as sa

from tests.cli.conftest import Run
from tests.databases import Databases
from vramgate.persistence.engine import Database
from vramgate.persistence.migrate import newest_revision, revision_of

PROGRAM = "from vramgate.cli.main import main; main()"


def _revision(url: str) -> str | None:
    async def look() -> str | None:
        database = Database(url)
        try:
            return await revision_of(database)
        finally:
            await database.close()

    return asyncio.run(look())


def test_it_says_from_where_to_where(
    run: Run, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", databases.empty())
    newest = newest_revision()
    assert run("migrate") == (0, f"no schema → {newest}\n", "")
    assert run("migrate") == (0, f"{newest}, nothing to do\n", "")
    assert run("migrate", "--to", "base") == (0, f"{newest} → no schema\n", "")
    assert run("migrate", "--to", "0001") == (0, "no schema → 0001\n", "")


def test_the_statements_can_be_read_before(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", "postgresql://db.example/vramgate")
    code, out, err = run("migrate", "--sql")
    assert (code, err) == (0, "")
    assert out.startswith("BEGIN;")
    assert "CREATE TABLE reports" in out
    code, _, err = run("migrate", "--sql", "--to", "0001")
    assert (code, "without --to" in err) == (2, True)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://db.example/vramgate", "no database this service uses"),
        ("postgresql://postgres@127.0.0.1:9/nothing", "does not answer"),
        ("sqlite:////proc/nowhere/vramgate.db", "/proc/nowhere"),
    ],
)
def test_a_database_out_of_reach_is_a_sentence_and_exit_code_2(
    run: Run, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", url)
    code, out, err = run("migrate")
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


def test_an_unknown_revision_is_a_sentence_and_changes_nothing(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", database_url)
    code, out, err = run("migrate", "--to", "nonsense")
    assert (code, out) == (2, "")
    assert "nonsense" in err
    assert _revision(database_url) == newest_revision()


def test_of_two_at_once_one_does_the_work(databases: Databases) -> None:
    url = databases.empty()
    newest = newest_revision()
    both = [
        subprocess.Popen(  # noqa: S603 our own program
            [sys.executable, "-c", PROGRAM, "migrate"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"VRAMGATE_DATABASE_URL": url, "PATH": ""},
        )
        for _ in range(2)
    ]
    ended = [one.communicate(timeout=60) for one in both]
    assert [one.returncode for one in both] == [0, 0], ended
    assert all(out.endswith((f"→ {newest}\n", "nothing to do\n")) for out, _ in ended)
    assert _revision(url) == newest


async def test_a_migration_that_waits_for_a_lock_gives_up_and_changes_nothing(
    postgres: Databases,
) -> None:
    database = Database(postgres.fresh())
    url = database.url.render_as_string(hide_password=False)
    async with database.reading() as connection:
        # Somebody's long report: holds off whoever wants to drop what it reads. Of the newest
        # revision, which is the first to go.
        await connection.execute(sa.text("SELECT * FROM signing_keys"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, "migrate", "--to", "base",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"VRAMGATE_DATABASE_URL": url, "PATH": ""},
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), timeout=30)
    assert (process.returncode, out) == (2, b"")
    assert b"waited for a lock" in err
    assert b"Traceback" not in err
    assert await revision_of(database) == newest_revision()
    async with database.reading() as connection:
        names = await connection.run_sync(lambda one: sa.inspect(one).get_table_names())
    assert {"signing_keys", "launch_files", "audit", "tokens", "reports"} <= set(names)
    await database.close()
