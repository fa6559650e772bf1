"""POST /admit and the replay of what it answered, on both databases."""

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.databases import Databases, rows_of
from tests.factories import a_job
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.api.routes.admissions import Gate
from vramgate.authentication.tokens import IssuedToken
from vramgate.persistence.engine import Database
from vramgate.persistence.group_commit import OverloadedError
from vramgate.persistence.tables import admission_subjects, audit, decision_keys, decisions
from vramgate.units import GIB
from vramgate.wire.admissions import AdmitResponse
from vramgate.workflows import admissions

TOO_LARGE = a_job(
    method="full",
    optimizer="adamw",
    micro_batch_size=8,
    sequence_length=8192,
    activation_checkpointing="none",
)
"""8B parameters in bf16 with gradients and two moments take 64 GB before the first activation."""
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
}
PATHS = ("/admit", "/v1/admit")


@pytest.fixture(autouse=True)
def _commits_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers wait for their commits as long as they may: a busy machine is no failure."""
    monkeypatch.setattr(admissions, "RECORD_SECONDS", 5.0)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Return a folder for the journal."""
    return tmp_path / "journal"


@pytest_asyncio.fixture
async def admitter(database: Database) -> IssuedToken:
    """Return the token of a scheduler."""
    return await a_token(database, Scope.ADMIT, Scope.READ, Scope.ADMIN, name="scheduler")


@pytest_asyncio.fixture
async def client(
    database_url: str, journal: Path, admitter: IssuedToken
) -> AsyncIterator[httpx.AsyncClient]:
    """Return the scheduler's client of a service on a fresh database."""
    settings = a_settings(database_url, journal_folder=journal)
    async with served(settings) as client:
        client.headers.update(bearer(admitter))
        yield client


async def ask(client: httpx.AsyncClient, **question: Any) -> dict[str, Any]:  # noqa: ANN401 a request's own fields
    answer = await client.post("/admit", json=question)
    assert answer.status_code == httpx.codes.OK, answer.text
    shown: dict[str, Any] = answer.json()
    AdmitResponse.model_validate(shown)
    return shown


async def activate(client: httpx.AsyncClient, **policy: Any) -> str:  # noqa: ANN401 a policy's own fields
    """Make a policy the tenant's, and return its version."""
    made = await client.post("/v1/policies", json={"policy": policy, "note": "for a test"})
    assert made.status_code in {httpx.codes.OK, httpx.codes.CREATED}, made.text
    version = made.json()["version"]
    path = f"/v1/policies/{version}/activate"
    done = await client.post(path, headers={"If-Match": made.headers["etag"]})
    assert done.status_code == httpx.codes.OK, done.text
    return str(version)


async def all_texts(database: Database) -> str:
    """Return everything that is stored; a row's own text would be cut where it is long."""
    async with database.reading() as connection:
        tables = decisions.metadata.sorted_tables
        rows = [(await connection.execute(table.select())).all() for table in tables]
    return "\n".join(str(value) for found in rows for row in found for value in row)


@pytest.mark.parametrize("path", PATHS)
async def test_both_paths_answer_the_same(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, json={"job": a_job(), "external_id": "1"})
    other = await client.post(PATHS[0], json={"job": a_job(), "external_id": "1"})
    assert answer.json()["decision_id"] == other.json()["decision_id"]
    assert answer.json()["verdict"] == "allow"


async def test_a_decision_is_a_row_before_it_is_answered(
    client: httpx.AsyncClient, database: Database
) -> None:
    answer = await ask(
        client, job=TOO_LARGE, external_id="4711", cluster="alps", queue="a100", submitter="alice"
    )
    assert answer["recorded"] is True
    (row,) = await rows_of(database, decisions)
    assert (row["decision_id"], row["verdict"], row["decision"]) == (
        answer["decision_id"],
        "deny",
        "warn",
    )
    assert (row["tenant"], row["caller"], row["queue"], row["submitter"]) == (
        "team-a",
        "scheduler",
        "a100",
        "alice",
    )


async def test_the_same_question_under_an_external_id_is_one_decision(
    client: httpx.AsyncClient, database: Database
) -> None:
    first = await ask(client, job=a_job(), external_id="7")
    shuffled = dict(reversed(a_job().items()))
    again = await ask(client, external_id="7", job=shuffled)
    assert again["decision_id"] == first["decision_id"]
    assert len(await rows_of(database, decisions)) == 1


async def test_two_jobs_under_one_external_id_are_two_decisions_and_both_are_listed(
    client: httpx.AsyncClient,
) -> None:
    small = await ask(client, job=a_job(), external_id="7")
    large = await ask(client, job=TOO_LARGE, external_id="7")
    assert small["decision_id"] != large["decision_id"]
    listed = await client.get("/v1/admissions", params={"external_id": "7"})
    assert {one["decision_id"] for one in listed.json()["items"]} == {
        small["decision_id"],
        large["decision_id"],
    }


