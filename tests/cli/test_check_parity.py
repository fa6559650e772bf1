"""A file says the same through ``vramgate check`` as what it holds does through ``POST /v1/admit``."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.cli.conftest import Run
from tests.databases import Databases
from tests.launch.goldens import Golden, goldens
from tests.services import a_settings, served
from vramgate.accuracy.cases import bundled_cases

WHOLE_FOLDERS = {"kubernetes", "sbatch"}
OF_OTHERS = 5
EVERY_CASE = 40
OF_ONE_QUESTION = {"decision_id", "recorded", "report_token", "expires_at"}
LAUNCH_FIELDS = {"command", "script", "manifest", "framework", "config", "files", "env"}
LOOPBACK = ("127.0.0.1", 40_000)


def _chosen() -> Iterator[Golden]:
    """Yield every manifest and every batch script, and of each other stack some, those with files first."""
    for folder, some in groupby(goldens(), key=lambda golden: golden.name.partition("/")[0]):
        fitting = [one for one in some if _fits_on_disk(one.launch)]
        fitting.sort(key=lambda golden: "files" not in golden.launch)
        yield from fitting if folder in WHOLE_FOLDERS else fitting[:OF_OTHERS]


def _fits_on_disk(launch: Mapping[str, Any]) -> bool:
    names = [Path(name) for name in launch.get("files", {})]
    return launch.keys() <= LAUNCH_FIELDS and not any(
        name.is_absolute() or ".." in name.parts or str(name).startswith(("~", "$"))
        for name in names
    )


@pytest_asyncio.fixture(scope="module")
async def service(sqlite_files: Databases) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the service as it is out of the box."""
    settings = a_settings(sqlite_files.fresh(), loopback_without_token=True)
    async with served(settings, client=LOOPBACK, host="") as client:
        yield client


async def _asked(service: httpx.AsyncClient, body: Mapping[str, Any]) -> dict[str, Any]:
    response = await service.post(
        "/v1/admit",
        json={**body, "channel": "cli", "dry_run": True},
        params={"timeout": "60s"},
    )
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return {name: value for name, value in answer.items() if name not in OF_ONE_QUESTION}


def _checked(run: Run, file: Path, *options: object) -> dict[str, Any]:
    _, out, err = run("check", file, "--format", "json", *options)
    assert err == ""
    (answer,) = json.loads(out)
    assert answer["problem"] is None
    own = {"path", "outcome", "line", "problem"}
    return {name: value for name, value in answer.items() if name not in own}


def _written(launch: Mapping[str, Any], folder: Path) -> tuple[Path, list[str], dict[str, Any]]:
    """Write a launch as a user has it; return the file, the options, and what HTTP is sent.

    Launches that name a file as ``../configs/a.json`` find it above their own folder.
    """
    above, folder = folder, folder / "work"
    folder.mkdir()
    for name, text in launch.get("files", {}).items():
        for file in (above / name, folder / name):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, newline="")
    options = [f"--env={name}={value}" for name, value in launch.get("env", {}).items()]
    sent = dict(launch)
    if "command" in launch:
        file, text = (
            folder / "question.json",
            json.dumps({"launch": {"command": launch["command"]}}),
        )
    elif "script" in launch:
        file, text = folder / "train.sh", launch["script"]
    else:
        field = "manifest" if "manifest" in launch else "config"
        is_object = not isinstance(launch[field], str)
        text = json.dumps(launch[field]) if is_object else launch[field]
        sent[field] = text
        file = folder / ("job.json" if is_object else "job.yaml")
    if "framework" in launch:
        options.append(f"--framework={launch['framework']}")
    file.write_text(text, newline="")
    return file, options, sent


@pytest.mark.parametrize("golden", list(_chosen()), ids=lambda golden: golden.name)
async def test_a_launch_is_answered_as_over_http(
    run: Run, tmp_path: Path, service: httpx.AsyncClient, golden: Golden
) -> None:
    file, options, launch = _written(golden.launch, tmp_path)
    body: dict[str, Any] = {"launch": launch}
    if "hardware.accelerator" not in golden.job and golden.name.split("/")[0] not in WHOLE_FOLDERS:
        options.append("--accelerator=a100-sxm4-80gb")
        body["hardware"] = {"accelerator": "a100-sxm4-80gb"}

    checked, asked = _checked(run, file, *options), await _asked(service, body)

    if "files" in launch:
        # Sent under other spellings of their paths than the launch has.
        del checked["inputs_digest"], asked["inputs_digest"]
    assert checked == asked


async def test_a_job_is_answered_as_over_http(
    run: Run, tmp_path: Path, service: httpx.AsyncClient
) -> None:
    verdicts = set()
    for case in bundled_cases().measured[::EVERY_CASE]:
        file = tmp_path / "job.json"
        file.write_text(json.dumps(case.job))

        checked = _checked(run, file)

        assert checked == await _asked(service, {"job": case.job})
        verdicts.add(checked["verdict"])
    assert {"allow", "deny"} <= verdicts
