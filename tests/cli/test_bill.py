from typing import Any

import pytest
from rich.console import Console

from tests.factories import a_job
from vramgate.cli.bill import bill
from vramgate.wire.estimates import EstimateRequest, EstimateResponse
from vramgate.workflows.estimate_job import answer_request
from vramgate.workflows.load_catalogs import load_catalogs


def _answer(**fields: Any) -> EstimateResponse:  # noqa: ANN401 whatever JSON holds
    request = EstimateRequest.model_validate({"job": a_job(**fields)})
    return answer_request(request, load_catalogs())


def _shown(answer: EstimateResponse) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(bill(answer))
    return captured.get()


def test_a_job_that_does_not_fit_says_by_how_much() -> None:
    shown = _shown(_answer(method="full", hardware={"accelerator": "t4"}))
    assert "Does not fit t4: requires " in shown
    assert "too much" in shown
    assert "over 99.99 %" in shown


def test_a_job_without_an_accelerator_says_what_it_requires() -> None:
    shown = _shown(_answer(hardware={}))
    assert "GiB a card; name an accelerator" in shown


def test_every_line_of_the_bill_and_every_assumption_is_shown() -> None:
    answer = _answer()
    shown = _shown(answer)
    for line in answer.bill:
        assert line.component.replace("_", " ") in shown
    for one in answer.assumptions:
        assert one.field in shown


@pytest.mark.parametrize(("probability", "words"), [(0.25, "25 %"), (None, "unknown")])
def test_the_probability_is_told_in_words(probability: float | None, words: str) -> None:
    answer = _answer().model_copy(update={"oom_probability": probability})
    assert f"with {words} probability" in _shown(answer)


def test_warnings_come_last() -> None:
    answer = _answer()
    told = [{"code": "c", "message": "eager attention keeps the scores"}]
    warned = EstimateResponse.model_validate({**answer.model_dump(by_alias=True), "warnings": told})
    assert _shown(warned).rstrip().endswith("! eager attention keeps the scores")