async def test_a_card_that_changed_makes_another_decision_of_the_same_question(
    client: httpx.AsyncClient,
) -> None:
    """Else the answer would not be the one on record."""
    card = {"name": "acme-x1", "vendor": "Acme", "memory_bytes_nominal": 80 * GIB}
    question = {"job": a_job(hardware={"accelerator": "acme-x1"}), "external_id": "4711"}
    path = "/v1/accelerators/acme-x1"
    made = await client.put(path, json=card, headers={"If-None-Match": "*"})
    answers = [await ask(client, **question)]
    changed = {**card, "memory_bytes_nominal": 96 * GIB}
    headers = {"If-Match": made.headers["etag"]}
    assert (await client.put(path, json=changed, headers=headers)).status_code == httpx.codes.OK
    answers.append(await ask(client, **question))
    assert [one["verdict"] for one in answers] == ["allow", "allow"]
    for one in answers:
        kept = (await client.get(f"/v1/admissions/{one['decision_id']}")).json()
        assert kept["capacity"] == one["capacity"]


async def test_questions_without_an_external_id_are_decisions_of_their_own(
    client: httpx.AsyncClient, database: Database
) -> None:
    ids = {(await ask(client, job=a_job()))["decision_id"] for _ in range(3)}
    assert len(ids) == 3
    assert len(await rows_of(database, decision_keys)) == 3
    assert len(await rows_of(database, admission_subjects)) == 1


async def test_a_dry_run_stores_nothing(client: httpx.AsyncClient, database: Database) -> None:
    answer = await ask(client, job=a_job(), dry_run=True)
    assert (answer["recorded"], answer["report_token"], answer["verdict"]) == (False, None, "allow")
    assert await rows_of(database, decision_keys) == []


async def test_an_enforced_policy_denies(client: httpx.AsyncClient) -> None:
    version = await activate(client, mode="enforce")
    answer = await ask(client, job=TOO_LARGE)
    assert (answer["verdict"], answer["decision"], answer["mode"]) == ("deny", "deny", "enforce")
    assert answer["policy_version"] == version
    assert "\n" not in answer["message"]
    assert answer["suggestions"]


async def test_shadow_lets_through_and_keeps_the_verdict(client: httpx.AsyncClient) -> None:
    await activate(client, mode="shadow")
    answer = await ask(client, job=TOO_LARGE)
    assert (answer["verdict"], answer["decision"]) == ("deny", "allow")


async def test_the_caller_chooses_the_mode_only_where_the_policy_lets_it(
    client: httpx.AsyncClient,
) -> None:
    await activate(client, mode="enforce", caller_may_choose=["shadow"])
    granted = await ask(client, job=TOO_LARGE, mode="shadow")
    refused = await ask(client, job=TOO_LARGE, mode="off")
    assert (granted["mode"], granted["decision"]) == ("shadow", "allow")
    assert (refused["mode"], refused["decision"]) == ("enforce", "deny")
    assert "mode_not_granted" in {one["code"] for one in refused["reasons"]}


async def test_rules_differ_by_queue_and_channel(client: httpx.AsyncClient) -> None:
    rules = [{"name": "prod", "queue": "prod-*", "channel": "slurm", "mode": "enforce"}]
    await activate(client, mode="shadow", rules=rules)
    strict = await ask(client, job=TOO_LARGE, queue="prod-1", channel="slurm")
    mild = await ask(client, job=TOO_LARGE, queue="prod-1", channel="kueue")
    assert (strict["decision"], mild["decision"]) == ("deny", "allow")


@pytest.mark.parametrize(
    "name", ["meta-llama/Llama-3.1-8B", "Llama-3.1-8B", "/models/meta-llama/Llama-3.1-8B"]
)
async def test_a_rule_about_a_model_holds_whatever_the_model_is_called(
    client: httpx.AsyncClient, name: str
) -> None:
    rules = [{"name": "llama", "model": "meta-llama/*", "mode": "enforce"}]
    await activate(client, mode="shadow", rules=rules)
    answer = await ask(client, job={**TOO_LARGE, "model": {"name": name}})
    assert (answer["mode"], answer["decision"]) == ("enforce", "deny")
    again = await client.post(f"/v1/admissions/{answer['decision_id']}/replay", json={})
    assert again.json()["same"] is True


async def test_an_exemption_lets_through_until_it_ends(client: httpx.AsyncClient) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    one = {"name": "demo", "submitter": "alice", "until": soon, "reason": "demo day"}
    await activate(client, mode="enforce", exemptions=[one])
    exempted = await ask(client, job=TOO_LARGE, submitter="alice")
    other = await ask(client, job=TOO_LARGE, submitter="bob")
    assert (exempted["verdict"], exempted["decision"]) == ("deny", "allow")
    assert exempted["reason_code"] == "exempted"
    assert other["decision"] == "deny"


