"""``vramgate policy lint``: what is wrong with a file, and what is probably not meant."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SOUND = "mode: enforce\nrisk: 0.02\nrules:\n  - {name: debug, queue: debug, mode: off}\n"
DOUBTFUL = "mode: off\n"
"""Nothing is ever refused, which shadow does as well and reports on."""
SERVER = ("fastapi", "pydantic_settings", "sqlalchemy", "alembic", "asyncpg", "aiosqlite")


@pytest.fixture(autouse=True)
def _no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a database that no command can use."""
    monkeypatch.setenv("VRAMGATE_DATABASE_URL", "none://")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("policy.yaml", SOUND),
        ("policy.json", '{"mode": "shadow"}'),
        ("policy", "\ufeffmode: shadow"),
        ("policy.yml", "exemptions: [{name: a, submitter: b, until: 2027-01-01T00:00:00Z, reason: c}]"),
        ("words.yaml", "caller_may_choose: [warn, shadow]\nrules: [{name: a, queue: b, mode: off}]"),
    ],
)  # fmt: skip
def test_a_sound_policy_leaves_nothing_to_say(
    run: Run, tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert run("policy", "lint", file, "--strict") == (0, f"{file}: nothing to say.\n", "")


def test_standard_input_is_read_as_any_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SOUND.encode())))
    assert run("policy", "lint", "-") == (0, "standard input: nothing to say.\n", "")


def test_what_is_probably_not_meant_is_a_warning_and_with_strict_exit_code_1(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(DOUBTFUL)
    code, out, err = run("policy", "lint", file)
    assert (code, out) == (0, "")
    assert err.startswith("warning: /mode: The mode is off for every job")
    assert run("policy", "lint", file, "--strict") == (1, "", err)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.yaml", "risk: 0.9", "/risk: risk 0.9 must be less than deny_probability 0.5"),
        ("p.yaml", "risk: many", "/risk: "),
        ("p.yaml", "mode: on", "/mode: must be one of 'off', 'shadow', 'warn' or 'enforce'; got True"),
        ("p.json", '{"mode": false}', "/mode: "),
        ("p.yaml", "colour: 1\ntaste: 2", "/taste: is not a field here"),
        ("p.yaml", "capacity: {queues: {gpu: h1000}}", "/capacity/queues/gpu: "),
        ("p.yaml", "exemptions: [{name: a, until: 2027-01-01T00:00:00Z, reason: b}]", "/exemptions/0"),
        ("p.yaml", "exemptions: [{name: a, submitter: b, until: 2027-01-01, reason: c}]", "its zone"),
        ("p.yaml", "rules: [{name: a, mode: warn}, {name: a, mode: warn}]", "/rules/1/name: "),
        ("p.yaml", "[1]", "The policy must be an object"),
        ("p.yaml", "a: 1\na: 2", "line 2, column 1: the key 'a' stands twice"),
        ("p.yaml", "mode: warn\n---\nmode: off", "it holds 2 documents"),
        ("p.yaml", "mode: warn\n\trisk: 1", "line 2, column 1: not YAML"),
        ("p.json", "{", "line 1, column 2"),
        ("p.yaml", " \n", "is empty"),
        ("p.yaml", "#" * (2 * 2**20), "more than 1,048,576 bytes"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_a_sentence_that_names_the_file(
    run: Run, tmp_path: Path, name: str, text: str, words: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    code, out, err = run("policy", "lint", file)
    assert (code, out) == (2, "")
    assert str(file) in err
    assert words in err
    assert "Traceback" not in err


def test_every_fault_is_told(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("colour: 1\ntaste: 2\nmode: on\n")
    err = run("policy", "lint", file)[2]
    assert [
        pointer for pointer in ("/colour", "/taste", "/mode") if f"{pointer}: " not in err
    ] == []


@pytest.mark.parametrize(("name", "words"), [(".", "is a folder"), ("no.yaml", "No such file")])
def test_what_is_no_file_is_a_sentence(run: Run, tmp_path: Path, name: str, words: str) -> None:
    code, out, err = run("policy", "lint", tmp_path / name)
    assert (code, out, words in err) == (2, "", True)


def test_rubbish_is_a_sentence(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(bytes(range(256)))
    assert run("policy", "lint", file) == (2, "", f"{file} is not text in UTF-8.\n")


def test_lint_needs_nothing_of_the_server(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(SOUND)
    program = (
        f"import sys\nsys.modules.update(dict.fromkeys({SERVER!r}))\n"
        "from vramgate.cli.main import main\nmain()"
    )
    done = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-c", program, "policy", "lint", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
