import json
from typing import Any

import httpx
import pytest

from tests.factories import a_job, a_request
from vramgate.calibration.versions import factory_calibration
from vramgate.wire.estimates import EstimateResponse

ESTIMATES = "/v1/estimates"
BATCH = "/v1/estimates/batch"


async def _pointers(client: httpx.AsyncClient, body: dict[str, Any], path: str) -> list[str]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    return [error["pointer"] for error in answer.json()["errors"]]


async def test_the_bill_adds_up_to_the_allocated_peak(client: httpx.AsyncClient) -> None:
    answer = await client.post(ESTIMATES, json=a_request())
    assert answer.status_code == 200, answer.text
    estimate = EstimateResponse.model_validate_json(answer.content)
    assert sum(line.bytes for line in estimate.bill) == estimate.peak.allocated_bytes
    for phase in estimate.timeline:
        assert sum(phase.components.values()) == phase.allocated_bytes
    assert max(phase.allocated_bytes for phase in estimate.timeline) == (
        estimate.peak.allocated_bytes
    )


async def test_the_verdict_compares_required_with_usable_bytes(client: httpx.AsyncClient) -> None:
    answer = (await client.post(ESTIMATES, json=a_request())).json()
    usable, required = answer["capacity"]["usable_bytes"], answer["peak"]["required_bytes"]
    assert answer["headroom_bytes"] == usable - required
    assert answer["fits"] is True


async def test_without_an_accelerator_there_is_no_verdict(client: httpx.AsyncClient) -> None:
    answer = (await client.post(ESTIMATES, json={"job": {"model": {"name": "gpt2"}}})).json()
    assert (answer["capacity"], answer["fits"], answer["oom_probability"]) == (None, None, None)


async def test_every_default_taken_is_told_with_its_source(client: httpx.AsyncClient) -> None:
    answer = (await client.post(ESTIMATES, json={"job": {"model": {"name": "gpt2"}}})).json()
    taken = {one["field"]: one["from"] for one in answer["assumptions"]}
    assert {"micro_batch_size", "attention", "activation_checkpointing.mode"} <= taken.keys()
    assert all(taken.values())


async def test_the_job_as_understood_gives_the_same_estimate(client: httpx.AsyncClient) -> None:
    first = (await client.post(ESTIMATES, json=a_request())).json()
    second = (await client.post(ESTIMATES, json={"job": first["job"]})).json()
    assert second["peak"] == first["peak"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"micro_batch_size": True}, "/job/micro_batch_size"),
        ({"micro_batch_size": "2"}, "/job/micro_batch_size"),
        ({"micro_batch_size": 1.5}, "/job/micro_batch_size"),
        ({"micro_batch_size": 0}, "/job/micro_batch_size"),
        ({"micro_batch_size": 2**63}, "/job/micro_batch_size"),
        ({"sequence_length": 10**30}, "/job/sequence_length"),
        ({"sharding": {"zero_stage": False}}, "/job/sharding/zero_stage"),
        ({"sharding": {"zero_stage": 4}}, "/job/sharding/zero_stage"),
        ({"compile": 1}, "/job/compile"),
        ({"method": "loora"}, "/job/method"),
        ({"method": {"kind": "lora", "rank": False}}, "/job/method/rank"),
        ({"optimizer": {"name": "adamw", "lr": 1e-4}}, "/job/optimizer/lr"),
        ({"hardware": {"accelerator": "a100-sxm4-80gb", "devices": True}}, "/job/hardware/devices"),
        ({"hardware": {"accelerator": "abacus"}}, "/job/hardware/accelerator"),
        ({"model": {"name": "nobody/nothing"}}, "/job/model/name"),
        ({"model": {}}, "/job/model"),
        ({"model": {"name": "gpt2", "parameters": 1}}, "/job/model"),
        ({"model": {"config": {"model_type": "llama"}}}, "/job/model/config"),
        ({"model": {"parameters": True}}, "/job/model/parameters"),
        ({"parallelism": {"tensor_parallel_size": 7}}, "/job/parallelism/tensor_parallel_size"),
    ],
)
async def test_a_bad_field_is_refused_at_its_place(
    client: httpx.AsyncClient, fields: dict[str, Any], pointer: str
) -> None:
    pointers = await _pointers(client, {"job": a_job(**fields)}, ESTIMATES)
    assert pointers
    assert all(found.startswith(pointer) for found in pointers)


