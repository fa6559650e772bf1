"""``vramgate token``, on both databases."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import RowMapping, Table

from tests.cli.conftest import Run
from tests.databases import Databases, rows_of
from vramgate.authentication.bearer_tokens import hash_of_secret, parse_bearer_token
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import audit, tokens

_Result = TypeVar("_Result")
CREATE = ("token", "create", "--tenant", "team-a", "--name", "ci")


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, database_url: str) -> Callable[[Table], list[Any]]:
    """Point the command at a fresh database; return a way to see its rows."""
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", database_url)

    def rows(table: Table) -> list[RowMapping]:
        return _on(database_url, lambda database: rows_of(database, table))

    return rows


def _on(url: str, act: Callable[[Database], Awaitable[_Result]]) -> _Result:
    async def opened() -> _Result:
        database = Database(url)
        try:
            return await act(database)
        finally:
            await database.close()

    return asyncio.run(opened())


Stored = Callable[[Table], list[Any]]


def test_a_token_is_printed_alone_once_and_stored_as_a_hash(run: Run, stored: Stored) -> None:
    code, out, err = run(*CREATE, "--scope", "report", "--scope", "read")
    assert code == 0
    bearer = parse_bearer_token(out.removesuffix("\n"))
    assert bearer is not None
    assert "not shown again" in err
    (row,) = stored(tokens)
    assert row["token_id"] == bearer.token_id
    assert row["secret_hash"] == hash_of_secret(bearer.secret, [])
    assert (row["tenant"], row["name"], row["scopes"]) == ("team-a", "ci", "read report")
    # 90 days, unless something else is said.
    assert (row["expires_at"] - row["created_at"]).days == 90
    (entry,) = stored(audit)
    assert (entry["action"], entry["tenant"], entry["subject"]) == (
        "token.create",
        "team-a",
        bearer.token_id,
    )
    assert entry["actor"].startswith("command line: ")
    assert bearer.secret not in str(stored(tokens)) + str(stored(audit)) + err


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("12h", 43_200), ("2w", 1_209_600), ("never", None)]
)
def test_the_lifetime_is_as_said(run: Run, stored: Stored, text: str, seconds: int | None) -> None:
    assert run(*CREATE, "--scope", "read", "--expires-in", text)[0] == 0
    (row,) = stored(tokens)
    lives = row["expires_at"] and (row["expires_at"] - row["created_at"]).total_seconds()
    assert lives == seconds


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--scope", "read", "--expires-in", "5y"), "'5y' is no length of time"),
        (("--scope", "read", "--expires-in", "0d"), "'0d' is no length of time"),
        (("--scope", "read", "--expires-in", "99999d"), "'99999d' is no length of time"),
        (("--scope", "read", "--tenant", "Team A"), "'Team A' cannot be a tenant"),
        (("--scope", "read", "--tenant", ""), "'' cannot be a tenant"),
        (("--scope", "read", "--name", ""), "'' cannot be the name"),
        (("--scope", "read", "--name", "a\nb"), "cannot be the name"),
        (("--scope", "everything"), "'everything' is not one of"),
        ((), "Missing option '--scope'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_a_token_is_a_sentence(
    run: Run, stored: Stored, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*CREATE, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert stored(tokens) == []


def test_tokens_are_listed_without_their_secrets(run: Run, stored: Stored) -> None:
    del stored
    secrets = [run(*CREATE, "--scope", "read")[1].strip().rpartition("_")[2] for _ in range(2)]
    run("token", "create", "--tenant", "team-b", "--name", "other", "--scope", "admin")
    code, out, _ = run("token", "list")
    assert code == 0
    assert out.count("team-a") == 2
    assert "team-b" in out
    own = json.loads(run("token", "list", "--tenant", "team-a", "--json")[1])
    assert [(one["tenant"], one["name"], one["state"]) for one in own] == [
        ("team-a", "ci", "active")
    ] * 2
    assert all(secret not in out + json.dumps(own) for secret in secrets)


def test_a_database_without_tokens_says_so(run: Run, stored: Stored) -> None:
    del stored
    assert run("token", "list") == (0, "", "There are no tokens.\n")
    assert run("token", "list", "--json")[1] == "[]\n"


def test_revoking_is_done_once_and_can_be_said_again(run: Run, stored: Stored) -> None:
    made = json.loads(run(*CREATE, "--scope", "read", "--json")[1])
    code, out, _ = run("token", "revoke", made["token_id"])
    assert (code, out) == (0, f"Token {made['token_id']} (ci of team-a) is revoked.\n")
    # The whole token will do, for whoever found one that leaked.
    assert run("token", "revoke", made["token"])[0] == 0
    (listed,) = json.loads(run("token", "list", "--json")[1])
    assert listed["state"] == "revoked"
    assert [entry["action"] for entry in stored(audit)] == ["token.create", "token.revoke"]


def test_revoking_what_is_not_there_is_a_sentence(run: Run, stored: Stored) -> None:
    code, _, err = run("token", "revoke", "nobody")
    assert (code, "There is no token 'nobody'" in err) == (2, True)
    assert stored(audit) == []


def test_with_secret_keys_the_hash_is_made_with_the_first(
    run: Run, stored: Stored, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"2026-11:{base64.b64encode(b'k' * 32).decode()}\n")
    monkeypatch.setenv("VRAMGATE_SECRET_KEYS_FILE", str(keys))
    assert json.loads(run(*CREATE, "--scope", "read", "--json")[1])["key_id"] == "2026-11"
    assert stored(tokens)[0]["secret_hash"].startswith("hmac-sha256:2026-11:")
    keys.write_text("rubbish")
    code, _, err = run(*CREATE, "--scope", "read")
    assert (code, "does not begin with an id and a colon" in err) == (2, True)


def test_an_sqlite_file_is_made_where_there_is_none(
    run: Run, sqlite_files: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", sqlite_files.empty())
    assert run(*CREATE, "--scope", "read")[0] == 0
    assert json.loads(run("token", "list", "--json")[1])[0]["tenant"] == "team-a"


def test_postgresql_without_our_tables_is_a_sentence_that_says_how_to_make_them(
    run: Run, postgres: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", postgres.empty())
    code, _, err = run(*CREATE, "--scope", "read")
    assert (code, "vramgate migrate" in err) == (2, True)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://db/v", "no database this service uses"),
        ("postgresql://n@127.0.0.1:1/n", "does not"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", url)
    code, _, err = run("token", "list")
    assert code == 2
    assert words in err
    assert "Traceback" not in err
