"""What is kept of a question, what is not, and what happens where nothing can be kept."""

import base64
import json
import shutil
from pathlib import Path

import httpx

from tests.api.admissions.asking import LLAMA, TOO_LARGE, activate, all_texts, ask
from tests.databases import Databases
from tests.factories import a_job
from tests.services import a_settings, served
from vramgate.persistence.engine import Database


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
