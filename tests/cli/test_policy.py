"""``vramgate policy``, on both databases."""

import asyncio
import io
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from sqlalchemy import RowMapping, Table

from tests.cli.conftest import Run
from tests.cli.processes import command
from tests.databases import Databases, rows_of
from tests.kept_reports import a_caller
from vramgate.catalog.site_entries import EntryKind
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import audit, policies
from vramgate.workflows.change_catalog import Conditions, put_entry
from vramgate.workflows.load_catalogs import load_catalogs

_Result = TypeVar("_Result")
Stored = Callable[[Table], list[Any]]
STRICT = "mode: enforce\nrisk: 0.02\nrules:\n  - {name: debug, queue: debug, mode: off}\n"


def _on(url: str, act: Callable[[Database], Awaitable[_Result]]) -> _Result:
    async def opened() -> _Result:
        database = Database(url)
        try:
            return await act(database)
        finally:
            await database.close()

    return asyncio.run(opened())


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, database_url: str) -> Stored:
    """Point the command at a fresh database; return a way to see its rows."""
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", database_url)

    def rows(table: Table) -> list[RowMapping]:
        return _on(database_url, lambda database: rows_of(database, table))

    return rows


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    """Return a policy file that nothing is wrong with."""
    file = tmp_path / "strict.yaml"
    file.write_text(STRICT)
    return file


def _listed(run: Run, *options: object) -> dict[str, str]:
    found = json.loads(run("policy", "list", "--json", *options)[1])
    return {one["version"]: one["status"] for one in found}


def test_what_is_kept_is_a_draft_until_it_is_activated(
    run: Run, stored: Stored, strict: Path
) -> None:
    code, out, err = run("policy", "apply", strict, "--note", "as agreed")
    assert (code, err) == (0, "")
    assert "Against default, which is active:" in out
    assert "  ~ mode: warn -> enforce" in out
    assert "  ~ risk: 0.01 -> 0.02" in out
    assert "is a draft; --activate takes it into use." in out
    (row,) = stored(policies)
    assert (row["status"], row["note"], row["tenant"]) == ("draft", "as agreed", "default")
    assert yaml.safe_load(run("policy", "show")[1])["mode"] == "warn"

    code, out, _ = run("policy", "apply", strict, "--activate")
    assert (code, out.splitlines()[-1]) == (0, f"{row['version']} of default is active.")
    (row,) = stored(policies)
    assert row["status"] == "active"
    assert yaml.safe_load(run("policy", "show")[1])["mode"] == "enforce"
    assert [entry["action"] for entry in stored(audit)] == ["policy.create", "policy.activate"]
    assert all(entry["actor"].startswith("command line: ") for entry in stored(audit))


def test_the_same_policy_again_changes_nothing_and_says_so(
    run: Run, stored: Stored, strict: Path
) -> None:
    run("policy", "apply", strict, "--activate")
    before = stored(policies)
    code, out, err = run("policy", "apply", strict, "--activate", "--note", "another")
    version = before[0]["version"]
    assert code == 0
    assert out.splitlines() == [
        f"The same as {version}, which is active.",
        f"{version} of default is active.",
    ]
    assert "with the note of then" in err
    assert stored(policies) == before


def test_a_dry_run_tells_all_and_changes_nothing(run: Run, stored: Stored, strict: Path) -> None:
    code, out, _ = run("policy", "apply", strict, "--dry-run", "--activate")
    assert (code, "  ~ mode: warn -> enforce" in out) == (0, True)
    assert stored(policies) == stored(audit) == []


def test_what_is_shown_can_be_applied_again(
    run: Run, stored: Stored, strict: Path, tmp_path: Path
) -> None:
    run("policy", "apply", strict, "--activate", "--note", "größer: #1")
    shown = run("policy", "show")[1]
    assert "# größer: #1" in shown
    again = tmp_path / "again.yaml"
    again.write_text(shown)
    assert run("policy", "apply", again)[1].startswith("The same as p-")
    assert len(stored(policies)) == 1


def test_an_older_version_comes_back_by_applying_it(
    run: Run, stored: Stored, strict: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("policy", "apply", strict, "--activate")
    (first,) = _listed(run)
    built_in = run("policy", "show", "default")[1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(built_in.encode())))
    assert run("policy", "apply", "-", "--activate")[0] == 0
    assert _listed(run)[first] == "retired"
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(run("policy", "show", first)[1].encode()))
    )
    assert run("policy", "apply", "-", "--activate")[0] == 0
    assert yaml.safe_load(run("policy", "show")[1])["mode"] == "enforce"
    assert sorted(row["status"] for row in stored(policies)) == ["active", "retired", "retired"]


def test_versions_are_listed_the_newest_first(
    run: Run, stored: Stored, strict: Path, tmp_path: Path
) -> None:
    assert run("policy", "list") == (0, "", "default has no policies; the built-in one holds.\n")
    assert run("policy", "list", "--json")[1] == "[]\n"
    run("policy", "apply", strict, "--activate", "--note", "x" * 500)
    (tmp_path / "later.json").write_text('{"mode": "shadow"}')
    run("policy", "apply", tmp_path / "later.json", "--note", "for a week")
    assert list(_listed(run).values()) == ["draft", "active"]
    code, out, err = run("policy", "list")
    assert (code, err) == (0, "")
    assert all(row["version"] in out for row in stored(policies))
    assert "for a week" in out


