"""Whatever a job says, it is answered or refused, and the answer keeps its promises."""

import json
from typing import Any

from hypothesis import HealthCheck, event, given, note, settings

from tests.strategies import jobs
from vramgate.errors import DomainError
from vramgate.wire.estimates import EstimateRequest, EstimateResponse
from vramgate.wire.validation import validated
from vramgate.workflows.estimate_job import answer_request
from vramgate.workflows.load_catalogs import load_catalogs

INT64 = 2**63
CONTRADICTING = {"method", "precision", "optimizer", "parallelism", "sharding"}
"""Without these most jobs can run, so that more of the cost model is met."""


def _answer(job: dict[str, Any]) -> EstimateResponse | DomainError:
    try:
        return answer_request(validated(EstimateRequest, {"job": job}), load_catalogs())
    except DomainError as refused:
        return refused


def _check(job: dict[str, Any]) -> None:
    note(json.dumps({"job": job}))
    answer = _answer(job)
    if isinstance(answer, DomainError):
        event(answer.code)
        assert answer.fields, answer.message
        assert all(field.pointer.startswith("/job") for field in answer.fields)
        return
    event("answered")
    _assert_promises(answer)


@given(jobs())
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
def test_any_job_is_answered_or_refused_at_a_field(job: dict[str, Any]) -> None:
    _check(job)


@given(jobs())
@settings(max_examples=400, suppress_health_check=list(HealthCheck))
def test_any_plain_job_is_answered_or_refused_at_a_field(job: dict[str, Any]) -> None:
    _check({name: value for name, value in job.items() if name not in CONTRADICTING})


def _assert_promises(answer: EstimateResponse) -> None:
    peak = answer.peak
    assert sum(line.bytes for line in answer.bill) == peak.allocated_bytes
    assert all(line.bytes >= 0 and line.formula for line in answer.bill)
    assert max(phase.allocated_bytes for phase in answer.timeline) == peak.allocated_bytes
    for phase in answer.timeline:
        assert sum(phase.components.values()) == phase.allocated_bytes
        assert all(size >= 0 for size in phase.components.values())
    assert 0 <= peak.allocated_bytes <= peak.required_bytes < INT64
    assert answer.model_dump_json()
    again = EstimateRequest.model_validate({"job": answer.job.model_dump(mode="json")})
    assert again.job is not None
