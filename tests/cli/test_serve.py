"""The service as a process, over a socket."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.processes import Served, command, serving
from tests.factories import a_request


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    """Return a running service; it is stopped as a supervisor would."""
    with serving(tmp_path, VRAMGATE_LOG_FORMAT="json", VRAMGATE_PROT="1") as served:
        yield served


def test_the_service_answers_refuses_and_stops(service: Served) -> None:
    process, address = service.process, service.address
    answer = httpx.post(f"{address}/v1/estimates", json=a_request())
    assert answer.status_code == 200
    assert "server" not in answer.headers

    too_long = httpx.post(
        f"{address}/v1/estimates",
        content=iter([b"x" * 2**20] * 4 + [b"x"]),
        headers={"content-type": "application/json"},
    )
    assert (too_long.status_code, too_long.json()["code"]) == (413, "body_too_large")

    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=15)
    events = [json.loads(line) for line in errors.splitlines()]
    assert {"variable": "VRAMGATE_PROT", "did_you_mean": "VRAMGATE_PORT"}.items() <= (
        next(one for one in events if one["event"] == "unknown setting ignored").items()
    )
    answered = [one for one in events if one["event"] == "answered"]
    assert {"/v1/estimates"} <= {one["path"] for one in answered}
    assert all(one["request_id"] for one in answered)


def _ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and the errors of a command that ends by itself."""
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def test_asked_to_stop_it_ends_without_an_error(service: Served) -> None:
    service.process.send_signal(signal.SIGTERM)
    service.process.communicate(timeout=15)
    assert service.process.returncode == 0


def test_it_does_not_listen_to_others_until_callers_need_tokens(tmp_path: Path) -> None:
    code, errors = _ended(command("serve", "--host", "0.0.0.0", state=tmp_path))  # noqa: S104 refused
    assert code == 2
    for words in (
        "VRAMGATE_HOST is 0.0.0.0, which other machines can reach",
        "VRAMGATE_LOOPBACK_WITHOUT_TOKEN=false",
        "vramgate token create",
    ):
        assert words in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_bad_file_of_secret_keys_is_a_sentence_and_no_start(tmp_path: Path, workers: str) -> None:
    keys = tmp_path / "keys"
    keys.write_text("rubbish")
    code, errors = _ended(
        command(
            "serve",
            state=tmp_path,
            VRAMGATE_SECRET_KEYS_FILE=str(keys),
            VRAMGATE_WORKERS=workers,
            VRAMGATE_DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing"
            if workers == "2"
            else f"sqlite:///{tmp_path}/v.db",
        )
    )
    assert code == 2
    assert "does not begin with an id and a colon" in errors
    assert "Traceback" not in errors


def test_a_journal_that_cannot_be_written_is_a_sentence_and_no_start(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    code, errors = _ended(
        command("serve", state=tmp_path, VRAMGATE_JOURNAL_FOLDER=str(in_the_way / "journal"))
    )
    assert code == 2
    assert f"VRAMGATE_JOURNAL_FOLDER is {in_the_way}/journal, which cannot be written" in errors
    assert "Traceback" not in errors


def test_where_callers_need_tokens_it_listens_to_all_and_answers_those_who_have_one(
    tmp_path: Path,
) -> None:
    open_to_all = {
        "VRAMGATE_LOOPBACK_WITHOUT_TOKEN": "false",
        "VRAMGATE_TRUSTED_PROXIES": "127.0.0.1",
        "VRAMGATE_LOG_FORMAT": "json",
    }
    with serving(tmp_path, "--host", "0.0.0.0", **open_to_all) as served:  # noqa: S104 with tokens
        models = f"{served.address}/v1/models"
        assert httpx.get(models).status_code == 401
        # Made while the service runs, on its database.
        create = ("token", "create", "--tenant", "t", "--name", "n", "--scope", "estimate")
        made = command(*create, state=tmp_path)
        token, _ = made.communicate(timeout=60)
        headers = {
            "Authorization": f"Bearer {token.strip()}",
            "Host": "vramgate.example",
            "X-Forwarded-For": "192.0.2.9",
        }
        assert httpx.get(models, headers=headers).status_code == 200
        os.kill(served.process.pid, signal.SIGTERM)
        _, errors = served.process.communicate(timeout=15)
    events = [json.loads(line) for line in errors.splitlines()]
    clients = [one["client"] for one in events if one.get("path") == "/v1/models"]
    # Of the trusted proxy, the header is believed.
    assert clients == ["127.0.0.1", "192.0.2.9"]
    assert token.strip() not in errors


def test_a_forwarding_header_of_a_proxy_that_is_not_trusted_is_not_believed(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, VRAMGATE_LOG_FORMAT="json") as served:
        answer = httpx.get(f"{served.address}/livez", headers={"X-Forwarded-For": "192.0.2.9"})
        assert (answer.status_code, answer.json()["code"]) == (403, "loopback_only")
        served.process.send_signal(signal.SIGTERM)
        _, errors = served.process.communicate(timeout=15)
    events = [json.loads(line) for line in errors.splitlines()]
    assert {one["client"] for one in events if one.get("path") == "/livez"} == {"127.0.0.1"}
