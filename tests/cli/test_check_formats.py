"""``vramgate check``: SARIF, JUnit and JSON, the lines they name, and what none of them says."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest

from tests.cli.checked_files import DENIED, DENIED_LINE, INVALID, INVALID_LINE, TRAIN, write_files
from tests.cli.conftest import Run
from tests.cli.processes import PROGRAM

FORMATS = ("text", "json", "sarif", "junit")
LEVELS = {"deny": "error", "invalid": "error", "warn": "warning"}
URI = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
"""Characters of RFC 3986."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Return a file of each kind, by the word that it is answered with."""
    return write_files(tmp_path)


def _sarif(run: Run, *arguments: object) -> dict[str, Any]:
    log = json.loads(run("check", *arguments, "--format", "sarif")[1])
    assert log["version"] == "2.1.0"
    assert "sarif-schema-2.1.0" in log["$schema"]
    (only,) = log["runs"]
    return dict(only)


def _suite(run: Run, *arguments: object) -> ET.Element:
    root = ET.fromstring(run("check", *arguments, "--format", "junit")[1])  # noqa: S314 our own
    assert root.tag == "testsuites"
    (suite,) = root
    return suite


def test_sarif_has_a_result_for_each_file_that_is_not_allowed(
    run: Run, files: dict[str, Path]
) -> None:
    told = _sarif(run, *files.values())
    found = {Path(_uri(one)).name: one["level"] for one in told["results"]}
    assert found == {files[word].name: level for word, level in LEVELS.items()}
    assert [one["location"]["uri"] for one in told["artifacts"]] == [
        file.as_uri() for file in files.values()
    ]


def _uri(result: dict[str, Any]) -> str:
    (location,) = result["locations"]
    return str(location["physicalLocation"]["artifactLocation"]["uri"])


def test_a_result_of_sarif_has_what_the_standard_asks_for(run: Run, files: dict[str, Path]) -> None:
    told = _sarif(run, *files.values())
    driver = told["tool"]["driver"]
    assert driver["name"] == "vramgate"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
    for one in told["results"]:
        assert ids[one["ruleIndex"]] == one["ruleId"]
        assert one["message"]["text"]


def test_a_path_in_sarif_is_a_uri(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "jobs & more/ü 100%.sh"
    Path(name).parent.mkdir()
    Path(name).write_text(DENIED)
    (result,) = _sarif(run, name)["results"]
    assert URI.fullmatch(_uri(result))
    assert unquote(_uri(result)) == name
    assert urlsplit(_uri(result)).scheme == ""


def test_junit_counts_what_it_lists(run: Run, files: dict[str, Path]) -> None:
    suite = _suite(run, *files.values())
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "0"}
    kinds = {case.get("name"): [child.tag for child in case] for case in suite}
    assert "failure" in kinds[str(files["deny"])]
    assert "error" in kinds[str(files["invalid"])]
    assert kinds[str(files["warn"])] == ["system-out"]
    for case in suite:
        assert float(case.get("time", "")) >= 0
        for child in case:
            if child.tag != "system-out":
                assert child.get("message")
                assert child.get("type")


@pytest.mark.parametrize(
    ("options", "kind", "count"),
    [(("--strict",), "failure", "failures"), (("--timeout", "0"), "skipped", "skipped")],
)
def test_junit_tells_what_a_file_counts_as(
    run: Run, files: dict[str, Path], options: tuple[str, ...], kind: str, count: str
) -> None:
    suite = _suite(run, files["warn"], *options)
    assert suite.get(count) == "1"
    assert suite.find(f"testcase/{kind}") is not None


