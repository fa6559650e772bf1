from typing import Any

import pytest

from tests.accuracy.rows import a_case, lines
from vramgate.accuracy.cases import (
    InvalidCasesError,
    Kind,
    Layer,
    LengthIs,
    bundled_cases,
    read_cases,
)
from vramgate.accuracy.predictions import NoPrediction, Prediction, predict
from vramgate.workflows.load_catalogs import load_catalogs

TRACE = {"id": "t", "family": "llama", "job": {}, "exact": {"peak_bytes": 10, "peak_phase": "loss"}}


def test_the_bundled_rows_are_all_there_with_unique_ids() -> None:
    # As counted in README.md of the package.
    cases = bundled_cases()
    assert (len(cases.oracle), len(cases.measured), len(cases.peers)) == (2586, 756, 739)
    assert len({case.id for case in cases.measured}) == 756
    assert {peer.id for peer in cases.peers} <= {case.id for case in cases.measured}
    assert all(case.source for case in cases.measured)


def test_a_file_may_mix_kinds_which_the_fields_tell_apart() -> None:
    rows = [a_case(), TRACE, {"id": "gpt2-full", "predicted_bytes": {"rule": 5, "other": None}}]
    cases = read_cases(lines(rows) + "\n", name="held-back.jsonl")
    (case,), (trace,), (peer,) = cases.measured, cases.oracle, cases.peers
    assert (case.kind, case.layer, case.length_is) == (
        Kind.MEASURED,
        Layer.ALLOCATED,
        LengthIs.EXACT,
    )
    assert (trace.peak_bytes, trace.saved_bytes_per_block) == (10, None)
    assert peer.predicted_bytes == {"rule": 5}


def test_an_outcome_without_a_peak_is_a_case_of_no_stated_layer() -> None:
    (case,) = read_cases(lines([a_case(measured={"kind": "oom"})]), name="x").measured
    assert (case.kind, case.layer, case.peak_bytes) == (Kind.OOM, Layer.UNSTATED, None)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "x"}, "lacks 'measured or exact or predicted_bytes'"),
        (a_case(measured={"kind": "measured"}), "lacks 'peak_bytes'"),
        (a_case(measured={"kind": "guessed"}), "'guessed' is not one of measured, fits, oom"),
        (a_case(measured={"kind": "measured", "peak_bytes": 0}), "0 is no size in bytes"),
        ([], "a row is an object"),
    ],
)
def test_a_line_that_is_no_case_is_named(
    row: Any,  # noqa: ANN401 whatever JSON holds
    words: str,
) -> None:
    with pytest.raises(InvalidCasesError) as refused:
        read_cases(lines([a_case(), row]), name="rows.jsonl")
    assert refused.value.message.startswith("rows.jsonl, line 2: ")
    assert words in refused.value.message


def test_a_prediction_is_the_services_answer() -> None:
    prediction = predict(a_case()["job"], load_catalogs())
    assert isinstance(prediction, Prediction)
    # GPT-2 has 124 439 808 parameters; fp32 AdamW needs 16 bytes for each.
    assert prediction.layers.allocated_bytes >= 16 * 124_439_808
    assert prediction.layers.required_bytes >= prediction.layers.allocated_bytes
    assert prediction.method == "full"


def test_a_job_that_is_refused_says_why() -> None:
    outcome = predict({"model": {"name": "nobody/nothing"}}, load_catalogs())
    assert isinstance(outcome, NoPrediction)
    assert "nobody/nothing" in outcome.reason
