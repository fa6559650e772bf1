"""Report tokens and decisions at POST /v1/reports, on both databases."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import sqlalchemy as sa
from fastapi import FastAPI

from tests.databases import Databases, rows_of
from tests.factories import a_job
from tests.kept_decisions import a_decision, keep_decisions
from tests.reports import ALLOCATED, a_report, measured
from tests.services import a_settings, a_token, bearer
from vramgate.access import Scope
from vramgate.admission.record import KeptDecision
from vramgate.api.auth import is_public
from vramgate.app import create_app
from vramgate.authentication.bearer_tokens import SecretKey
from vramgate.authentication.report_tokens import new_report_token
from vramgate.authentication.signing_keys import SigningKeys
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import decision_runs, jobs, reports
from vramgate.settings import Settings

TENANT = "team-a"
METHODS = {"get", "put", "post", "delete", "patch"}
UNREACHABLE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest_asyncio.fixture
async def service(database_url: str) -> AsyncIterator[FastAPI]:
    """Return a running service on a fresh database, where every request needs a token."""
    app = create_app(a_settings(database_url))
    async with app.router.lifespan_context(app):
        yield app


@pytest_asyncio.fixture
async def client(service: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the service."""
    async with client_of(service) as client:
        yield client


@pytest_asyncio.fixture
async def decision(database: Database) -> KeptDecision:
    """Return a stored decision about ``a_job``."""
    return await a_stored_decision(database)


async def a_stored_decision(database: Database, **fields: Any) -> KeptDecision:  # noqa: ANN401
    made = a_decision(**{"tenant": TENANT, **fields})
    await keep_decisions(database, made)
    return made


def client_of(service: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(service), base_url="http://vramgate.example"
    )


def token_for(
    service: FastAPI,
    decision: KeptDecision,
    *,
    lifetime: timedelta = timedelta(days=7),
    tenant: str = TENANT,
    key: SecretKey | None = None,
) -> dict[str, str]:
    """Return the header that shows a report token as an admission's answer hands it out."""
    keys: SigningKeys = service.state.signing_keys
    text = new_report_token(
        tenant=tenant,
        decision_id=decision.decision_id,
        expires_at=datetime.now(UTC) + lifetime,
        key=key or keys.current()[0],
    )
    return bearer(text)