async def test_breaking_the_glass_is_audited_in_the_same_transaction(
    client: httpx.AsyncClient, database: Database
) -> None:
    await activate(client, mode="enforce", break_glass={"submitters": ["oncall-*"]})
    answer = await ask(
        client, job=TOO_LARGE, submitter="oncall-1", break_glass="incident 17: retrain now"
    )
    assert (answer["decision"], answer["reason_code"]) == ("allow", "break_glass")
    acts = [row for row in await rows_of(database, audit) if row["action"].startswith("admission")]
    assert [row["subject"] for row in acts] == [answer["decision_id"]]
    assert "incident 17" in acts[0]["detail"]


async def test_which_devices_can_take_the_job_now_is_told(client: httpx.AsyncClient) -> None:
    devices = [
        {"id": "GPU-0", "accelerator": "NVIDIA A100-SXM4-80GB", "used_bytes": 70 * GIB},
        {"id": "GPU-1", "accelerator": "NVIDIA A100-SXM4-80GB", "used_bytes": 0},
    ]
    answer = await ask(client, job=a_job(), devices=devices)
    assert [(one["id"], one["can_take"]) for one in answer["devices"]] == [
        ("GPU-0", False),
        ("GPU-1", True),
    ]


async def test_every_suggestion_asked_again_is_allowed(client: httpx.AsyncClient) -> None:
    answer = await ask(client, job=TOO_LARGE)
    assert answer["suggestions"]
    for suggestion in answer["suggestions"]:
        job = json.loads(json.dumps(TOO_LARGE))
        for change in suggestion["change"]:
            _set(job, change["field"].split("."), change["after"])
        again = await ask(client, job=job, dry_run=True)
        assert again["verdict"] == "allow", suggestion["text"]
        assert again["peak"]["required_bytes"] == suggestion["peak"]["required_bytes"]


def _set(job: dict[str, Any], path: list[str], value: object) -> None:
    *parents, last = path
    for parent in parents:
        if not isinstance(job.get(parent), dict):
            short = job.get(parent)
            job[parent] = {} if short is None else {_SHORT[parent]: short}
        job = job[parent]
    job[last] = value


_SHORT = {"method": "kind", "activation_checkpointing": "mode", "optimizer": "name"}
"""The field that the short form of a part stands for."""


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


async def test_a_decision_comes_out_the_same_when_it_is_made_again(
    client: httpx.AsyncClient,
) -> None:
    await activate(client, mode="enforce")
    for question in (
        {"job": TOO_LARGE},
        {"job": a_job()},
        {"job": a_job(hardware={"accelerator": "abacus"})},
        {"launch": {"command": "deepspeed t.py --model_name_or_path gpt2 --deepspeed ds.json"}},
    ):
        decided = await ask(client, **question)
        again = await client.post(f"/v1/admissions/{decided['decision_id']}/replay", json={})
        assert again.status_code == httpx.codes.OK, again.text
        assert again.json()["same"] is True
        assert again.json()["differences"] == []


async def test_a_decision_made_again_under_another_policy_says_what_differs(
    client: httpx.AsyncClient,
) -> None:
    decided = await ask(client, job=TOO_LARGE)
    version = await activate(client, mode="enforce")
    path = f"/v1/admissions/{decided['decision_id']}/replay"
    again = (await client.post(path, json={"policy_version": "active"})).json()
    assert again["same"] is False
    assert set(again["differences"]) == {"decision", "mode", "policy_version"}
    assert (again["then"]["decision"], again["now"]["decision"]) == ("warn", "deny")
    assert again["now"]["policy_version"] == version


async def test_another_tenants_decision_is_not_there_to_be_made_again(
    client: httpx.AsyncClient, database: Database
) -> None:
    decided = await ask(client, job=a_job())
    other = bearer(await a_token(database, Scope.READ, tenant="team-b"))
    path = f"/v1/admissions/{decided['decision_id']}/replay"
    assert (await client.post(path, headers=other)).status_code == httpx.codes.NOT_FOUND


async def test_an_unknown_policy_version_is_named(client: httpx.AsyncClient) -> None:
    decided = await ask(client, job=a_job())
    path = f"/v1/admissions/{decided['decision_id']}/replay"
    answer = await client.post(path, json={"policy_version": "p-none"})
    assert answer.status_code == httpx.codes.NOT_FOUND
    assert "p-none" in answer.json()["detail"]


