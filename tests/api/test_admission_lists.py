"""Kept decisions over HTTP: listed, shown whole, and the shadow report."""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio
import sqlalchemy as sa

from tests.kept_decisions import a_decision, a_subject, an_answer, keep_decisions
from tests.kept_reports import a_caller, keep
from tests.reports import a_report, measured
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.persistence import decision_lists
from vramgate.persistence.engine import Database
from vramgate.persistence.tables import decision_runs
from vramgate.wire.lists import moment_cursor

MINE, OTHERS = "team-a", "team-b"
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
WEEK = timedelta(weeks=1)


@dataclass
class Service:
    """A running service, its database, and the headers of who reads and of another tenant."""

    client: httpx.AsyncClient
    database: Database
    reader: dict[str, str]
    other: dict[str, str]

    async def ask(
        self,
        path: str = "",
        query: Mapping[str, str | int] | None = None,
        *,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Ask as a reader of the tenant, or with other headers."""
        return await self.client.get(
            f"/v1/admissions{path}", params=query, headers=headers or self.reader
        )

    async def get(self, path: str = "", **query: str | int) -> Any:  # noqa: ANN401 whatever JSON holds
        """Return what a reader of the tenant is answered."""
        answer = await self.ask(path, query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def run(self, decision: KeptDecision, *reports: dict[str, Any]) -> None:
        """Keep the decision and the reports of its run, one a rank."""
        await keep_decisions(self.database, decision)
        run_id = f"run-of-{decision.decision_id}"
        items = [a_report(run_id=run_id, rank=rank, **one) for rank, one in enumerate(reports)]
        await keep(self.database, *items, caller=a_caller(decision.tenant))
        async with self.database.writing() as connection:
            await connection.execute(
                sa.insert(decision_runs).values(
                    tenant=decision.tenant,
                    decision_id=decision.decision_id,
                    run_id=run_id,
                    bound_at=decision.decided_at + SECOND,
                )
            )


@pytest_asyncio.fixture
async def service(database: Database, database_url: str) -> AsyncIterator[Service]:
    """Return a service with tokens for two tenants."""
    headers = [
        bearer(await a_token(database, Scope.READ, tenant=MINE)),
        bearer(await a_token(database, Scope.READ, tenant=OTHERS)),
    ]
    async with served(a_settings(database_url)) as client:
        yield Service(client, database, *headers)


# ---------------------------------------------------------------- lists


async def test_an_item_shows_the_decision(service: Service) -> None:
    given = a_decision(decided_at=NOON, external_id="4711", verdict=Verdict.WARN)
    await keep_decisions(service.database, given)
    page = await service.get()
    (item,) = page["items"]
    recorded_at = datetime.fromisoformat(item.pop("recorded_at"))
    assert timedelta(0) <= datetime.now(UTC) - recorded_at < timedelta(minutes=5)
    assert item == {
        "decision_id": given.decision_id,
        "decided_at": "2026-11-25T12:00:00Z",
        "caller": "scheduler",
        "cluster": "hpc-1",
        "queue": "gpu",
        "channel": "slurm",
        "submitter": "ada",
        "external_id": "4711",
        "mode": "shadow",
        "verdict": "warn",
        "decision": "allow",
        "reason_code": "fits",
        "oom_probability": 0.001,
        "required_bytes": 24_000_000_000,
        "usable_bytes": 84_000_000_000,
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "a100-sxm4-80gb",
        "policy_version": "default",
        "calibration_version": "factory-1",
        "model_version": "1",
        "inputs_digest": given.inputs_digest,
    }
    assert page["next_cursor"] is None


async def test_pages_together_hold_every_decision_once_both_ways(service: Service) -> None:
    # Three of one moment, as a batch of array tasks has.
    made = [a_decision(decided_at=NOON + max(0, number - 2) * SECOND) for number in range(7)]
    await keep_decisions(service.database, *made)
    ids = [one.decision_id for one in made]
    assert ids == sorted(ids)
    for order, expected in (("oldest", ids), ("newest", ids[::-1])):
        for limit in (1, 2, 3, 7):
            seen, address = [], f"?order={order}&limit={limit}"
            while address:
                answer = await service.ask(address)
                seen += [one["decision_id"] for one in answer.json()["items"]]
                link = answer.headers.get("link", "")
                assert bool(link) == (answer.json()["next_cursor"] is not None)
                address = link.partition(">")[0].removeprefix("</v1/admissions")
            assert seen == expected
    newest_first = [one["decision_id"] for one in (await service.get())["items"]]
    assert newest_first == ids[::-1]


async def test_what_is_unchanged_is_not_sent_again(service: Service) -> None:
    given = a_decision()
    await keep_decisions(service.database, given)
    for path in ("", f"/{given.decision_id}"):
        tag = (await service.ask(path)).headers["etag"]
        assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
        again = await service.ask(path, headers={**service.reader, "If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
    await keep_decisions(service.database, a_decision())
    changed = await service.ask(headers={**service.reader, "If-None-Match": tag})
    assert changed.status_code == 200


async def test_filters_are_taken_together(service: Service) -> None:
    wanted = a_decision(queue="prod", verdict=Verdict.DENY, channel=Channel.KUEUE)
    await keep_decisions(
        service.database, wanted, a_decision(queue="prod"), a_decision(verdict=Verdict.DENY)
    )
    page = await service.get(
        queue="prod", verdict="deny", channel="kueue", since="2026-01-01T00:00:00Z"
    )
    assert [one["decision_id"] for one in page["items"]] == [wanted.decision_id]


async def test_a_page_may_be_empty_and_lead_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_lists, "SEARCHED_ROWS", 4)
    made = [
        a_decision(decided_at=NOON - number * SECOND, queue="rare" if number == 9 else "gpu")
        for number in range(10)
    ]
    await keep_decisions(service.database, *made)
    sizes: list[int] = []
    cursor = None
    while cursor or not sizes:
        given: dict[str, str] = {"cursor": cursor} if cursor else {}
        page = await service.get(queue="rare", **given)
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
    assert sizes == [0, 0, 1]


async def test_a_question_nobody_can_answer_is_refused(service: Service) -> None:
    unanswerable: list[dict[str, str | int]] = [
        {"limit": 201},
        {"limit": 0},
        {"since": "yesterday"},
        {"since": "2026-11-29T10:00:00"},
        {"until": "9999-12-31T23:59:59-23:00"},
        {"verdict": "maybe"},
        {"decision": "DENY"},
        {"mode": "on"},
        {"channel": "fax"},
        {"queue": ""},
        {"external_id": "a\0b"},
        {"submitter": "x" * 513},
        {"order": "random"},
        {"tenant": OTHERS},
    ]
    for query in unanswerable:
        answer = await service.ask("", query)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter"), query
        (error,) = answer.json()["errors"]
        assert error["parameter"] in query
    for path in ("/a_b", "/" + "a" * 65, "/%00"):
        assert (await service.ask(path)).status_code == 422, path


async def test_a_cursor_that_the_list_did_not_give_is_refused(service: Service) -> None:
    await keep_decisions(service.database, *(a_decision(queue="prod") for _ in range(3)))
    filters = f'admissions newest {{"tenant": "{MINE}"}}'
    forged = [moment_cursor(NOON, key, filters) for key in ("a\0b", "", "a b", "é")]
    for cursor in ("nonsense", "", "W10", "\0", "W10=" * 400, *forged):
        answer = await service.ask("", {"cursor": cursor})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor"), cursor
    given = (await service.get(queue="prod", limit=1))["next_cursor"]
    changed: list[dict[str, str]] = [
        {}, {"queue": "gpu"}, {"queue": "prod", "order": "oldest"}, {"queue": "prod", "mode": "shadow"},
    ]  # fmt: skip
    for query in changed:
        answer = await service.ask("", {"cursor": given, **query})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor"), query
    others = await service.ask("", {"cursor": given, "queue": "prod"}, headers=service.other)
    assert others.status_code == 400
    # The number of items a page is no filter.
    assert len((await service.get(queue="prod", limit=2, cursor=given))["items"]) == 2


# ---------------------------------------------------------------- one, whole


async def test_a_decision_is_given_whole(service: Service) -> None:
    answer = an_answer(
        message="It does not fit.",
        suggestions=[{"change": [{"field": "micro_batch_size", "before": 2, "after": 1}]}],
        warnings=[{"code": "rough", "message": "…"}],
        # What a later version may add; it does not stand over the decision's own.
        later=[1],
        decision_id="not this",
    )
    given = a_decision(
        verdict=Verdict.DENY, decision=Verdict.DENY, mode=Mode.ENFORCE, answer=answer
    )
    await keep_decisions(service.database, given)
    whole = await service.get(f"/{given.decision_id}")
    (listed,) = (await service.get())["items"]
    assert listed.items() <= whole.items()
    assert whole["subject"] == a_subject()
    for name in ("message", "reasons", "peak", "capacity", "suggestions", "warnings", "later"):
        assert whole[name] == answer[name]
    assert (whole["run_id"], whole["outcome"], whole["reports"]) == (None, None, 0)
    assert not whole.keys() & {"tenant", "answer", "answer_digest", "report_token"}


async def test_a_decision_shows_how_its_run_ended(service: Service) -> None:
    done, oom = {"outcome": "completed"}, {"outcome": "oom"}
    killed, running = {"outcome": "killed"}, {"outcome": "running"}
    quarantined = {"outcome": "oom", "measured": measured(82_000_000_000)}
    for reports, outcome, number in (
        ((done, oom), "oom", 2),
        ((done, killed, running), "completed", 3),
        ((running, killed), "killed", 2),
        ((running,), "running", 1),
        ((done, quarantined), "completed", 1),
    ):
        given = a_decision()
        await service.run(given, *reports)
        whole = await service.get(f"/{given.decision_id}")
        assert whole["run_id"] == f"run-of-{given.decision_id}"
        assert (whole["outcome"], whole["reports"]) == (outcome, number)


async def test_nothing_of_one_tenant_is_shown_to_another(service: Service) -> None:
    given = a_decision(decided_at=datetime.now(UTC))
    await service.run(given, {"outcome": "completed"})
    assert (await service.ask(headers=service.other)).json()["items"] == []
    there = await service.ask(f"/{given.decision_id}", headers=service.other)
    absent = await service.ask("/00000000-dead-7000-8000-000000000000", headers=service.other)
    assert (there.status_code, absent.status_code) == (404, 404)
    assert there.json()["code"] == absent.json()["code"] == "not_found"
    assert "recorded: false" in there.json()["hint"]
    report = (await service.ask("/shadow-report", headers=service.other)).json()
    assert (report["tenant"], report["total"]["decisions"]) == (OTHERS, 0)
    assert (await service.get("/shadow-report"))["total"]["decisions"] == 1


async def test_reading_needs_its_scope(service: Service) -> None:
    token = bearer(await a_token(service.database, Scope.ADMIT, tenant=MINE))
    for path in ("", "/shadow-report", "/00000000-dead-7000-8000-000000000000"):
        answer = await service.ask(path, headers=token)
        assert (answer.status_code, answer.json()["scope"]) == (403, "read"), path


# ---------------------------------------------------------------- the shadow report


async def test_the_shadow_report_holds_verdicts_against_what_became_of_the_jobs(
    service: Service,
) -> None:
    done, oom = {"outcome": "completed"}, {"outcome": "oom"}
    denied: dict[str, Any] = {"verdict": Verdict.DENY, "decided_at": NOON}
    await service.run(a_decision(**denied), done)
    for _ in range(3):
        await service.run(a_decision(**denied), oom)
    await keep_decisions(
        service.database, a_decision(**denied, mode=Mode.ENFORCE, decision=Verdict.DENY)
    )
    far_off = {"outcome": "completed", "measured": measured(82_000_000_000)}
    await service.run(a_decision(**denied), far_off)
    await service.run(a_decision(decided_at=NOON), done, done)
    await service.run(a_decision(decided_at=NOON - WEEK, verdict=Verdict.WARN), oom)
    await keep_decisions(service.database, a_decision(decided_at=NOON - WEEK, queue="else"))
    report = await service.get(
        "/shadow-report", since="2026-11-17T00:00:00Z", until="2026-11-29T00:00:00Z"
    )
    before, week = report["weeks"]
    assert [one["week"] for one in report["weeks"]] == ["2026-W47", "2026-W48"]
    assert (week["since"], week["until"]) == ("2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z")
    assert week["decisions"] == 7
    assert week["by_mode"] == {"off": 0, "shadow": 6, "warn": 0, "enforce": 1}
    assert week["refused"] == 1
    assert week["would_deny"] == {
        "count": 6, "ran": 1, "ran_out_of_memory": 3, "quarantined": 1, "unknown": 2,
    }  # fmt: skip
    assert week["allowed"] == {
        "count": 1, "ran": 1, "ran_out_of_memory": 0, "quarantined": 0, "unknown": 0,
    }  # fmt: skip
    assert week["reported"] == {"count": 5, "of": 7, "fraction": pytest.approx(5 / 7)}
    # Wilson's interval by hand: k = 1, n = 4, z² = 3.8415: (k + z²/2 ± z √(k(n-k)/n + z²/4)) / (n + z²).
    assert week["false_denials"] == {
        "count": 1, "of": 4, "fraction": 0.25,
        "low": pytest.approx(0.0456, abs=5e-5), "high": pytest.approx(0.6994, abs=5e-5),
    }  # fmt: skip
    assert (week["missed_ooms"]["count"], week["missed_ooms"]["of"]) == (0, 1)
    assert (before["warned_ooms"]["count"], before["warned_ooms"]["of"]) == (1, 1)
    assert before["missed_ooms"]["fraction"] is None
    assert (report["total"]["decisions"], report["total"]["would_deny"]["count"]) == (9, 6)
    assert "6 of 9 decisions" in report["notes"][0]
    assert "all quarantined: 1." in report["notes"][1]
    assert "refused (mode enforce): 1." in report["notes"][2]
    only = await service.get(
        "/shadow-report", since="2026-11-16T00:00:00Z", until="2026-11-29T00:00:00Z", queue="else"
    )
    assert [one["decisions"] for one in only["weeks"]] == [1, 0]


async def test_left_alone_the_shadow_report_is_about_four_weeks(service: Service) -> None:
    now = datetime.now(UTC)
    await keep_decisions(service.database, a_decision(decided_at=now))
    report = await service.get("/shadow-report")
    assert len(report["weeks"]) == 4
    assert report["weeks"][-1]["decisions"] == 1
    until = await service.get("/shadow-report", until=now.isoformat())
    assert len(until["weeks"]) == 4


async def test_a_period_that_is_no_period_is_refused(service: Service) -> None:
    refused: list[tuple[dict[str, str], str]] = [
        ({"since": "2026-11-29T00:00:00Z", "until": "2026-11-29T00:00:00Z"}, "not before"),
        ({"since": "2026-11-29T00:00:00Z", "until": "2026-11-01T00:00:00Z"}, "not before"),
        ({"since": "2020-01-01T00:00:00Z"}, "53"),
        ({"since": "2025-01-06T00:00:00Z", "until": "2026-01-12T00:00:01Z"}, "53"),
        ({"since": "9999-12-30T00:00:00Z"}, "not before"),
        ({"since": "9999-12-30T00:00:00Z", "until": "9999-12-31T23:59:59Z"}, "ahead"),
        ({"until": "9999-12-31T23:59:59.999999Z"}, "ahead"),
        ({"weeks": "5"}, "weeks"),
    ]
    for query, said in refused:
        answer = await service.ask("/shadow-report", query)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter"), query
        assert said in answer.json()["detail"]
    longest = await service.get(
        "/shadow-report", since="2025-01-06T00:00:00Z", until="2026-01-12T00:00:00Z"
    )
    assert len(longest["weeks"]) == 53
