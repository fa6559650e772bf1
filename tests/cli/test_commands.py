import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.factories import a_job, a_request
from vramgate import __version__


def test_the_version_is_told(run: Run) -> None:
    assert run("--version") == (0, f"vramgate {__version__}\n", "")


@pytest.mark.parametrize("value", [a_job(), a_request()])
def test_a_file_holds_a_job_or_a_request(run: Run, tmp_path: Path, value: object) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(value))
    code, out, _ = run("estimate", file, "--json")
    assert code == 0
    assert json.loads(out)["model"]["name"] == "meta-llama/Llama-3.1-8B"


def test_a_job_may_be_yaml(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("model: {name: gpt2}\nmicro_batch_size: 4\n")
    code, out, _ = run("estimate", file, "--json")
    assert code == 0
    assert json.loads(out)["job"]["micro_batch_size"] == 4


def test_the_bill_is_laid_out_for_people(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(a_job()))
    code, out, _ = run("estimate", file)
    assert code == 0
    for words in ("Fits", "a100-sxm4-80gb", "GiB", "weights", "optimizer step", "← peak", "█"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 120


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"model": ', "ends too early"),
        ('{"model": {"name": "nobody/nothing"}}', "nobody/nothing"),
        ('{"model": {"name": "gpt2"}, "micro_batch_size": true}', "/job/micro_batch_size"),
        ('{"model": {"name": "gpt2"}, "batch_size": 1}', "did you mean job.micro_batch_size?"),
        ('{"launch": {"command": "torchrun train.py"}}', "/launch"),
    ],
)
def test_what_cannot_be_estimated_is_a_sentence_and_exit_code_2(
    run: Run, tmp_path: Path, content: str, words: str
) -> None:
    file = tmp_path / "job.json"
    file.write_text(content)
    code, out, err = run("estimate", file)
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["nothing.json", "nothing.yaml"])
def test_a_missing_file_is_a_sentence(run: Run, tmp_path: Path, name: str) -> None:
    code, _, err = run("estimate", tmp_path / name)
    assert (code, "No such file" in err) == (2, True)


def test_broken_yaml_is_a_sentence(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.yml"
    file.write_text("model: [")
    code, _, err = run("estimate", file)
    assert (code, "is not YAML" in err) == (2, True)


def test_the_service_does_not_start_where_others_reach_it(run: Run) -> None:
    code, _, err = run("serve", "--host", "0.0.0.0", "--port", "1")  # noqa: S104 refused
    assert code == 2
    assert "VRAMGATE_HOST=127.0.0.1" in err


def test_a_setting_of_the_wrong_type_is_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VRAMGATE_PORT", "high")
    code, _, err = run("serve")
    assert (code, err.startswith("VRAMGATE_PORT is 'high'")) == (2, True)


def test_the_openapi_document_is_written(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "openapi.json"
    assert run("openapi", file)[0] == 0
    assert json.loads(file.read_text())["openapi"].startswith("3.1")
    assert json.loads(run("openapi", "-")[1]) == json.loads(file.read_text())


def test_an_estimate_loads_nothing_of_the_server() -> None:
    program = (
        "import sys, vramgate.cli.main, vramgate.cli.bill, vramgate.workflows.estimate_job\n"
        "print(sorted({'fastapi', 'starlette', 'uvicorn', 'structlog', 'pydantic_settings'}"
        " & sys.modules.keys()))"
    )
    done = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_an_estimate_needs_no_scipy() -> None:
    program = (
        "import sys\n"
        "sys.modules['scipy'] = None\n"
        "from vramgate.calibration.versions import factory_calibration\n"
        "from vramgate.workflows.estimate_job import estimate_job\n"
        "from vramgate.workflows.load_catalogs import load_catalogs\n"
        "from vramgate.wire.job import JobIn\n"
        "from vramgate.cli.main import main\n"
        "job = JobIn.model_validate({'model': {'name': 'gpt2'}}).to_domain()\n"
        "version = factory_calibration().version\n"
        "done = estimate_job(job, calibration=version, risk=0.01, catalogs=load_catalogs())\n"
        "print(done.calibration.version == version)\n"
        "sys.argv = ['vramgate', 'calibrate', '--factory']\n"
        "main()\n"
    )
    done = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\n"
    assert done.returncode == 2
    assert "needs scipy" in done.stderr