def test_a_tenant_sees_no_other_tenants_policies(run: Run, stored: Stored, strict: Path) -> None:
    run("policy", "apply", strict, "--activate", "--tenant", "team-a")
    (row,) = stored(policies)
    assert row["tenant"] == "team-a"
    assert _listed(run, "--tenant", "team-b") == {}
    code, _, err = run("policy", "show", row["version"], "--tenant", "team-b")
    assert (code, f"no policy version '{row['version']}'" in err) == (2, True)
    assert yaml.safe_load(run("policy", "show", "--tenant", "team-b")[1])["mode"] == "warn"


def test_a_card_of_the_tenants_own_may_be_named(
    run: Run, stored: Stored, database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "cards.yaml"
    file.write_text("capacity: {queues: {gpu: acme-x1}}")
    code, _, err = run("policy", "apply", file)
    assert (code, f"{file}: /capacity/queues/gpu: " in err) == (2, True)
    assert stored(policies) == []

    _on(database_url, lambda database: _put_card(database, "acme-x1"))
    assert run("policy", "apply", file, "--tenant", "team-a")[0] == 0
    assert run("policy", "apply", file, "--tenant", "team-b")[0] == 2


async def _put_card(database: Database, name: str) -> None:
    await put_entry(
        database,
        load_catalogs(),
        a_caller("team-a"),
        kind=EntryKind.ACCELERATOR,
        name=name,
        document={"name": name, "vendor": "Acme", "memory_bytes_nominal": 2**34},
        conditions=Conditions(match=None, none_match=None),
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("apply", "FILE", "--tenant", "Team A"), "'Team A' cannot be a tenant"),
        (("apply", "FILE", "--note", "a\x1b"), "/note: "),
        (("apply", "FILE", "--note", "x" * 501), "/note: must have at most 500 characters"),
        (("show", "A B"), "'A B' cannot be a version"),
        (("show", "\x1b[2J"), "cannot be a version"),
        (("show", "p-000000000000"), "There is no policy version 'p-000000000000'"),
        (("list", "--tenant", ""), "'' cannot be a tenant"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_done_is_a_sentence(
    run: Run, stored: Stored, strict: Path, arguments: tuple[str, ...], words: str
) -> None:
    given = [str(strict) if one == "FILE" else one for one in arguments]
    code, out, err = run("policy", *given)
    assert (code, out) == (2, "")
    assert words in err
    assert "\x1b" not in err
    assert stored(policies) == []


def test_of_many_who_activate_at_once_one_is_the_last_and_nobody_is_lost(
    run: Run, stored: Stored, database_url: str, tmp_path: Path
) -> None:
    files = [tmp_path / f"{risk}.yaml" for risk in (1, 2, 3)]
    for number, file in enumerate(files, start=1):
        file.write_text(f"risk: 0.{number}")
    started = [
        command(
            "policy", "apply", str(file), "--activate",
            state=tmp_path, VRAMGATE_DATABASE_URL=database_url,
        )
        for file in files
    ]  # fmt: skip
    ended = [(one.communicate(timeout=120), one.returncode) for one in started]
    for (out, err), code in ended:
        # Whoever saw another policy active than the one that he would have replaced is told.
        assert code == 0 or (code == 2 and "Somebody activated another policy" in err), out + err
    statuses = [row["status"] for row in stored(policies)]
    assert (len(statuses), statuses.count("active")) == (3, 1)
    refused = sum(code for _, code in ended) // 2
    assert statuses.count("draft") == refused
    assert run("policy", "show")[0] == 0


def test_an_sqlite_file_is_made_where_there_is_none(
    run: Run, sqlite_files: Databases, monkeypatch: pytest.MonkeyPatch, strict: Path
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", sqlite_files.empty())
    assert run("policy", "apply", strict)[0] == 0
    assert list(_listed(run).values()) == ["draft"]


def test_postgresql_without_our_tables_is_a_sentence_that_says_how_to_make_them(
    run: Run, postgres: Databases, monkeypatch: pytest.MonkeyPatch, strict: Path
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", postgres.empty())
    code, out, err = run("policy", "apply", strict)
    assert (code, out, "vramgate migrate" in err) == (2, "", True)


def test_a_database_that_is_away_is_named_without_its_password(
    run: Run, monkeypatch: pytest.MonkeyPatch, strict: Path
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", "postgresql://me:pass-word@127.0.0.1:1/v")
    for arguments in (("list",), ("show",), ("apply", strict)):
        code, out, err = run("policy", *arguments)
        assert (code, out) == (2, "")
        assert "postgresql://me:***@127.0.0.1:1/v does not answer" in err
        assert "pass-word" not in err


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "rubbish"])
def test_what_is_no_database_is_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_folder: bool
) -> None:
    place = tmp_path / "v.db"
    place.mkdir() if is_folder else place.write_bytes(b"rubbish" * 100)
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", f"sqlite:///{place}")
    code, out, err = run("policy", "list")
    assert (code, out) == (2, "")
    assert f"{place}, which is no SQLite database" in err
