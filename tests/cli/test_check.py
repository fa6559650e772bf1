"""``vramgate check``: what becomes of files, and the exit code that says so."""

import io
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.checked_files import ALLOWED, DENIED, TRAIN, WARNED, write_files
from tests.cli.conftest import Run
from vramgate.cli.checks.outcome import Outcome, exit_code

CODES = {"allow": 0, "warn": 0, "deny": 1, "invalid": 2, "unchecked": 3}
"""As DESIGN.md and the help of the command have them."""
FROM_BEST_TO_WORST = (0, 3, 1, 2)
MANIFEST = f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{a: b}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: sft}}
spec:
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}}
      containers:
        - name: train
          image: example/trainer
          command: ["bash", "-c", "{TRAIN}"]
          resources: {{limits: {{nvidia.com/gpu: 8}}}}
"""
SERVER = (
    "fastapi", "starlette", "uvicorn", "structlog", "pydantic_settings", "sqlalchemy", "alembic",
    "asyncpg", "aiosqlite",
)  # fmt: skip
Stdin = Callable[[bytes], None]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Return a file of each kind, by the word that it is answered with."""
    return write_files(tmp_path)


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Stdin:
    """Return a way to say what standard input holds."""

    def holds(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))

    return holds


def outcome_of(run: Run, file: object, *options: object) -> str:
    """Return the one file's outcome; the exit code agrees with it."""
    code, out, err = run("check", file, "--format", "json", *options)
    (answer,) = json.loads(out)
    assert (code, err) == (CODES[answer["outcome"]], "")
    return str(answer["outcome"])


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_exit_code_is_that_of_the_worst_file(
    run: Run, files: dict[str, Path], number: int
) -> None:
    for words in itertools.permutations(files, number):
        worst = max((CODES[word] for word in words), key=FROM_BEST_TO_WORST.index)
        code, out, err = run("check", *(files[word] for word in words))
        assert (code, err) == (worst, "")
        told = [line.split(": ")[1] for line in out.splitlines() if not line.startswith(" ")]
        assert told == list(words)


@given(st.lists(st.sampled_from(Outcome), min_size=1))
def test_no_other_file_makes_an_exit_code_better(outcomes: list[Outcome]) -> None:
    worst = max((CODES[one.value] for one in outcomes), key=FROM_BEST_TO_WORST.index)
    assert exit_code(outcomes) == worst


def test_without_time_files_are_unchecked_but_what_cannot_be_read_is_invalid(
    run: Run, files: dict[str, Path]
) -> None:
    assert outcome_of(run, files["allow"], "--timeout", 0) == "unchecked"
    assert outcome_of(run, files["deny"], "--timeout", 0) == "unchecked"
    code, out, _ = run("check", files["deny"], "nothing.sh", "--timeout", 0)
    assert (code, out.count("unchecked"), out.count("No such file")) == (2, 1, 1)


def test_strict_counts_a_warning_as_a_denial(run: Run, files: dict[str, Path]) -> None:
    assert run("check", files["allow"], "--strict")[0] == 0
    code, out, _ = run("check", files["warn"], "--strict")
    assert code == 1
    assert "nowhere.yaml: warn: " in out


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.slurm", DENIED),
        ("train", DENIED),
        ("job.yaml", MANIFEST),
        ("job.yml", "\ufeff" + MANIFEST),
        ("request.json", json.dumps({"launch": {"script": DENIED}, "submitter": "alice"})),
        ("request.yaml", "launch:\n  command: " + json.dumps(TRAIN)),
    ],
)
def test_a_file_is_what_it_holds(run: Run, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert outcome_of(run, tmp_path / name, "--accelerator", "a100-sxm4-80gb") == "deny"


@pytest.mark.parametrize("text", [DENIED, MANIFEST, json.dumps({"launch": {"script": DENIED}})])
def test_standard_input_is_read_as_any_file(run: Run, stdin: Stdin, text: str) -> None:
    stdin(text.encode())
    assert outcome_of(run, "-") == "deny"


@pytest.mark.parametrize(
    ("raw", "words"),
    [(b"", "standard input is empty"), (b"\xff\xfe\0", "standard input is not text in UTF-8")],
)
def test_standard_input_is_called_so(run: Run, stdin: Stdin, raw: bytes, words: str) -> None:
    stdin(raw)
    code, out, _ = run("check", "-")
    assert (code, words in out) == (2, True)


def test_a_closed_standard_input_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    code, out, _ = run("check", "-")
    assert (code, "it is closed" in out) == (2, True)


def test_files_that_a_launch_names_are_read_beside_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(DENIED.replace("--bf16", "--deepspeed ds.json --bf16"))
    assert outcome_of(run, tmp_path / "train.sh") == "warn"
    # ZeRO's third stage: each of eight cards holds an eighth of the states.
    stage = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
    (tmp_path / "ds.json").write_text(json.dumps(stage))
    assert outcome_of(run, tmp_path / "train.sh") == "allow"


def test_a_configuration_is_checked_with_its_framework(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("base_model: NousResearch/Llama-3.2-1B\nsequence_len: 2048\nadapter: lora\n")
    code, out, _ = run("check", file)
    assert (code, "--framework" in out) == (2, True)
    assert outcome_of(run, file, "--framework", "axolotl", "--accelerator", "h100") == "allow"


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("empty.sh", b"", "is empty"),
        ("blank.yaml", b"\xef\xbb\xbf \n", "is empty"),
        ("rubbish.sh", bytes(range(256)), "is not text in UTF-8"),
        ("long.sh", b"#" * (2 * 2**20), "has more than 1,048,576 bytes"),
        ("open.json", b'{"model": {', "ends too early"),
        ("deep.json", b"[" * 100_000, "nested more than 64 levels"),
        ("bomb.yaml", b"a: &a [1,1]\n" + b"".join(
            b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 99)) for c in range(98, 104)
        ), "aliases counted"),
        ("two.yaml", b"model: {name: gpt2}\n---\nmodel: {name: gpt2}\n", "holds 2 documents"),
        ("list.json", b"[1]", "says nothing of a job"),
        ("other.yaml", b"hello: world", "A job has the field `model`"),
        ("both.json", b'{"job": {}, "launch": {"command": "x"}}', "exactly one of job and launch"),
        ("nul.json", b'{"model": {"name": "\\u0000"}}', "U+0000"),
        ("job.json", b'{"model": {"name": "gpt2"}, "micro_batch_size": 1e400}', "1e400"),
        ("dos.sh", DENIED.replace("\n", "\r\n").encode(), "dos2unix"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)  # fmt: skip
