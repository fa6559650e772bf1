"""Whatever a file holds, ``vramgate check`` has an answer, and every format can tell it."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.checked_files import ALLOWED, DENIED, INVALID
from vramgate.admission.policy import DEFAULT_POLICY
from vramgate.cli.checks.files import Check
from vramgate.cli.checks.json import as_json
from vramgate.cli.checks.junit import as_junit
from vramgate.cli.checks.outcome import Outcome
from vramgate.cli.checks.question import Said
from vramgate.cli.checks.sarif import as_sarif
from vramgate.cli.checks.text import as_text
from vramgate.workflows.check_job import Overrides
from vramgate.workflows.load_catalogs import load_catalogs

SEEDS = (
    DENIED,
    INVALID,
    json.dumps(ALLOWED),
    "apiVersion: v1\nkind: Pod\nspec: {containers: []}\n",
)
SUFFIXES = ("", ".sh", ".json", ".yaml", ".toml")
PIECES = st.one_of(
    st.binary(max_size=20),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([b"---\n", b"{", b"]", b"'", b"&a ", b"*a", b"null", b"1e999", b"${X:-", b"\0"]),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the files, one after another."""
    return tmp_path_factory.mktemp("any")


@pytest.fixture(scope="module")
def check() -> Check:
    """Return a check under the default policy."""
    return Check(
        said=Said(),
        policy=DEFAULT_POLICY,
        overrides=Overrides(),
        catalogs=load_catalogs(),
        warn_counts_as=Outcome.WARN,
        has_time=lambda: True,
    )


@given(
    seed=st.sampled_from(SEEDS),
    suffix=st.sampled_from(SUFFIXES),
    place=st.floats(0, 1),
    removed=st.integers(0, 40),
    piece=PIECES,
)
def test_any_file_has_an_outcome_that_every_format_tells(
    check: Check, folder: Path, seed: str, suffix: str, place: float, removed: int, piece: bytes
) -> None:
    raw = seed.encode()
    begin = round(place * len(raw))
    file = folder / f"file{suffix}"
    file.write_bytes(raw[:begin] + piece + raw[begin + removed :])

    checked = [check.file(file)]

    told = f"{file}: {checked[0].outcome.value}: "
    assert as_text(checked).startswith(told)
    assert json.loads(as_json(checked))[0]["outcome"] == checked[0].outcome.value
    is_told = checked[0].outcome is not Outcome.ALLOW
    assert len(json.loads(as_sarif(checked))["runs"][0]["results"]) == is_told
    assert ET.fromstring(as_junit(checked)).tag == "testsuites"  # noqa: S314 our own
