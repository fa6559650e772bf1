"""POST /admit and the replay of what it answered, on both databases."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.admissions.asking import PATHS, TOO_LARGE, activate, ask
from tests.databases import rows_of
from tests.factories import a_job
from tests.services import a_token, bearer
from vramgate.access import Scope
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import admission_subjects, audit, decision_keys, decisions
from vramgate.units import GIB


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