def test_what_is_no_job_is_invalid_and_says_why(
    run: Run, tmp_path: Path, name: str, raw: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(raw)
    code, out, err = run("check", tmp_path / name)
    assert (code, err) == (2, "")
    assert out.startswith(f"{tmp_path / name}: invalid: ")
    assert words in out


@pytest.mark.parametrize(("name", "words"), [(".", "is a folder"), ("no.sh", "No such file")])
def test_what_is_no_file_is_invalid(run: Run, tmp_path: Path, name: str, words: str) -> None:
    code, out, _ = run("check", tmp_path / name)
    assert (code, words in out) == (2, True)


def test_every_field_at_fault_is_named(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({**ALLOWED, "micro_batch_size": -1, "colour": 1, "taste": 2}))
    out = run("check", file)[1]
    for words in ("/job/micro_batch_size: must be at least 1; got -1", "/job/colour", "/job/taste"):
        assert words in out


def test_names_of_files_and_values_never_move_the_cursor(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a\n\x1b[2J\udcff.json"
    file.write_text(json.dumps({**WARNED, "model": {"name": "gpt2\x1b[2J\u202e"}}))
    for form in ("text", "json", "sarif", "junit"):
        out = run("check", file, "--format", form)[1]
        assert not {"\x1b", "\u202e", "\udcff"} & set(out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--risk", "2"), "--risk: must be less than 1.0; got 2.0"),
        (("--risk", "nan"), "--risk: should be a finite number"),
        (("--risk", "0.6"), "deny_probability 0.5"),
        (("--deny-probability", "0.001"), "risk 0.01 must be less than"),
        (("--accelerator", "h1000"), "--accelerator: no accelerator in the catalog"),
        (("--accelerator", ""), "--accelerator: "),
        (("--devices", "0"), "--devices"),
        (("--devices", "100000000"), "--devices: must be at most"),
        (("--queue", "a\nb"), "--queue: "),
        (("--submitter", ""), "--submitter: "),
        (("--env", "=1"), "--env names no variable"),
        (("--env", "NOBODY_SETS_THIS"), "NOBODY_SETS_THIS is not set here"),
        (("--channel", "pigeon"), "'pigeon' is not one of"),
        (("--timeout", "-1"), "--timeout"),
        (("--policy", "nothing.yaml"), "nothing.yaml cannot be read"),
        (("--site-catalog", "nothing.yaml"), "nothing.yaml cannot be read"),
        ((), "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_that_holds_for_no_file_is_refused_before_any_is_read(
    run: Run, files: dict[str, Path], options: tuple[str, ...], words: str
) -> None:
    code, out, err = run("check", *options, *([files["allow"]] if options else []))
    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err


POLICY = """
mode: off
rules:
  - {name: strict, queue: "gpu-*", mode: enforce}
capacity: {queues: {gpu-a100: a100-sxm4-80gb}}
"""


def _answered(run: Run, *arguments: object) -> dict[str, Any]:
    (answer,) = json.loads(run("check", *arguments, "--format", "json")[1])
    return dict(answer)


def test_a_policy_decides_and_the_verdict_stays(
    run: Run, files: dict[str, Path], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    loose = _answered(run, files["deny"], "--policy", policy)
    strict = _answered(run, files["deny"], "--policy", policy, "--queue", "gpu-x")
    shadow = _answered(run, files["deny"], "--policy", policy, "--mode", "shadow")
    assert [one["verdict"] for one in (loose, strict, shadow)] == ["deny"] * 3
    assert [one["decision"] for one in (loose, strict, shadow)] == ["allow", "deny", "allow"]
    assert [one["mode"] for one in (loose, strict, shadow)] == ["off", "enforce", "shadow"]
    assert loose["policy_version"].startswith("p-")
    # The policy knows the card behind the queue, which the job does not say.
    assert _answered(run, files["warn"], "--policy", policy)["outcome"] == "warn"
    named = _answered(run, files["warn"], "--policy", policy, "--queue", "gpu-a100")
    assert named["outcome"] == "allow"


def test_a_mode_in_a_request_of_yaml_may_be_off(run: Run, tmp_path: Path) -> None:
    policy, request = tmp_path / "policy.yaml", tmp_path / "request.yaml"
    policy.write_text("caller_may_choose: [off]")
    request.write_text(f"mode: off\njob: {json.dumps(ALLOWED)}")
    assert _answered(run, request, "--policy", policy)["mode"] == "off"


def test_a_check_needs_nothing_of_the_server(files: dict[str, Path]) -> None:
    program = (
        f"import sys\nsys.modules.update(dict.fromkeys({SERVER!r}))\n"
        "from vramgate.cli.main import main\nmain()"
    )
    arguments = ["check", *map(str, files.values()), "--format", "sarif"]
    done = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "")
    assert json.loads(done.stdout)["version"] == "2.1.0"
