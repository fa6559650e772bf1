"""What is refused, how long an answer may take, and how many are asked at once."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.admissions.asking import LLAMA, TOO_LARGE, activate, ask
from tests.databases import rows_of
from tests.factories import a_job
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.api.routes.admissions import Gate
from vramgate.persistence.engine import Database
from vramgate.persistence.group_commit import OverloadedError
from vramgate.persistence.tables import decision_keys, decisions
from vramgate.workflows import admissions


@pytest.mark.parametrize(
    ("question", "pointer"),
    [
        ({"job": {"model": {"name": "gpt2"}, "micro_batch_size": "many"}}, "/job/micro_batch_size"),
        ({"job": {"model": {"name": "gpt2"}, "batch": 4}}, "/job/batch"),
        ({"job": a_job(), "mode": "strict"}, "/mode"),
        ({"job": a_job(), "channel": "smoke"}, "/channel"),
        ({"job": a_job(), "queue": ""}, "/queue"),
        ({"job": a_job(), "external_id": "x" * 300}, "/external_id"),
        ({"job": a_job(), "devices": []}, "/devices"),
        ({"job": a_job(), "devices": [{"id": "a", "used_bytes": -1}]}, "/devices/0/used_bytes"),
        ({"job": a_job(), "dry_run": "yes"}, "/dry_run"),
        ({"job": a_job(), "shadow": True}, "/shadow"),
        ({}, ""),
        ({"job": a_job(), "launch": {"command": "python x.py"}}, ""),
        ({"job": a_job(), "hardware": {"accelerator": "t4"}}, ""),
        ({"job": a_job(), "tenant": "team b"}, "/tenant"),
        ({"job": a_job(), "devices": [{"id": "a"}, {"id": "a"}]}, "/devices"),
    ],
)
async def test_a_malformed_question_is_refused_at_its_field(
    client: httpx.AsyncClient, question: dict[str, Any], pointer: str
) -> None:
    answer = await client.post("/admit", json=question)
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert answer.headers["content-type"] == "application/problem+json"
    assert pointer in [one["pointer"] for one in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (a_job(hardware={"accelerator": "abacus-9000"}), "unknown_accelerator"),
        ({"model": {"name": "meta-llama/Llama-3.1-70B"}}, "unknown_capacity"),
        (a_job(model={"name": "nobody/knows-this"}), "unknown_model"),
        (a_job(parallelism={"tensor_parallel_size": 7}), "invalid_job"),
    ],
)
async def test_what_cannot_be_judged_is_a_decision_all_the_same_and_never_a_silent_allow(
    client: httpx.AsyncClient, job: dict[str, Any], code: str
) -> None:
    await activate(client, mode="enforce")
    answer = await ask(client, job=job)
    assert (answer["verdict"], answer["decision"], answer["reason_code"]) == ("warn", "warn", code)
    assert answer["recorded"] is True


async def test_a_tenant_that_is_not_the_tokens_is_refused(
    client: httpx.AsyncClient, database: Database
) -> None:
    plain = bearer(await a_token(database, Scope.ADMIT))
    question = {"job": a_job(), "tenant": "team-b"}
    answer = await client.post("/admit", json=question, headers=plain)
    assert answer.status_code == httpx.codes.FORBIDDEN
    assert answer.json()["errors"][0]["pointer"] == "/tenant"
    assert await rows_of(database, decision_keys) == []


async def test_who_may_asks_for_any_tenant(client: httpx.AsyncClient, database: Database) -> None:
    token = await a_token(database, Scope.ADMIT, Scope.ADMIT_ANY_TENANT, tenant="platform")
    question = {"job": a_job(), "tenant": "team-b"}
    answer = await client.post("/admit", json=question, headers=bearer(token))
    assert answer.status_code == httpx.codes.OK
    (row,) = await rows_of(database, decisions)
    assert row["tenant"] == "team-b"


async def test_asking_needs_the_scope(client: httpx.AsyncClient, database: Database) -> None:
    token = await a_token(database, Scope.ESTIMATE, Scope.REPORT)
    answer = await client.post("/admit", json={"job": a_job()}, headers=bearer(token))
    assert answer.status_code == httpx.codes.FORBIDDEN


@pytest.mark.parametrize("patience", ["2s", "500ms", "1m", "3"])
async def test_the_callers_patience_is_read(client: httpx.AsyncClient, patience: str) -> None:
    answer = await client.post("/admit", params={"timeout": patience}, json={"job": a_job()})
    assert answer.json()["verdict"] == "allow"


@pytest.mark.parametrize(
    ("params", "headers", "name"),
    [
        ({"timeout": "soon"}, {}, "timeout"),
        ({"timeout": "0s"}, {}, "timeout"),
        ({"timeout": ["soon", "2s"]}, {}, "timeout"),
        ({}, {"X-Request-Timeout-Ms": "-5"}, "X-Request-Timeout-Ms"),
    ],
)
async def test_patience_that_cannot_be_read_is_refused_by_name(
    client: httpx.AsyncClient, params: dict[str, Any], headers: dict[str, str], name: str
) -> None:
    answer = await client.post("/admit", params=params, headers=headers, json={"job": a_job()})
    assert answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert answer.json()["errors"][0]["parameter"] == name


def test_a_full_gate_turns_away_at_once() -> None:
    gate = Gate(most=1)
    with gate, pytest.raises(OverloadedError), gate:
        pass
    with gate:
        pass


async def test_a_question_longer_than_all_that_is_remembered_is_answered_each_time(
    database_url: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admissions, "REMEMBERED_CHARACTERS", 2 * admissions.USUAL_CHARACTERS)
    config = {**LLAMA, "id2label": {str(number): "x" * 80 for number in range(1000)}}
    long = [
        {"job": a_job(model={"config": config})},
        {"launch": {"command": f"python run_clm.py --model_name_or_path gpt2 #{'x' * 100_000}"}},
    ]
    settings = a_settings(database_url, journal_folder=journal, loopback_without_token=True)
    async with served(settings, client=("127.0.0.1", 4000), host="") as client:
        for question in (*long, {"job": a_job()}, *long):
            answer = await ask(client, **question, external_id="4711")
            listed = await client.get(f"/v1/admissions/{answer['decision_id']}")
            assert listed.json()["verdict"] == answer["verdict"]
        found = (await client.get("/v1/admissions")).json()["items"]
    assert len(found) == 3


async def test_many_at_once_are_all_rows(client: httpx.AsyncClient, database: Database) -> None:
    questions = [
        ask(client, job=a_job(micro_batch_size=1 + number % 3), external_id=str(number))
        for number in range(60)
    ]
    answers = await asyncio.gather(*questions)
    kept = {row["decision_id"] for row in await rows_of(database, decisions)}
    assert {one["decision_id"] for one in answers if one["recorded"]} <= kept
    assert len(kept) == 60


async def test_a_job_that_was_asked_about_before_does_not_wait_for_all_new_ones(
    client: httpx.AsyncClient,
) -> None:
    await ask(client, job=a_job())
    answered: list[str] = []

    async def asked(name: str, job: dict[str, Any]) -> None:
        await ask(client, job=job)
        answered.append(name)

    new = [asked("new", TOO_LARGE | {"sequence_length": 8192 + number}) for number in range(60)]
    await asyncio.gather(*new, asked("known", a_job()))
    assert answered.index("known") < len(new) / 2
