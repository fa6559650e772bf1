import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reporter.standin import StandIn, free_port
from tests.reporter.test_spool import a_report
from vramgate.cli.main import main
from vramgate.reporter.spool import Spool

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a way to run ``vramgate report``: arguments in; exit code, output and errors out."""

    def command(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vramgate", "report", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return command


def _file(tmp_path: Path, value: object) -> Path:
    path = tmp_path / "reports.json"
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("value", [a_report(), {"reports": [a_report(), a_report(rank=1)]}])
def test_a_file_of_one_or_many_reports_is_sent(
    run: Run, service: StandIn, tmp_path: Path, value: dict[str, object], spool_folder: Path
) -> None:
    count = len(value.get("reports", [value]))  # type: ignore[arg-type]
    code, out, err = run("--file", _file(tmp_path, value), "--url", service.url)
    assert (code, out, err) == (0, f"{count} sent, 0 wait on disk\n", "")
    assert len(service.acknowledged) == count
    assert Spool(spool_folder).entries() == []


def test_standard_input_is_a_file_too(
    run: Run, service: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = io.TextIOWrapper(io.BytesIO(json.dumps(a_report()).encode()))
    monkeypatch.setattr(sys, "stdin", typed)
    assert run("--file", "-", "--url", service.url)[0] == 0
    assert len(service.acknowledged) == 1


def test_an_unreachable_service_is_no_failure_and_the_spool_drains_later(
    run: Run, service: StandIn, tmp_path: Path
) -> None:
    file = _file(tmp_path, a_report())
    service.mode = "error"
    code, out, _ = run("--file", file, "--url", service.url)
    assert (code, out) == (0, "0 sent, 1 wait on disk (status 500)\n")
    service.mode = "ok"
    assert run("--drain", "--url", service.url)[:2] == (0, "1 sent, 0 wait on disk\n")
    assert run("--drain", "--url", service.url)[:2] == (0, "0 sent, 0 wait on disk\n")
    assert len(service.acknowledged) == 1


def test_without_a_service_the_report_waits_for_any(
    run: Run, service: StandIn, tmp_path: Path
) -> None:
    code, out, _ = run("--file", _file(tmp_path, a_report()))
    assert (code, "1 wait on disk" in out) == (0, True)
    assert run("--drain", "--url", service.url)[1] == "1 sent, 0 wait on disk\n"


def test_its_time_is_bounded(run: Run, service: StandIn, tmp_path: Path) -> None:
    service.mode = "slow"
    began = time.monotonic()
    file = _file(tmp_path, a_report())
    code, out, _ = run("--file", file, "--url", service.url, "--timeout", "0.5")
    assert (code, "1 wait on disk" in out) == (0, True)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"run_id": ', "ends too early"),
        ("[]", "no object"),
        ('{"reports": []}', "1 to 1000"),
        ('{"outcome": "oom", "job": {}}', "no run_id"),
        ('{"run_id": "r", "outcome": "fine", "job": {}}', "no outcome"),
        ('{"run_id": "r", "outcome": "oom"}', "none of job, launch and decision_id"),
        ('{"run_id": "r", "outcome": "oom", "job": {}, "measured": NaN}', "NaN"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(
    run: Run, service: StandIn, tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    code, out, err = run("--file", path, "--url", service.url)
    assert (code, out, service.requests) == (2, "", 0)
    assert words in err
    assert "Traceback" not in err


def test_a_report_the_service_refuses_is_bad_input(
    run: Run, service: StandIn, tmp_path: Path, spool_folder: Path
) -> None:
    service.mode = "invalid"
    code, _, err = run("--file", _file(tmp_path, a_report()), "--url", service.url)
    assert (code, "no such field" in err) == (2, True)
    assert len(list(spool_folder.glob("*.rejected"))) == 1


@pytest.mark.parametrize("arguments", [(), ("--file", "x.json", "--drain")])
def test_exactly_one_thing_is_asked_for(run: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = run(*arguments)
    assert (code, "either --file or --drain" in err) == (2, True)


def test_a_missing_file_and_a_spool_that_cannot_be_written_are_sentences(
    run: Run, tmp_path: Path
) -> None:
    assert "No such file" in run("--file", tmp_path / "nothing.json")[2]
    file = _file(tmp_path, a_report())
    code, _, err = run("--file", file, "--spool", file / "spool")
    assert (code, "cannot be written" in err) == (2, True)


def test_secrets_of_the_file_stay_here(
    run: Run, service: StandIn, tmp_path: Path, spool_folder: Path
) -> None:
    report = a_report(oom_message="CUDA out of memory hf_PlantedPlantedPlanted00")
    report["job"] = {"model": {"name": "gpt2"}, "hub_token": "hunter2"}
    service.mode = "error"
    run("--file", _file(tmp_path, report), "--url", service.url)
    kept = b"".join(path.read_bytes() for path in spool_folder.iterdir())
    for secret in (b"hf_Planted", b"hunter2"):
        assert secret not in service.everything
        assert secret not in kept


def test_the_epilog_line_of_the_readme_works(service: StandIn, tmp_path: Path) -> None:
    readme = Path("service/vramgate/reporter/README.md").read_text(encoding="utf-8")
    line = next(line for line in readme.splitlines() if line.startswith("printf "))
    environment = {
        "SLURM_JOB_ID": "812",
        "VRAMGATE_DECISION_ID": "d-1",
        "VRAMGATE_URL": service.url,
        "VRAMGATE_SPOOL": str(tmp_path / "spool"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": "service",
        "HOME": str(tmp_path),
    }
    line = line.replace("vramgate report", f"{sys.executable} -m vramgate.cli.main report")
    line = line.replace("-m vramgate.cli.main", '-c "from vramgate.cli.main import main; main()"')
    shell = ["/bin/sh", "-c", line]
    run = subprocess.run(shell, env=environment, check=True, timeout=60, capture_output=True)
    assert (run.stdout, run.stderr) == (b"1 sent, 0 wait on disk\n", b"")
    (report,) = service.acknowledged
    assert (report["run_id"], report["outcome"]) == ("slurm-812", "killed")


def test_nobody_listening_is_no_failure(run: Run, tmp_path: Path) -> None:
    code, out, _ = run(
        "--file", _file(tmp_path, a_report()), "--url", f"http://127.0.0.1:{free_port()}"
    )
    assert (code, "no answer (ConnectError)" in out) == (0, True)
