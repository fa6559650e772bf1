"""YAML, JSON and TOML of strangers: what they mean, and where they are wrong."""

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vramgate.launch.documents import (
    UnreadableLaunchError,
    leaves,
    read_json,
    read_toml,
    read_yaml,
    read_yaml_documents,
)
from vramgate.launch.yaml_values import MAX_DEPTH, MAX_VALUES

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=8), inner, max_size=4
    ),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: 1, c: [x, 'y', \"z\\n\"]}\n",
        "lr: 1e-5\nsteps: 1_000\nbf16: yes\nfp16: off\nempty:\nhex: 0x1F\noctal: 017\ntime: 1:30\n",
        "base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\nboth:\n  <<: [*b, {z: 4}]\n",
        "text: |\n  one\n  two\nfolded: >-\n  one\n  two\n",
        "- 1\n- [2, {three: 3}]\n",
        "key with blanks: 'it''s'\n? explicit\n: value\n",
    ],
)
def test_yaml_means_what_pyyaml_says_it_means(text: str) -> None:
    assert read_yaml(text, "t.yaml") == yaml.safe_load(text)


@given(JSON_VALUES)
def test_yaml_written_by_pyyaml_reads_back(value: Any) -> None:  # noqa: ANN401 any JSON
    assert read_yaml(yaml.safe_dump(value), "t.yaml") == value


@given(JSON_VALUES)
def test_json_reads_back(value: Any) -> None:  # noqa: ANN401 any JSON
    assert read_json(json.dumps(value), "t.json") == value


def test_dates_stay_text() -> None:
    assert read_yaml("day: 2026-11-29", "t.yaml") == {"day": "2026-11-29"}


def test_several_documents_are_told_apart() -> None:
    text = "a: 1\n---\n---\nb: 2\n"
    assert read_yaml_documents(text, "t.yaml") == [{"a": 1}, {"b": 2}]
    with pytest.raises(UnreadableLaunchError, match="2 documents"):
        read_yaml(text, "t.yaml")


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 1, "'a' stands twice"),
        ("a:\n\tb: 1\n", 2, 1, "not YAML"),
        ("a: [1, 2\nb: 3\n", 2, 2, "not YAML"),
        ("a: &x [*x]\n", 1, 8, "stands for nothing yet, or for itself"),
        ("a: *nobody\n", 1, 4, "stands for nothing yet"),
        ("a: !!python/object:os.system x\n", 1, 4, "not plain data"),
        ("a: !secret x\n", 1, 4, "not plain data"),
        ("? [a, b]\n: 1\n", 1, 3, "a key is a list or an object"),
        ("<<: 1\n", 1, 5, "merges objects only"),
    ],
)
def test_faults_of_yaml_have_their_place(text: str, line: int, column: int, what: str) -> None:
    with pytest.raises(UnreadableLaunchError, match=what) as caught:
        read_yaml(text, "t.yaml")
    assert caught.value.message.startswith(f"t.yaml, line {line}, column {column}: ")
    assert (caught.value.data["line"], caught.value.data["column"]) == (line, column)


def test_a_tab_is_named_as_what_it_is() -> None:
    with pytest.raises(UnreadableLaunchError) as caught:
        read_yaml("a:\n\tb: 1\n", "t.yaml")
    assert "tabs" in caught.value.hint


@pytest.mark.parametrize(
    "text", [LAUGHS, "[" * 1_000_000, "{a: " * 100_000, "- " * 100_000, "&a " * 1000 + "x"]
)
def test_bombs_are_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(UnreadableLaunchError):
        read_yaml(text, "t.yaml")
    assert time.process_time() - began < 5  # minutes, if it were followed


def test_depth_and_number_are_bounded() -> None:
    read_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH, "t.yaml")
    with pytest.raises(UnreadableLaunchError, match=f"more than {MAX_DEPTH} deep"):
        read_yaml("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "t.yaml")
    with pytest.raises(UnreadableLaunchError, match=f"more than {MAX_VALUES} values"):
        read_yaml("- 1\n" * (MAX_VALUES + 1), "t.yaml")


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ('{"a": 1,\n// a comment\n"b": 2}', 2, "JSON has no comments; one stands in line 2."),
        ('{"a": 1,}', 1, ""),
        ('{"a": NaN}', None, ""),
        ('{"a": 1, "a": 2}', None, ""),
        ("", 1, ""),
    ],
)
def test_faults_of_json_have_their_place(text: str, line: int | None, hint: str) -> None:
    with pytest.raises(UnreadableLaunchError) as caught:
        read_json(text, "ds.json")
    assert caught.value.message.startswith("ds.json")
    assert (caught.value.data["line"], caught.value.hint) == (line, hint)


def test_faults_of_toml_have_their_place() -> None:
    with pytest.raises(UnreadableLaunchError, match="line 2, column"):
        read_toml("[model]\nname = llama3\n", "t.toml")
    with pytest.raises(UnreadableLaunchError, match="too deeply"):
        read_toml("a = " + "[" * 100_000, "t.toml")


def test_leaves_are_named_by_their_path() -> None:
    assert list(leaves({"a": {"b": {"c": 1}}, "d": {}})) == [("a.b.c", 1)]