async def test_whole_numbers_may_be_written_as_floats(client: httpx.AsyncClient) -> None:
    answers = [
        (await client.post(ESTIMATES, json={"job": a_job(micro_batch_size=size)})).json()["peak"]
        for size in (2, 2.0)
    ]
    assert answers[0] == answers[1]


async def test_hardware_beside_a_job_is_not_passed_over(client: httpx.AsyncClient) -> None:
    body = a_request(hardware={"accelerator": "t4"})
    assert await _pointers(client, body, ESTIMATES) == ["/hardware"]


async def test_an_unknown_calibration_is_refused(client: httpx.AsyncClient) -> None:
    assert await _pointers(client, a_request(calibration="v9"), ESTIMATES) == ["/calibration"]
    refused = (await client.post(ESTIMATES, json=a_request(calibration="v9"))).json()
    assert factory_calibration().version in refused["hint"]


async def test_a_calibration_asked_for_by_name_says_what_it_rests_on(
    client: httpx.AsyncClient,
) -> None:
    version = factory_calibration().version
    answer = (await client.post(ESTIMATES, json=a_request(calibration=version))).json()
    stamp = answer["calibration"]
    assert stamp["version"] == version
    assert stamp["segment"]
    assert stamp["reports"] >= 99
    assert sum(line["bytes"] for line in answer["bill"]) == answer["peak"]["allocated_bytes"]
    assert any("by calibration" in line["formula"] for line in answer["bill"])


async def test_active_is_none_to_the_byte(client: httpx.AsyncClient) -> None:
    answers = [
        (await client.post(ESTIMATES, json=a_request(**asked))).content
        for asked in ({}, {"calibration": "active"}, {"calibration": "none"})
    ]
    assert answers[0] == answers[1] == answers[2]
    assert json.loads(answers[0])["calibration"] == {"version": "none", "segment": "", "reports": 0}
    assert b"by calibration" not in answers[0]


async def test_a_smaller_risk_has_a_higher_bound(client: httpx.AsyncClient) -> None:
    bounds = [
        (await client.post(ESTIMATES, json=a_request(risk=risk))).json()["peak"]["upper_bytes"]
        for risk in (0.5, 0.1, 0.001)
    ]
    assert bounds == sorted(bounds)
    assert len(set(bounds)) == 3


async def test_a_batch_answers_in_order_each_item_for_itself(client: httpx.AsyncClient) -> None:
    items: list[Any] = [
        a_request(),
        {"job": a_job(micro_batch_size=0)},
        {"job": a_job(model={"name": "nobody/nothing"})},
        None,
        {"job": {"model": {"name": "gpt2"}}},
    ]
    answer = await client.post(BATCH, json={"items": items})
    assert answer.status_code == 200
    told = answer.json()["items"]
    assert [list(item) for item in told] == [
        ["estimate"],
        ["problem"],
        ["problem"],
        ["problem"],
        ["estimate"],
    ]
    alone = (await client.post(ESTIMATES, json=items[0])).json()
    assert told[0]["estimate"] == alone
    assert told[4]["estimate"]["model"]["name"] == "openai-community/gpt2"


async def test_a_problem_in_a_batch_points_into_the_whole_body(client: httpx.AsyncClient) -> None:
    items = [a_request(), {"job": a_job(micro_batch_size=0)}]
    problem = (await client.post(BATCH, json={"items": items})).json()["items"][1]["problem"]
    assert [error["pointer"] for error in problem["errors"]] == ["/items/1/job/micro_batch_size"]
    assert problem["instance"] == "/v1/estimates/batch#/items/1"
    assert problem["status"] == 422


async def test_a_batch_of_a_thousand_is_answered_and_one_more_is_not(
    client: httpx.AsyncClient,
) -> None:
    item = {"job": {"model": {"name": "gpt2"}}}
    full = await client.post(BATCH, json={"items": [item] * 1000})
    assert len(full.json()["items"]) == 1000
    assert await _pointers(client, {"items": [item] * 1001}, BATCH) == ["/items"]