def test_json_has_an_answer_or_a_problem_for_each_file(run: Run, files: dict[str, Path]) -> None:
    asked = [*files.values(), Path("nothing.sh")]
    told = json.loads(run("check", *asked, "--format", "json")[1])
    assert [one["path"] for one in told] == list(map(str, asked))
    assert [one["outcome"] for one in told] == [*files, "invalid"]
    assert [one["problem"] is None for one in told] == [True] * 4 + [False]
    assert told[-1]["problem"]["code"] == "unreadable_file"
    assert told[0]["oom_probability"] < 0.01
    assert told[2]["peak"]["required_bytes"] > told[2]["capacity"]["usable_bytes"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_for_the_answers_leaves_text_on_standard_output(
    run: Run, files: dict[str, Path], tmp_path: Path, form: str
) -> None:
    output = tmp_path / "answers"
    code, out, err = run("check", files["warn"], "--format", form, "--output", output)
    assert (code, err) == (0, "")
    assert out == run("check", files["warn"])[1]
    times = re.compile(r'time="[^"]*"')
    written, alone = output.read_text(), run("check", files["warn"], "--format", form)[1]
    assert times.sub("", written) == times.sub("", alone)


@pytest.mark.parametrize("output", ["nowhere/answers.json", "."])
def test_answers_that_cannot_be_written_are_a_sentence(
    run: Run, files: dict[str, Path], tmp_path: Path, output: str
) -> None:
    code, out, err = run("check", files["warn"], "--output", tmp_path / output)
    assert (code, out) == (2, "")
    assert "cannot be written" in err


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_is_no_verdict(files: dict[str, Path], form: str) -> None:
    # An uncaught error would end with 1, which says deny.
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(  # noqa: S603 our own program
            [sys.executable, "-c", PROGRAM, "check", str(files["allow"]), "--format", form],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "Standard output cannot be written" in done.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_terminal_of_few_characters_gets_its_answer(tmp_path: Path, form: str) -> None:
    file = tmp_path / "größe-😀.sh"
    file.write_text(DENIED)
    done = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-c", PROGRAM, "check", str(file), "--format", form],
        capture_output=True, check=False, env={"PATH": "", "PYTHONIOENCODING": "latin-1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, b"")
    expected = {"text": "größe-?.sh".encode("latin-1"), "sarif": b"gr%C3%B6%C3%9Fe-%F0%9F%98%80.sh"}
    assert expected.get(form, "größe-😀.sh".encode()) in done.stdout


LINES = [
    ("train.sbatch", DENIED, DENIED_LINE),
    ("broken.sh", INVALID, INVALID_LINE),
    ("open.sh", "#!/bin/bash\necho hi\npython train.py 'x\n", 3),
    ("away.sh", f"#!/bin/bash\n\n{TRAIN} --deepspeed ds.json\n", 3),
    ("job.yaml", "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: x\n   spec: 3\n", 5),
    ("twice.yaml", "model: {name: gpt2}\nmicro_batch_size: 1\nmicro_batch_size: 2\n", 3),
    ("comma.json", '{\n "job": {\n  "model": }\n}', 3),
    ("small.json", '{"model": {"name": "gpt2"}}', None),
]


@pytest.mark.parametrize(
    ("name", "text", "line"), LINES, ids=[name.partition(".")[0] for name, _, _ in LINES]
)
def test_the_line_is_that_of_the_problem(
    run: Run, tmp_path: Path, name: str, text: str, line: int | None
) -> None:
    (tmp_path / name).write_text(text)
    (answer,) = json.loads(run("check", tmp_path / name, "--format", "json")[1])
    assert answer["line"] == line
    (result,) = _sarif(run, tmp_path / name)["results"]
    region = result["locations"][0]["physicalLocation"].get("region")
    assert region == (None if line is None else {"startLine": line})


def test_the_line_of_a_file_that_a_script_names_is_not_the_scripts(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.sh").write_text(f"#!/bin/bash\n\n{TRAIN} --deepspeed ds.json\n")
    (tmp_path / "ds.json").write_text('{\n "zero_optimization": ,\n}')
    code, out, _ = run("check", tmp_path / "train.sh", "--format", "json")
    (answer,) = json.loads(out)
    assert (code, answer["line"], "s.json, line 2" in answer["message"]) == (2, None, True)


SECRETS = ("plain-secret-1", "plain-secret-2", "hf_abcdefghijklmnopqrstuvwx")


def _with_secrets(train: str) -> dict[str, str]:
    """Return files whose launches have secrets in their environment, by name."""
    first, second, token = SECRETS
    exports = (
        f"export WANDB_API_KEY={first}\nexport DB_PASSWORD={second}\nexport HF_TOKEN={token}\n"
    )
    variables = {"WANDB_API_KEY": first, "DB_PASSWORD": second, "HF_TOKEN": token}
    env = [{"name": name, "value": value} for name, value in variables.items()]
    container = {"name": "train", "image": "x", "command": ["bash", "-c", train], "env": env}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}
    command = f"{train} --hub_token $HF_TOKEN"
    return {
        "train.sh": f"#!/bin/bash\n{exports}{train} --hub_token $HF_TOKEN\n",
        "inline.sh": f"#!/bin/bash\nHF_TOKEN={token} DB_PASSWORD={second} {train}\n",
        "pod.json": json.dumps(pod),
        "request.json": json.dumps({"launch": {"command": command, "env": variables}}),
    }


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "train", [TRAIN, TRAIN.replace("4096", "many"), f"{TRAIN} --deepspeed ds.json"]
)
def test_no_format_tells_a_secret_of_the_environment(
    run: Run, tmp_path: Path, train: str, form: str
) -> None:
    texts, output = _with_secrets(train), tmp_path / "answers"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    given = [f"--env=MORE_{index}_TOKEN={secret}" for index, secret in enumerate(SECRETS)]
    files = [tmp_path / name for name in texts]
    _, out, err = run("check", *files, *given, "--format", form, "--output", output)
    assert all(str(file) in out for file in files)
    for secret in SECRETS:
        assert secret not in out + err + output.read_text()


@pytest.mark.parametrize("form", FORMATS)
def test_a_secret_is_hidden_where_a_value_is_repeated(run: Run, tmp_path: Path, form: str) -> None:
    file = tmp_path / "request.json"
    command = TRAIN.replace("4096", "$API_KEY")
    file.write_text(json.dumps({"launch": {"command": command, "env": {"API_KEY": SECRETS[0]}}}))
    out = run("check", file, "--format", form)[1]
    assert "[masked]" in out
    assert SECRETS[0] not in out


def test_a_variable_that_is_no_text_is_refused_without_its_value(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(DENIED)
    code, _, err = run("check", tmp_path / "train.sh", "--env", f"HF_TOKEN={SECRETS[0]}\udcff")
    assert (code, "--env HF_TOKEN" in err, SECRETS[0] in err) == (2, True, False)