def of_run(run_id: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return a report that says nothing of its job."""
    report = a_report(run_id=run_id, **fields)
    if "job" not in fields:
        del report["job"]
    return report


async def post(
    client: httpx.AsyncClient, headers: dict[str, str], *items: object
) -> httpx.Response:
    return await client.post("/v1/reports", json={"reports": list(items)}, headers=headers)


async def items_of(
    client: httpx.AsyncClient, headers: dict[str, str], *items: object
) -> list[dict[str, Any]]:
    answer = await post(client, headers, *items)
    assert answer.status_code == 202, answer.text
    listed: list[dict[str, Any]] = answer.json()["items"]
    return listed


async def reporters_token(database: Database, tenant: str = TENANT) -> dict[str, str]:
    return bearer(await a_token(database, Scope.REPORT, Scope.READ, Scope.ESTIMATE, tenant=tenant))


# ---------------------------------------------------------------- what the token allows


async def test_with_its_token_alone_a_job_posts_its_own_report(
    client: httpx.AsyncClient, service: FastAPI, database: Database, decision: KeptDecision
) -> None:
    (item,) = await items_of(client, token_for(service, decision), of_run("r1"))
    assert (item["status"], item["reasons"]) == ("accepted", [])
    estimate = await client.post(
        "/v1/estimates", json={"job": a_job()}, headers=await reporters_token(database)
    )
    residual = item["residuals"]["allocated"]
    assert residual["measured_bytes"] == ALLOCATED
    assert residual["estimated_bytes"] == estimate.json()["peak"]["allocated_bytes"]
    (row,) = await rows_of(database, reports)
    assert (row["tenant"], row["submitter"]) == (TENANT, f"decision {decision.decision_id}")
    assert json.loads(row["document"])["decision_id"] == decision.decision_id
    (job,) = await rows_of(database, jobs)
    assert (job["job_digest"], json.loads(job["document"])) == (row["job_digest"], a_job())
    (bound,) = await rows_of(database, decision_runs)
    assert (bound["decision_id"], bound["run_id"]) == (decision.decision_id, "r1")


async def test_nothing_else_is_answered_to_a_report_token(
    client: httpx.AsyncClient, service: FastAPI, decision: KeptDecision
) -> None:
    headers = token_for(service, decision)
    paths: dict[str, dict[str, Any]] = service.openapi()["paths"]
    asked, answered = 0, set()
    for path, operations in paths.items():
        for method in METHODS & operations.keys():
            if is_public(path):
                continue
            answer = await client.request(
                method, path.replace("{", "").replace("}", ""), headers=headers, json={}
            )
            asked += 1
            if answer.status_code != 403:
                answered.add((method, path))
            else:
                assert answer.json()["code"] == "forbidden"
    assert asked > 15
    assert answered == {("post", "/v1/reports")}
    for method, path in (("HEAD", "/v1/reports"), ("GET", "/v1/nothing"), ("POST", "/v1/reports/")):
        assert (await client.request(method, path, headers=headers)).status_code == 403


async def test_a_report_names_its_decision_or_leaves_it_out(
    client: httpx.AsyncClient, service: FastAPI, database: Database, decision: KeptDecision
) -> None:
    headers, report = token_for(service, decision), of_run("r1")
    named = {**report, "decision_id": decision.decision_id}
    open_ = {**report, "decision_id": None}
    items = await items_of(client, headers, report, named)
    # The same report, told in two ways.
    assert [one["status"] for one in items] == ["accepted", "duplicate"]
    assert (await items_of(client, headers, open_))[0]["status"] == "duplicate"
    own = a_report(run_id="r1", rank=1, decision_id=decision.decision_id)
    assert (await items_of(client, headers, own))[0]["status"] == "accepted"
    assert len(await rows_of(database, reports)) == 2


async def test_what_ran_is_estimated_where_the_trainer_tells_it(
    client: httpx.AsyncClient, service: FastAPI, database: Database, decision: KeptDecision
) -> None:
    smaller = a_job(micro_batch_size=1)
    report = of_run("r1", job=smaller, measured=measured(20 * 10**9))
    (item,) = await items_of(client, token_for(service, decision), report)
    estimate = await client.post(
        "/v1/estimates", json={"job": smaller}, headers=await reporters_token(database)
    )
    estimated = item["residuals"]["allocated"]["estimated_bytes"]
    assert estimated == estimate.json()["peak"]["allocated_bytes"]
    launch = {"framework": "transformers", "config": {"bf16": True}}
    (item,) = await items_of(
        client, token_for(service, decision), of_run("r1", rank=1, launch=launch)
    )
    assert [one["code"] for one in item["reasons"]] == ["job_unknown"]


async def test_a_report_of_another_model_than_was_admitted_is_quarantined(
    client: httpx.AsyncClient, service: FastAPI, decision: KeptDecision
) -> None:
    other = a_job(model={"name": "Qwen/Qwen2.5-7B"})
    (item,) = await items_of(client, token_for(service, decision), of_run("r1", job=other))
    assert item["status"] == "quarantined"
    assert "other_job" in {one["code"] for one in item["reasons"]}
    (reason,) = [one for one in item["reasons"] if one["code"] == "other_job"]
    assert "Llama-3.1-8B" in reason["message"]
    assert "Qwen2.5-7B" in reason["message"]


async def test_a_report_of_another_decision_is_refused_and_not_stored(
    client: httpx.AsyncClient, service: FastAPI, database: Database, decision: KeptDecision
) -> None:
    headers = token_for(service, decision)
    other = await a_stored_decision(database)
    for name in (other.decision_id, "nobody's", decision.decision_id.replace("0", "1")):
        answer = await post(client, headers, of_run("r1", decision_id=name))
        assert (answer.status_code, answer.json()["code"]) == (422, "other_decision")
        assert answer.json()["errors"][0]["pointer"] == "/reports/0/decision_id"
    assert await rows_of(database, reports) == []
    mixed = [of_run("r1"), of_run("r1", rank=1, decision_id=other.decision_id)]
    good, bad = await items_of(client, headers, *mixed)
    assert good["status"] == "accepted"
    assert bad["problem"]["code"] == "other_decision"
    assert [row["decision_id"] for row in await rows_of(database, decision_runs)] == [
        decision.decision_id
    ]


async def test_a_replayed_token_reports_for_no_second_run(
    client: httpx.AsyncClient, service: FastAPI, database: Database, decision: KeptDecision
) -> None:
    headers = token_for(service, decision)
    ranks = [of_run("r1", rank=rank) for rank in range(2)]
    assert [one["status"] for one in await items_of(client, headers, *ranks)] == ["accepted"] * 2
    (refused,) = await items_of(client, headers, of_run("r2"))
    problem = refused["problem"]
    assert (problem["status"], problem["code"]) == (409, "other_run")
    assert "'r1'" in problem["detail"]
    assert "'r2'" in problem["detail"]
    assert problem["errors"][0]["pointer"] == "/reports/0/run_id"
    # Nor does the name of the decision, with a token of the site's.
    named = of_run("r2", decision_id=decision.decision_id)
    (refused,) = await items_of(client, await reporters_token(database), named)
    assert refused["problem"]["code"] == "other_run"
    assert len(await rows_of(database, reports)) == 2


async def test_an_idempotency_key_is_the_token_s_own(
    client: httpx.AsyncClient, service: FastAPI, database: Database
) -> None:
    key, report = {"Idempotency-Key": '"k1"'}, of_run("r1")
    first, second = [token_for(service, await a_stored_decision(database)) for _ in range(2)]
    (item,) = await items_of(client, {**first, **key}, report)
    assert (await items_of(client, {**first, **key}, report)) == [item]
    # The same words under the same key mean another decision with another token.
    (other,) = await items_of(client, {**second, **key}, report)
    assert [item["status"], other["status"]] == ["accepted", "conflict"]


# ---------------------------------------------------------------- which tokens are taken


async def test_every_wrong_token_gets_the_same_answer_and_an_expired_one_its_own(
    client: httpx.AsyncClient, service: FastAPI, database: Database, decision: KeptDecision
) -> None:
    good = token_for(service, decision)["Authorization"]
    retired = SecretKey(key_id="retired", key=b"\x0b" * 32)
    wrong = [
        good[:-1],
        good[:-1] + ("A" if good[-1] != "A" else "B"),
        good.replace(good[11:47], decision.decision_id[:-1] + "f"),
        f"{good}A",
        "Bearer vgr_",
        token_for(service, decision, key=retired)["Authorization"],
        token_for(service, decision, key=retired, lifetime=-timedelta(1))["Authorization"],
    ]
    told = set()
    for text in wrong:
        answer = await post(client, {"Authorization": text}, of_run("r1"))
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        told.add(answer.json()["detail"])
    assert told == {"The token is not valid."}
    expired = token_for(service, decision, lifetime=-timedelta(seconds=1))
    answer = await post(client, expired, of_run("r1"))
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer.json()["detail"] == "The report token has expired."
    assert await rows_of(database, reports) == []


async def test_a_decision_that_waits_in_a_journal_is_waited_for(
    client: httpx.AsyncClient, service: FastAPI, database: Database
) -> None:
    made = a_decision(tenant=TENANT)
    headers = token_for(service, made)
    answer = await post(client, headers, of_run("r1"))
    assert (answer.status_code, answer.json()["code"]) == (503, "decision_not_stored_yet")
    assert int(answer.headers["retry-after"]) > 0
    assert await rows_of(database, reports) == []
    await keep_decisions(database, made)
    assert (await items_of(client, headers, of_run("r1")))[0]["status"] == "accepted"


async def test_a_token_is_for_its_own_tenant_s_decision(
    client: httpx.AsyncClient, service: FastAPI, decision: KeptDecision
) -> None:
    answer = await post(client, token_for(service, decision, tenant="team-b"), of_run("r1"))
    assert (answer.status_code, answer.json()["code"]) == (503, "decision_not_stored_yet")


async def test_while_no_key_is_known_a_token_cannot_be_judged() -> None:
    app = create_app(a_settings(UNREACHABLE))
    key = SecretKey(key_id="own", key=b"\x0b" * 32)
    async with app.router.lifespan_context(app), client_of(app) as client:
        assert app.state.signing_keys.current() == ()
        answer = await post(client, token_for(app, a_decision(), key=key), of_run("r1"))
    assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
    assert int(answer.headers["retry-after"]) > 0


async def test_every_replica_takes_what_another_signed_and_a_restart_changes_nothing(
    service: FastAPI, database_url: str, decision: KeptDecision
) -> None:
    headers = token_for(service, decision)
    other = create_app(a_settings(database_url))
    async with other.router.lifespan_context(other), client_of(other) as client:
        assert (await items_of(client, headers, of_run("r1")))[0]["status"] == "accepted"


async def test_the_site_s_keys_sign_and_the_one_before_them_is_still_taken(
    database_url: str, decision: KeptDecision, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    lines = [f"{name}:{base64.b64encode(name.encode() * 32).decode()}" for name in "ab"]
    file.write_text("\n".join(lines))
    app = create_app(a_settings(database_url, secret_keys_file=file))
    async with app.router.lifespan_context(app), client_of(app) as client:
        first, second = app.state.signing_keys.current()
        for rank, key in enumerate((first, second)):
            headers = token_for(app, decision, key=key)
            (item,) = await items_of(client, headers, of_run("r1", rank=rank))
            assert item["status"] == "accepted"


# ---------------------------------------------------------------- reports that name a decision


async def test_a_named_decision_tells_the_job(
    client: httpx.AsyncClient, database: Database, decision: KeptDecision
) -> None:
    headers = await reporters_token(database)
    (item,) = await items_of(client, headers, of_run("r1", decision_id=decision.decision_id))
    assert item["status"] == "accepted"
    (row,) = await rows_of(database, reports)
    assert row["model"] == "meta-llama/Llama-3.1-8B"
    shown = await client.get(f"/v1/reports/{item['report_id']}", headers=headers)
    assert shown.json()["document"]["decision_id"] == decision.decision_id
    assert shown.json()["job"] == a_job()


async def test_a_run_that_is_told_of_by_job_and_by_decision_is_raised(
    client: httpx.AsyncClient, database: Database, decision: KeptDecision
) -> None:
    headers = await reporters_token(database)
    running = a_report(run_id="r1", outcome="running", measured=measured(20 * 10**9))
    ended = of_run("r1", decision_id=decision.decision_id, measured=measured(21 * 10**9))
    assert (await items_of(client, headers, running))[0]["status"] == "accepted"
    assert (await items_of(client, headers, ended))[0]["status"] == "raised"


@pytest.mark.parametrize(
    ("job", "code", "words"),
    [
        (None, "job_unknown", "none that could be read"),
        (a_job(model={"name": "nobody/has-this-model"}), "unknown_name", "nobody/has-this-model"),
        (a_job(precision={"weights": "fp16", "compute": "bf16"}), "job_unknown", "fp16"),
        ({"of": "a version to come"}, "job_unknown", "/job"),
    ],
    ids=["none", "unknown model", "invalid", "other format"],
)
async def test_a_decision_without_a_job_that_can_be_estimated_leaves_a_doubt(
    client: httpx.AsyncClient,
    service: FastAPI,
    database: Database,
    job: dict[str, Any] | None,
    code: str,
    words: str,
) -> None:
    subject = {"job": job, "launch": None, "devices": None, "hardware": None}
    made = await a_stored_decision(database, subject=subject)
    named = of_run("r1", decision_id=made.decision_id)
    answers = [
        await items_of(client, await reporters_token(database), named),
        await items_of(client, token_for(service, made), of_run("r1", rank=1)),
    ]
    for (item,) in answers:
        assert (item["status"], [one["code"] for one in item["reasons"]]) == ("quarantined", [code])
        assert words in item["reasons"][0]["message"]


async def test_a_job_that_was_read_from_a_launch_runs_on_the_versions_that_are_reported(
    client: httpx.AsyncClient, database: Database
) -> None:
    launch = {"framework": "transformers", "unknown": [], "problems": []}
    software = {"torch": "2.6.0", "transformers": "4.51.0"}
    headers = await reporters_token(database)
    residuals = []
    for told in (launch, None):
        subject = {"job": a_job(), "launch": told, "devices": None, "hardware": None}
        made = await a_stored_decision(database, subject=subject)
        report = of_run(f"r{told is None}", decision_id=made.decision_id, software=software)
        residuals.append((await items_of(client, headers, report))[0]["residuals"])
    stack = {"stack": "torch 2.6.0 / transformers 4.51.0"}
    told = a_report(run_id="told", job=a_job(software=stack))
    (told_item,) = await items_of(client, headers, told)
    (plain,) = await items_of(client, headers, a_report(run_id="plain"))
    assert residuals == [told_item["residuals"], plain["residuals"]]


async def test_unknown_decisions_and_those_of_others_are_refused_one_by_one(
    client: httpx.AsyncClient, database: Database, decision: KeptDecision
) -> None:
    headers = await reporters_token(database, "team-b")
    for name in (decision.decision_id, "d", "x" * 200, "\u00e9"):
        answer = await post(client, headers, of_run("r1", decision_id=name))
        assert (answer.status_code, answer.json()["code"]) == (422, "unknown_decision")
    no_ids: list[object] = [7, [], {}, "", "x" * 201, "two\nlines"]
    for wrong in no_ids:
        answer = await post(client, headers, of_run("r1", decision_id=wrong))
        assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    good, bad = await items_of(
        client, headers, a_report(run_id="r2"), of_run("r1", decision_id="nobody's")
    )
    assert good["status"] == "accepted"
    assert bad["problem"]["errors"][0]["pointer"] == "/reports/1/decision_id"


async def test_without_a_decision_a_report_needs_a_job(
    client: httpx.AsyncClient, database: Database
) -> None:
    answer = await post(client, await reporters_token(database), of_run("r1"))
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert "job, launch or decision_id" in answer.json()["detail"]


async def test_decisions_of_a_batch_are_read_at_once_and_each_once(
    client: httpx.AsyncClient, database: Database, service: FastAPI
) -> None:
    made = [await a_stored_decision(database) for _ in range(20)]
    headers = await reporters_token(database)
    reads: list[str] = []

    def listen(_c: object, _cursor: object, statement: str, *_rest: object) -> None:
        if "FROM decision_keys" in statement:
            reads.append(statement)

    own: Database = service.state.database
    sa.event.listen(own.engine.sync_engine, "before_cursor_execute", listen)
    for rank in range(3):
        given = [
            of_run(f"r{n}", rank=rank, decision_id=one.decision_id) for n, one in enumerate(made)
        ]
        items = await items_of(client, headers, *given)
        assert {one["status"] for one in items} == {"accepted"}
    assert len(reads) == 1


async def test_the_reports_under_a_decision_are_listed_by_it(
    client: httpx.AsyncClient, service: FastAPI, database: Database, decision: KeptDecision
) -> None:
    headers = await reporters_token(database)
    ranks = [of_run("r1", rank=rank) for rank in range(3)]
    await items_of(client, token_for(service, decision), *ranks)
    await items_of(client, headers, a_report(run_id="r2"))

    async def listed(who: dict[str, str], **query: Any) -> list[tuple[str, int]]:  # noqa: ANN401
        answer = await client.get("/v1/reports", params=query, headers=who)
        assert answer.status_code == 200, answer.text
        return [(one["run_id"], one["rank"]) for one in answer.json()["items"]]

    by_it = {"decision_id": decision.decision_id}
    assert await listed(headers, **by_it) == [("r1", 0), ("r1", 1), ("r1", 2)]
    assert await listed(headers, **by_it, rank=1) == [("r1", 1)]
    assert await listed(headers, **by_it, run_id="r2") == []
    assert await listed(headers, decision_id="nobody's") == []
    assert await listed(await reporters_token(database, "team-b"), **by_it) == []
    first = await client.get("/v1/reports", params={**by_it, "limit": 2}, headers=headers)
    cursor = first.json()["next_cursor"]
    assert await listed(headers, **by_it, limit=2, cursor=cursor) == [("r1", 2)]
    file = await client.get("/v1/reports/export", params=by_it, headers=headers)
    assert len(file.text.splitlines()) == 4


async def test_on_this_machine_without_tokens_decisions_are_named_too(
    databases: Databases,
) -> None:
    address = databases.fresh()
    database = Database(address)
    made = await a_stored_decision(database, tenant="default")
    app = create_app(Settings(database_url=a_settings(address).database_url))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client,
    ):
        (item,) = await items_of(client, {}, of_run("r1", decision_id=made.decision_id))
        assert item["status"] == "accepted"
        # A token that is shown decides, here as elsewhere.
        headers = token_for(app, made, tenant="default")
        assert (await client.get("/v1/models", headers=headers)).status_code == 403
    await database.close()