async def test_the_answers_token_reports_the_run_of_its_decision(
    client: httpx.AsyncClient,
) -> None:
    decided = await ask(client, job=a_job())
    report = {
        "run_id": "run-1",
        "outcome": "completed",
        "measured": {"max_allocated_bytes": 23 * GIB},
    }
    posted = await client.post(
        "/v1/reports", json={"reports": [report]}, headers=bearer(decided["report_token"])
    )
    assert posted.status_code == httpx.codes.ACCEPTED, posted.text
    assert posted.json()["items"][0]["status"] == "accepted"
    shown = await client.get(f"/v1/admissions/{decided['decision_id']}")
    assert (shown.json()["run_id"], shown.json()["outcome"]) == ("run-1", "completed")


async def test_secrets_of_a_launch_are_in_no_row(
    client: httpx.AsyncClient, database: Database
) -> None:
    token = "hf_" + "a" * 34
    script = (
        f"#!/bin/bash\n#SBATCH --gpus=1\nexport HF_TOKEN={token}\n"
        f"python run_clm.py --model_name_or_path gpt2 --hub_token {token} --config_file /x/{token}\n"
    )
    await ask(client, launch={"script": script}, hardware={"accelerator": "t4"})
    assert token not in await all_texts(database)


async def test_what_a_person_or_a_config_says_is_kept_without_secrets(
    client: httpx.AsyncClient, database: Database
) -> None:
    token = "hf_" + "a" * 34
    config = {
        **LLAMA,
        "_name_or_path": "https://me:pass-in-url@hub.example/m",
        "password": "pass-by-name",
        "token": token,
    }
    await activate(client, mode="enforce", break_glass={"submitters": ["oncall"]})
    named = await ask(client, job=a_job(model={"config": config}))
    why = f"{token} is not enough"
    cluster = f"https://me:pass-in-url@{token}"
    broken = await ask(client, job=TOO_LARGE, cluster=cluster, submitter="oncall", break_glass=why)
    assert broken["reason_code"] == "break_glass"
    kept = await all_texts(database)
    for secret in (token, "pass-in-url", "pass-by-name"):
        assert secret not in kept
        assert secret not in json.dumps([named, broken])
    assert "is not enough" in kept


async def test_names_out_of_configs_and_launches_are_listed_at_a_names_length(
    client: httpx.AsyncClient,
) -> None:
    await ask(client, job=a_job(model={"config": {**LLAMA, "_name_or_path": "m" * 5000}}))
    script = f"#SBATCH -p {'q' * 5000}\npython run_clm.py --model_name_or_path gpt2\n"
    await ask(client, launch={"script": f"#!/bin/bash\n{script}"})
    listed = (await client.get("/v1/admissions")).json()["items"]
    assert max(len(one["model"] or "") for one in listed) == 256
    assert max(len(one["queue"] or "") for one in listed) == 256


async def test_a_secret_at_the_end_of_a_line_is_masked_before_the_line_is_cut(
    client: httpx.AsyncClient,
) -> None:
    key = "0123456789" * 4
    await activate(client, break_glass={"submitters": ["oncall"]})
    for before in range(100, 160, 7):
        why = f"{'y' * before} {key}"
        answer = await ask(client, job=a_job(), submitter="oncall", break_glass=why)
        assert "0123" not in answer["reasons"][-1]["message"]


async def test_a_decision_that_could_not_be_kept_says_so_and_gives_no_token(
    postgres: Databases, journal: Path, tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"2026-11:{base64.b64encode(bytes(range(32))).decode()}\n")
    keys.chmod(0o600)
    url = postgres.fresh().replace("host=", "host=/nowhere")
    settings = a_settings(
        url, journal_folder=journal, loopback_without_token=True, secret_keys_file=keys
    )
    async with served(settings, client=("127.0.0.1", 4000), host="") as client:
        assert (await ask(client, job=TOO_LARGE))["report_token"] is not None
        shutil.rmtree(journal)
        answer = await ask(client, job=TOO_LARGE)
    assert answer["recorded"] is False
    assert "not_recorded" in [one["code"] for one in answer["reasons"]]
    assert (answer["report_token"], answer["expires_at"]) == (None, None)


async def test_without_a_database_from_the_start_nothing_is_let_through_silently(
    postgres: Databases, journal: Path
) -> None:
    url = postgres.fresh().replace("host=", "host=/nowhere")
    settings = a_settings(url, journal_folder=journal, loopback_without_token=True)
    async with served(settings, client=("127.0.0.1", 4000), host="") as client:
        answer = await client.post("/admit", json={"job": TOO_LARGE, "external_id": "1"})
        assert answer.status_code == httpx.codes.OK
        shown = answer.json()
    assert (shown["verdict"], shown["decision"], shown["recorded"]) == (
        "unchecked",
        "unchecked",
        False,
    )
    assert "policy" in shown["message"]
