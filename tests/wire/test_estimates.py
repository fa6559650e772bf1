"""Requests for estimates, and the answer's shape."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.jobs.describing import resolved
from vramgate.calibration.capacity import check_capacity
from vramgate.calibration.versions import UNCALIBRATED
from vramgate.costmodel.breakdown import (
    BillLine,
    Component,
    EstimateWarning,
    MemoryEstimate,
    Peak,
    Phase,
    PhaseBytes,
)
from vramgate.wire.estimates import (
    BatchRequest,
    EstimateRequest,
    EstimateResponse,
    estimate_response,
)
from vramgate.wire.validation import ValidationFailedError, validated

JOB = {"model": {"name": "meta-llama/Llama-3.1-8B"}}


def _refused(body: object) -> dict[str, str]:
    with pytest.raises(ValidationFailedError) as caught:
        validated(EstimateRequest, body)
    return {field.pointer: field.detail for field in caught.value.fields}


def test_a_request_takes_active_calibration_and_one_percent_risk() -> None:
    request = EstimateRequest.model_validate({"job": JOB})

    assert (request.calibration, request.risk) == ("active", 0.01)


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({}, "", "exactly one of job and launch; got none"),
        ({"job": JOB, "launch": {"command": "torchrun x.py"}}, "", "got both"),
        ({"job": JOB, "risk": 0}, "/risk", "greater than 0"),
        ({"job": JOB, "risk": 1}, "/risk", "less than 1"),
        ({"job": JOB, "risk": True}, "/risk", "a number"),
        ({"job": JOB, "risk": "0.1"}, "/risk", "a number"),
        ({"job": JOB, "calibration": 3}, "/calibration", "must be text"),
        ({"job": JOB, "seed": 3}, "/seed", "is not a field here"),
        ({"launch": {}}, "/launch", "got none"),
        ({"launch": {"command": "x", "script": "y"}}, "/launch", "got command, script"),
        ({"job": {"model": {}}}, "/job/model", "exactly one"),
    ],
)
def test_requests_out_of_shape_are_refused_at_their_field(
    body: dict[str, Any], pointer: str, detail: str
) -> None:
    told = _refused(body)

    assert detail in told[pointer]


@pytest.mark.parametrize(
    "launch",
    [
        {"command": "torchrun --nproc_per_node 8 train.py", "env": {"A": ""}},
        {"script": "#!/bin/bash\n#SBATCH -N 1", "files": {"ds.json": "{}"}},
        {"manifest": {"kind": "PyTorchJob"}},
        {"manifest": "kind: Job"},
        {"framework": "axolotl", "config": {"base_model": "x"}},
    ],
)
def test_launches_are_taken_in_every_form(launch: dict[str, Any]) -> None:
    assert EstimateRequest.model_validate({"launch": launch}).launch is not None


def test_a_batch_takes_items_unread() -> None:
    # One bad item fails alone: each is validated when it is answered.
    batch = BatchRequest.model_validate({"items": [{"job": JOB}, {"jbo": 1}, 7, None]})

    assert batch.items == [{"job": JOB}, {"jbo": 1}, 7, None]


@pytest.mark.parametrize("items", [[], [{}] * 1001])
def test_a_batch_holds_one_to_a_thousand_items(items: list[object]) -> None:
    with pytest.raises(ValidationError):
        BatchRequest.model_validate({"items": items})


def test_the_schema_of_a_batch_shows_what_an_item_is() -> None:
    schema = BatchRequest.model_json_schema()

    assert schema["properties"]["items"]["items"] == {"$ref": "#/$defs/EstimateRequest"}


def _an_estimate() -> MemoryEstimate:
    return MemoryEstimate(
        parameters=8_030_261_248,
        trainable_parameters=8_030_261_248,
        active_parameters=8_030_261_248,
        peak=Peak(
            allocated_bytes=100,
            required_bytes=1_000,
            reserved_bytes=1_200,
            device_bytes=1_300,
            phase=Phase.OPTIMIZER_STEP,
            rank="every rank",
        ),
        bill=(
            BillLine(component=Component.WEIGHTS, bytes=60, formula="30 × 2 bytes"),
            BillLine(component=Component.GRADIENTS, bytes=40, formula="20 × 2 bytes", note="n"),
        ),
        timeline=(
            PhaseBytes(
                phase=Phase.FORWARD,
                allocated_bytes=60,
                components={Component.WEIGHTS: 60},
                moment="block 0",
            ),
        ),
        host_bytes=5,
        saved_bytes_per_block=0,
        warnings=(EstimateWarning(code="a", message="b"),) * 2,
    )


def _answer(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    done = resolved(**fields)
    check = check_capacity(1_000, done.job.hardware, 0.01)
    answer = estimate_response(done, _an_estimate(), check, UNCALIBRATED)
    body: dict[str, Any] = json.loads(answer.model_dump_json())
    return body


def test_the_answer_has_the_fields_of_the_design() -> None:
    body = _answer(hardware={"device_memory_bytes": 1_500, "occupied_bytes": 300})

    assert list(body) == [
        "model",
        "peak",
        "bill",
        "timeline",
        "host_bytes",
        "capacity",
        "fits",
        "headroom_bytes",
        "oom_probability",
        "calibration",
        "job",
        "assumptions",
        "warnings",
        "launch",
    ]
    assert body["peak"] == {
        "allocated_bytes": 100,
        "required_bytes": 1_000,
        "reserved_bytes": 1_200,
        "device_bytes": 1_300,
        "upper_bytes": 1_200,
        "risk": 0.01,
        "phase": "optimizer_step",
        "rank": "every rank",
    }
    assert body["bill"][1] == {
        "component": "gradients",
        "bytes": 40,
        "formula": "20 × 2 bytes",
        "note": "n",
    }
    assert body["timeline"][0]["components"] == {"weights": 60}
    assert body["capacity"] == {"accelerator": "unnamed", "usable_bytes": 1_200}
    assert (body["fits"], body["headroom_bytes"]) == (True, 200)
    assert body["oom_probability"] == pytest.approx(0.01)
    assert body["calibration"] == {"version": "none", "segment": "", "reports": 0}


def test_assumptions_say_where_a_value_is_from() -> None:
    assert {"field": "attention", "value": "sdpa", "from": "transformers default"} in _answer()[
        "assumptions"
    ]


def test_without_an_accelerator_nothing_is_said_of_capacity() -> None:
    body = _answer()

    assert [body[name] for name in ("capacity", "fits", "headroom_bytes", "oom_probability")] == [
        None
    ] * 4


def test_a_warning_is_told_once() -> None:
    warnings = _answer()["warnings"]

    assert warnings.count({"code": "a", "message": "b"}) == 1


def test_answers_promise_every_field() -> None:
    schema = EstimateResponse.model_json_schema(mode="serialization")

    for name in ("EstimateResponse", "PeakAnswer", "BillLineAnswer", "AssumptionAnswer", "JobOut"):
        part = schema if name == "EstimateResponse" else schema["$defs"][name]
        assert set(part["required"]) == set(part["properties"]), name
