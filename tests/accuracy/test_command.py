"""``vramgate accuracy`` on a few rows of a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.accuracy.rows import a_case, lines
from vramgate.cli.main import cli

Run = Callable[..., Result]

TRACE = {
    "id": "gpt2-trace",
    "family": "gpt2",
    "job": a_case()["job"],
    # Weights, gradients and AdamW states in fp32: 16 bytes for each of 124 439 808 parameters.
    "exact": {"peak_bytes": 1_991_036_928, "peak_phase": "optimizer_step"},
}
ROWS = [
    a_case(),
    a_case(id="too-large", measured={"kind": "oom"}),
    a_case(id="unknown", source="other/bench@x", job={"model": {"name": "nobody/nothing"}}),
    {"id": "gpt2-full", "predicted_bytes": {"rule_of_thumb": 3_000_000_000}},
    TRACE,
]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a way to run the command on ``ROWS``."""
    file = tmp_path / "rows.jsonl"
    file.write_text(lines(ROWS), encoding="utf-8")

    def command(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["accuracy", "--cases", str(file), *arguments])

    return command


def _json(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_json_holds_every_row_and_figure(run: Run) -> None:
    report = _json(run("--json"))
    assert list(report) == [
        "model_version",
        "calibration",
        "source",
        "oracle",
        "measured",
        "peers",
        "calibrated",
    ]
    assert report["calibration"] == "none"
    assert report["oracle"]["by_family"]["gpt2"]["rows"] == 1
    measured = report["measured"]
    assert measured["rows"] == 3
    assert [case["id"] for case in measured["cases"]] == ["gpt2-full", "too-large"]
    assert measured["figures"]["exact_by_layer"].keys() == {"allocated"}
    (missing,) = measured["not_estimated"]
    assert (missing["id"], missing["source"]) == ("unknown", "other/bench")
    (peer,) = report["peers"]["peers"]
    # It says 3e9 where 2e9 were measured.
    assert peer["theirs"]["exact"]["median_error_fraction"] == 0.5
    assert report["peers"]["best"]["median_error_fraction"]["peer"] == "rule_of_thumb"


def test_sizes_are_whole_and_fractions_are_not(run: Run) -> None:
    def check(value: Any, name: str = "") -> None:  # noqa: ANN401 whatever JSON holds
        if isinstance(value, dict):
            for key, inner in value.items():
                check(inner, key)
        elif isinstance(value, list):
            for inner in value:
                check(inner, name)
        elif value is not None and name.endswith("_bytes"):
            assert type(value) is int, name
        elif value is not None and name.endswith("fraction"):
            assert type(value) is float, name

    check(_json(run("--json")))


def test_sources_can_be_chosen_and_traces_left_out(run: Run) -> None:
    report = _json(run("--json", "--source", "OTHER/bench", "--no-oracle"))
    assert report["oracle"] is None
    assert report["measured"]["rows"] == 1
    assert report["source"] == "OTHER/bench"


def test_the_tables_fit_a_line(run: Run) -> None:
    shown = run()
    assert shown.exit_code == 0
    for words in ("Exact traces", "By source", "someone/bench", "rule of thumb", "nobody/nothing"):
        assert words in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 120


def test_markdown_has_the_same_tables(run: Run) -> None:
    shown = run("--markdown").stdout
    assert "| someone/bench | 1 |" in shown
    tables = [block for block in shown.split("\n\n") if block.startswith("|")]
    assert len(tables) == shown.count("**") // 2
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("{", (), "line 1"),
        ("", (), "No rows are left"),
        (lines([TRACE]), ("--no-oracle",), "No rows are left"),
        (lines([a_case()]), ("--source", "nowhere"), "No rows are left"),
    ],
)
def test_a_file_without_rows_is_refused_in_words(
    tmp_path: Path, content: str, arguments: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(content, encoding="utf-8")
    result = CliRunner().invoke(cli, ["accuracy", "--cases", str(file), *arguments])
    assert result.exit_code == 1
    assert words in str(result.exception)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.jsonl")
    result = CliRunner().invoke(cli, ["accuracy", "--cases", missing])
    assert missing in str(result.exception)
