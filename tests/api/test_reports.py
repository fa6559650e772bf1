"""POST /v1/reports, on both databases."""

import gzip
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import httpx
import pytest
import pytest_asyncio
import sqlalchemy as sa
from fastapi import FastAPI
from pydantic import SecretStr

from tests.databases import Databases, rows_of
from tests.factories import BASE_URL, a_job
from tests.reports import A100_BYTES, ALLOCATED, a_report, measured
from vramgate.app import create_app
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import jobs, report_keys, reports
from vramgate.settings import Settings
from vramgate.wire.reports import ReportsResponse

JSON = {"Content-Type": "application/json"}


@pytest_asyncio.fixture
async def service(database_url: str) -> AsyncIterator[FastAPI]:
    """Return a running service on a fresh database."""
    app = create_app(Settings(database_url=SecretStr(database_url)))
    async with app.router.lifespan_context(app):
        yield app


@pytest_asyncio.fixture
async def client(service: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the service."""
    async with client_of(service) as client:
        yield client


@pytest_asyncio.fixture(scope="module")
async def refusing(sqlite_files: Databases) -> AsyncIterator[FastAPI]:
    """Return a service for requests of which nothing may be stored; they share it."""
    app = create_app(Settings(database_url=SecretStr(sqlite_files.fresh())))
    async with app.router.lifespan_context(app):
        yield app


def client_of(service: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL)


async def post(client: httpx.AsyncClient, *items: object, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/v1/reports", json={"reports": list(items)}, headers=named)


async def receipt(client: httpx.AsyncClient, **report: Any) -> dict[str, Any]:  # noqa: ANN401
    answer = await post(client, a_report(**report))
    assert answer.status_code == 202, answer.text
    # The answer is written without its shape; it must have it.
    assert ReportsResponse.model_validate(answer.json()).model_dump(mode="json") == answer.json()
    (item,) = answer.json()["items"]
    assert isinstance(item, dict)
    return item


async def stored(service: FastAPI) -> list[sa.RowMapping]:
    database: Database = service.state.database
    return await rows_of(database, reports)


async def test_a_report_is_kept_with_its_estimate_and_its_residuals(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    item = await receipt(client, run_id="r1")
    assert (item["status"], item["reasons"]) == ("accepted", [])
    residual = item["residuals"]["allocated"]
    assert residual["measured_bytes"] == ALLOCATED
    expected = residual["estimated_bytes"] / ALLOCATED - 1
    assert residual["relative_error"] == pytest.approx(expected, abs=1e-6)
    # What the same job is estimated at when it is asked.
    estimate = (await client.post("/v1/estimates", json={"job": a_job()})).json()
    assert residual["estimated_bytes"] == estimate["peak"]["allocated_bytes"]

    (row,) = await stored(service)
    assert row["report_id"] == item["report_id"]
    assert row["max_allocated_bytes"] == ALLOCATED
    assert row["estimated_required_bytes"] == estimate["peak"]["required_bytes"]
    assert row["digest"] == sha256(row["document"].encode()).hexdigest()
    (job,) = await rows_of(service.state.database, jobs)
    assert json.loads(job["document"]) == a_job()
    assert job["job_digest"] == sha256(job["document"].encode()).hexdigest()
    assert json.loads(row["document"])["job"] == {"sha256": job["job_digest"]}


async def test_the_same_content_is_a_duplicate_however_it_is_spelt(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    report = a_report()
    first = (await post(client, report)).json()["items"][0]
    turned = json.dumps({"reports": [dict(reversed(report.items()))]}, indent=3)
    answer = await client.post("/v1/reports", content=turned, headers=JSON)
    (again,) = answer.json()["items"]
    assert (again["status"], again["report_id"]) == ("duplicate", first["report_id"])
    assert len(await stored(service)) == 1


async def test_a_running_report_is_raised_until_the_run_ends(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    first = await receipt(client, run_id="r", outcome="running", measured=measured(20 * 10**9))
    raised = await receipt(client, run_id="r", outcome="running", measured=measured(21 * 10**9))
    ended = await receipt(client, run_id="r", outcome="oom", measured=measured(22 * 10**9))
    assert [raised["status"], ended["status"]] == ["raised", "raised"]
    assert first["report_id"] == raised["report_id"] == ended["report_id"]
    late = await receipt(client, run_id="r", outcome="completed", measured=measured(23 * 10**9))
    assert late["status"] == "conflict"
    assert "outcome oom" in late["reasons"][0]["message"]
    (row,) = await stored(service)
    assert (row["outcome"], row["max_allocated_bytes"]) == ("oom", 22 * 10**9)
    assert row["first_received_at"] < row["received_at"]
    (key,) = await rows_of(service.state.database, report_keys)
    assert (key["received_at"], key["position"]) == (row["received_at"], row["position"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"measured": measured(19 * 10**9)}, "peaks do not fall"),
        ({"measured": {"max_allocated_bytes": 21 * 10**9}}, "peaks do not fall"),
        ({"job": a_job(micro_batch_size=3)}, "another job"),
    ],
)
async def test_what_does_not_raise_is_a_conflict_and_changes_nothing(
    client: httpx.AsyncClient, service: FastAPI, change: dict[str, Any], words: str
) -> None:
    await receipt(client, run_id="r", outcome="running", measured=measured(20 * 10**9))
    item = await receipt(
        client, **{"run_id": "r", "outcome": "running", "measured": measured(21 * 10**9), **change}
    )
    assert item["status"] == "conflict"
    assert words in item["reasons"][0]["message"]
    (row,) = await stored(service)
    assert row["max_allocated_bytes"] == 20 * 10**9


async def test_one_key_several_times_in_one_batch_is_one_report(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    run = a_report(outcome="running", measured=measured(20 * 10**9))
    higher = {**run, "measured": measured(21 * 10**9)}
    lower = {**run, "measured": measured(19 * 10**9)}
    answer = await post(client, run, run, higher, lower, higher)
    assert [item["status"] for item in answer.json()["items"]] == [
        "accepted", "duplicate", "raised", "conflict", "duplicate",
    ]  # fmt: skip
    (row,) = await stored(service)
    assert row["max_allocated_bytes"] == 21 * 10**9


async def test_one_bad_report_fails_alone(client: httpx.AsyncClient, service: FastAPI) -> None:
    good, bad = a_report(), a_report(outcome="finished")
    answer = await post(client, good, bad, {**good, "rank": 1})
    assert answer.status_code == 202
    first, second, third = answer.json()["items"]
    assert [first["status"], third["status"]] == ["accepted", "accepted"]
    assert second["problem"]["errors"][0]["pointer"] == "/reports/1/outcome"
    assert second["problem"]["instance"] == "/v1/reports#/reports/1"
    assert len(await stored(service)) == 2


async def test_where_no_report_can_be_taken_the_status_says_so(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    answer = await post(client, a_report(rank=-1), a_report(rank=True))
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["code"] == "reports_refused"
    assert [one["pointer"] for one in problem["errors"]] == ["/reports/0/rank", "/reports/1/rank"]
    assert len(problem["items"]) == 2
    assert await stored(service) == []


BIDI, ZERO_WIDTH = "\u202e", "\u200b"

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"run_id": ""}, "/run_id"),
    ({"run_id": "a" * 201}, "/run_id"),
    ({"run_id": f"run{BIDI}1"}, "/run_id"),
    ({"run_id": "line\nbreak"}, "/run_id"),
    ({"rank": "0"}, "/rank"),
    ({"rank": 0.5}, "/rank"),
    ({"rank": 10**9}, "/rank"),
    ({"extra": 1}, "/extra"),
    ({"job": None}, ""),
    ({"job": a_job(), "launch": {"command": "python train.py"}}, ""),
    ({"job": {"model": {"name": "meta-llama/Llama-3.1-8B"}, "method": "lorra"}}, "/job/method"),
    ({"job": "lora"}, "/job"),
    ({"job": a_job(micro_batch_size="2")}, "/job/micro_batch_size"),
    ({"job": a_job(precision={"weights": "fp16", "compute": "bf16"})}, "/job/precision"),
    ({"measured": {}}, "/measured"),
    ({"measured": {"max_allocated_bytes": -1}}, "/measured/max_allocated_bytes"),
    ({"measured": {"max_allocated_bytes": 0}}, "/measured/max_allocated_bytes"),
    ({"measured": {"max_allocated_bytes": 1e300}}, "/measured/max_allocated_bytes"),
    ({"measured": {"max_allocated_bytes": "23 GB"}}, "/measured/max_allocated_bytes"),
    ({"measured": None}, ""),
    ({"measured": measured(90 * 10**9)}, "/measured/max_allocated_bytes"),
    ({"measured": {"device_used_bytes": A100_BYTES + 1}}, "/measured/device_used_bytes"),
    ({"measured": measured(23 * 10**9, 22 * 10**9)}, "/measured/max_allocated_bytes"),
    ({"decision_id": "d", "job": None}, "/decision_id"),
    ({"labels": {f"na{ZERO_WIDTH}me": "x"}}, "/labels/na\u200bme"),
    ({"labels": {"team": f"x{BIDI}"}}, "/labels/team"),
    ({"labels": {"team": "Cafe\u0301"}}, "/labels/team"),
    ({"labels": {"team": 7}}, "/labels/team"),
    ({"step_seconds": 0}, "/step_seconds"),
    ({"tokens_per_second": -1}, "/tokens_per_second"),
    ({"measured_at": "yesterday"}, "/measured_at"),
    ({"measured_at": "2026-11-29T12:00:00"}, "/measured_at"),
    ({"measured_at": "0001-01-01T00:00:00+23:59"}, "/measured_at"),
    ({"measured_at": "9999-12-31T23:59:59Z"}, "/measured_at"),
    ({"measured_at": 1_700_000_000}, "/measured_at"),
    ({"oom_message": "x" * 20_001}, "/oom_message"),
    ({"peak_phase": "sleep"}, "/peak_phase"),
]


@pytest.mark.parametrize(("change", "where"), REFUSED)
async def test_bad_reports_are_refused_at_the_field_and_leave_nothing(
    refusing: FastAPI, change: dict[str, Any], where: str
) -> None:
    report = {name: value for name, value in a_report(**change).items() if value is not None}
    async with client_of(refusing) as client:
        answer = await post(client, report)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    pointers = [one["pointer"] for one in answer.json()["errors"]]
    assert any(one.startswith(f"/reports/0{where}") for one in pointers)
    assert await stored(refusing) == []


GZIP = {"Content-Encoding": "gzip"}

NO_REPORTS: dict[str, tuple[bytes, dict[str, str], str]] = {
    "cut short": (b'{"reports":[{"run_id":', {}, "malformed_json"),
    "not a number": (b'{"reports":[NaN]}', {}, "malformed_json"),
    "latin-1": ('{"reports":[{"run_id":"\u00e9"}]}'.encode("latin-1"), {}, "malformed_json"),
    "utf-16": ('{"reports":[]}'.encode("utf-16"), {}, "malformed_json"),
    "NUL": (b'{"reports":[{"run_id":"a\\u0000b"}]}', {}, "unstorable_text"),
    "half a surrogate": (b'{"reports":[{"run_id":"\\ud800"}]}', {}, "unstorable_text"),
    "no report": (b'{"reports":[]}', {}, "validation_failed"),
    "a list": (b"[]", {}, "validation_failed"),
    "ten megabytes": (b"x" * 10_000_000, {}, "body_too_large"),
    "text": (b"{}", {"Content-Type": "text/plain"}, "unsupported_media_type"),
    "brotli": (b"{}", {"Content-Encoding": "br"}, "unsupported_media_type"),
    "no gzip": (b"{}", GZIP, "malformed_gzip"),
    "gzip cut short": (gzip.compress(b"{}")[:-1], GZIP, "malformed_gzip"),
    "more than gzip": (gzip.compress(b"{}") + b"more", GZIP, "malformed_gzip"),
    "gzip bomb": (gzip.compress(b" " * 50_000_000), GZIP, "body_too_large"),
    "empty key": (b'{"reports":[{}]}', {"Idempotency-Key": '""'}, "invalid_idempotency_key"),
}


@pytest.mark.parametrize("name", NO_REPORTS)
async def test_bodies_that_are_no_reports_are_refused(refusing: FastAPI, name: str) -> None:
    body, headers, code = NO_REPORTS[name]
    async with client_of(refusing) as client:
        answer = await client.post("/v1/reports", content=body, headers={**JSON, **headers})
    assert 400 <= answer.status_code < 500
    assert answer.json()["code"] == code
    assert await stored(refusing) == []


async def test_more_than_a_thousand_reports_are_refused(client: httpx.AsyncClient) -> None:
    answer = await post(client, *[a_report(run_id="r", rank=rank) for rank in range(1001)])
    assert answer.status_code == 422
    assert "at most 1000" in answer.json()["detail"]


async def test_a_thousand_reports_in_gzip_are_kept_together(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    run = a_report(run_id="wide")
    body = json.dumps({"reports": [{**run, "rank": rank} for rank in range(1000)]}).encode()
    headers = {**JSON, "Content-Encoding": "gzip"}
    answer = await client.post("/v1/reports", content=gzip.compress(body), headers=headers)
    assert answer.status_code == 202
    assert {item["status"] for item in answer.json()["items"]} == {"accepted"}
    rows = await stored(service)
    assert sorted(row["rank"] for row in rows) == list(range(1000))
    # In the order they came in.
    assert [r["rank"] for r in sorted(rows, key=lambda row: row["position"])] == list(range(1000))


async def test_sql_in_names_is_a_name(client: httpx.AsyncClient, service: FastAPI) -> None:
    name = "x'; DROP TABLE reports; --"
    item = await receipt(client, run_id=name, labels={name: name})
    assert item["status"] == "accepted"
    (row,) = await stored(service)
    assert row["run_id"] == name


async def test_a_clock_a_few_minutes_ahead_is_forgiven(client: httpx.AsyncClient) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    later = datetime.now(UTC) + timedelta(minutes=20)
    assert (await receipt(client, measured_at=soon.isoformat()))["status"] == "accepted"
    answer = await post(client, a_report(measured_at=later.isoformat()))
    assert answer.json()["errors"][0]["code"] == "in_the_future"


QUARANTINED = [
    ({"measured": measured(79 * 10**9)}, "far_from_estimate"),
    ({"measured": measured(2 * 10**9)}, "far_from_estimate"),
    ({"job": a_job(model={"name": "nobody/has-this-model"})}, "unknown_name"),
    ({"accelerator": "NVIDIA H100 80GB HBM3"}, "other_accelerator"),
    ({"accelerator": None, "accelerator_total_bytes": 192 * 2**30}, "card_larger_than_known"),
]


@pytest.mark.parametrize(("change", "code"), QUARANTINED)
async def test_what_is_possible_but_not_plausible_is_quarantined_with_its_reason(
    client: httpx.AsyncClient, service: FastAPI, change: dict[str, Any], code: str
) -> None:
    report = {name: value for name, value in a_report(**change).items() if value is not None}
    answer = await post(client, report)
    (item,) = answer.json()["items"]
    assert (item["status"], {one["code"] for one in item["reasons"]}) == ("quarantined", {code})
    (row,) = await stored(service)
    assert (row["status"], json.loads(row["reasons"])) == ("quarantined", item["reasons"])


async def test_a_low_peak_is_no_doubt_while_the_run_is_young(client: httpx.AsyncClient) -> None:
    item = await receipt(client, outcome="running", measured=measured(2 * 10**9))
    assert item["status"] == "accepted"


async def test_a_rank_far_from_the_others_of_its_run_is_quarantined(
    client: httpx.AsyncClient,
) -> None:
    job = a_job(hardware={"accelerator": "a100-sxm4-80gb", "devices": 8})
    run = a_report(run_id="wide", job=job)
    others = [{**run, "rank": rank} for rank in range(7)]
    assert {item["status"] for item in (await post(client, *others)).json()["items"]} == {
        "accepted"
    }
    for allocated, status in ((60 * 10**9, "quarantined"), (24 * 10**9, "accepted")):
        odd = {**run, "rank": 7 if status == "quarantined" else 8, "measured": measured(allocated)}
        (item,) = (await post(client, odd)).json()["items"]
        assert item["status"] == status
    # In one batch the same holds among its own reports.
    fresh = a_report(run_id="fresh", job=job)
    batch = [fresh, {**fresh, "rank": 1, "measured": measured(60 * 10**9)}]
    items = (await post(client, *batch)).json()["items"]
    assert [item["status"] for item in items] == ["accepted", "quarantined"]
    assert [one["code"] for one in items[1]["reasons"]] == ["ranks_disagree"]


async def test_stages_of_a_pipeline_may_differ(client: httpx.AsyncClient) -> None:
    job = {
        **a_job(method="full", precision="bf16-master"),
        "parallelism": {"pipeline_parallel_size": 2},
        "sharding": {"implementation": "megatron"},
        "hardware": {"accelerator": "a100-sxm4-80gb", "devices": 2},
    }
    first = a_report(job=job, measured=measured(70 * 10**9))
    items = (
        await post(client, first, {**first, "rank": 1, "measured": measured(30 * 10**9)})
    ).json()
    assert [item["status"] for item in items["items"]] == ["accepted", "accepted"]


async def test_a_launch_is_kept_until_its_job_can_be_read(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    report = a_report(launch={"framework": "transformers", "config": {"bf16": True}})
    del report["job"]
    (item,) = (await post(client, report)).json()["items"]
    assert (item["status"], item["reasons"][0]["code"]) == ("quarantined", "job_unknown")
    (row,) = await stored(service)
    assert json.loads(row["document"])["launch"]["config"] == {"bf16": True}


async def test_a_request_with_its_key_again_gets_the_first_answer(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    report = a_report()
    first = await post(client, report, Idempotency_Key='"k1"')
    again = await post(client, report, Idempotency_Key="k1")
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.json()["items"][0]["status"] == "accepted"
    # Without the key it is what it is.
    assert (await post(client, report)).json()["items"][0]["status"] == "duplicate"
    other = await post(client, a_report(), Idempotency_Key='"k1"')
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert len(await stored(service)) == 1


async def test_a_row_the_database_refuses_fails_alone(
    client: httpx.AsyncClient, service: FastAPI
) -> None:
    await _plant_a_refusal(service.state.database)
    items = [a_report(run_id=name) for name in ("good-1", "cursed", "good-2")]
    answer = await post(client, *items)
    assert answer.status_code == 202
    first, second, third = answer.json()["items"]
    assert [first["status"], third["status"]] == ["accepted", "accepted"]
    assert second["problem"]["code"] == "internal_error"
    assert {row["run_id"] for row in await stored(service)} == {"good-1", "good-2"}
    assert len(await rows_of(service.state.database, report_keys)) == 2


async def _plant_a_refusal(database: Database) -> None:
    """Make the database refuse reports of one run, as a full disk or a bug of ours would."""
    async with database.writing() as connection:
        if database.is_sqlite:
            statements = [
                "CREATE TRIGGER curse BEFORE INSERT ON reports WHEN NEW.run_id = 'cursed' "
                "BEGIN SELECT RAISE(ABORT, 'cursed'); END"
            ]
        else:
            statements = [
                "ALTER TABLE reports ADD CONSTRAINT curse CHECK (run_id <> 'cursed')",
            ]
        for statement in statements:
            await connection.execute(sa.text(statement))
