"""Kept reports over HTTP: listed, exported, released."""

import csv
import io
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytest_asyncio

from tests.databases import rows_of
from tests.factories import a_job
from tests.kept_reports import a_caller, keep, kept, move_back, multiply
from tests.reports import a_report, measured
from tests.services import a_settings, a_token, bearer, served
from vramgate.access import Scope
from vramgate.calibration.stored_report import StoredReport
from vramgate.persistence import report_lists
from vramgate.persistence.audit import entries_of
from vramgate.persistence.engine import Database
from vramgate.persistence.report_lists import Selection
from vramgate.persistence.tables import report_keys, reports
from vramgate.wire.report_table import COLUMNS
from vramgate.workflows.export_reports import ReportExport, pieces_of

MINE, OTHERS = "team-a", "team-b"
ME = a_caller(MINE)
FAR_TOO_MUCH = measured(82_000_000_000)
A_LAUNCH = {"launch": {"command": "torchrun train.py"}, "job": None}


@dataclass
class Service:
    """A running service, its database, and the headers of who reads, looks after it, or is other."""

    client: httpx.AsyncClient
    database: Database
    reader: dict[str, str]
    keeper: dict[str, str]
    other: dict[str, str]

    async def get(self, path: str = "", /, **query: str | int) -> Any:  # noqa: ANN401 whatever JSON holds
        """Return what a reader of the tenant is answered."""
        answer = await self.client.get(f"/v1/reports{path}", params=query, headers=self.reader)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def release(self, report_id: str, reason: str = "checked") -> httpx.Response:
        """Release a report as one who may."""
        return await self.client.post(
            f"/v1/reports/quarantine/{report_id}/release",
            json={"reason": reason},
            headers=self.keeper,
        )


@pytest_asyncio.fixture
async def service(database: Database, database_url: str) -> AsyncIterator[Service]:
    """Return a service with tokens for two tenants."""
    scopes = (Scope.READ, Scope.CALIBRATE)
    headers = [
        bearer(await a_token(database, Scope.READ, tenant=MINE)),
        bearer(await a_token(database, *scopes, tenant=MINE, name="keeper")),
        bearer(await a_token(database, *scopes, tenant=OTHERS)),
    ]
    async with served(a_settings(database_url)) as client:
        yield Service(client, database, *headers)


# ---------------------------------------------------------------- lists


async def test_an_item_shows_the_report_with_its_estimate_beside_it(service: Service) -> None:
    sent = a_report(run_id="r", labels={"team": "nlp"}, step_seconds=2.5, tokens_per_second=1000)
    (one,) = await keep(service.database, sent, caller=ME)
    page = await service.get()
    (item,) = page["items"]
    assert item["report_id"] == one.report_id
    assert (item["run_id"], item["rank"], item["status"]) == ("r", 0, "accepted")
    assert (item["submitter"], item["outcome"]) == ("trainer", "completed")
    assert item["model"] == "meta-llama/Llama-3.1-8B"
    assert item["accelerator"] == "a100-sxm4-80gb"
    assert item["measured"] == {
        **sent["measured"], "device_used_bytes": None, "context_bytes": None
    }  # fmt: skip
    estimated = item["estimate"]["allocated_bytes"]
    assert item["residuals"]["allocated"] == {
        "measured_bytes": 23_000_000_000,
        "estimated_bytes": estimated,
        "relative_error": pytest.approx(estimated / 23_000_000_000 - 1, abs=1e-6),
    }
    assert item["residuals"].keys() == {"allocated", "reserved"}
    assert (item["step_seconds"], item["tokens_per_second"]) == (2.5, 1000)
    assert item["labels"] == {"team": "nlp"}
    assert item["received_at"].endswith("Z")
    assert page["next_cursor"] is None


async def test_pages_together_hold_every_report_once_both_ways(service: Service) -> None:
    await keep(service.database, *(a_report(run_id="r", rank=n) for n in range(7)), caller=ME)
    for order, expected in (("oldest", list(range(7))), ("newest", list(range(6, -1, -1)))):
        ranks, cursor = [], None
        while True:
            given: dict[str, str] = {"cursor": cursor} if cursor else {}
            page = await service.get(order=order, limit=3, **given)
            ranks += [item["rank"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert ranks == expected
        assert (page["resume_cursor"] is None) == (order == "newest")


async def test_the_link_leads_to_the_next_page_under_the_same_filters(service: Service) -> None:
    await keep(service.database, *(a_report(run_id="r", rank=n) for n in range(3)), caller=ME)
    await keep(service.database, a_report(run_id="else"), caller=ME)
    first = await service.client.get(
        "/v1/reports", params={"run_id": "r", "limit": 2}, headers=service.reader
    )
    address = first.headers["link"].partition(">")[0].removeprefix("<")
    second = (await service.client.get(address, headers=service.reader)).json()
    assert [(one["run_id"], one["rank"]) for one in second["items"]] == [("r", 2)]
    same = await service.client.get(
        address, headers={**service.reader, "If-None-Match": first.headers["etag"]}
    )
    assert same.status_code == 200
    unchanged = await service.client.get(
        "/v1/reports",
        params={"run_id": "r", "limit": 2},
        headers={**service.reader, "If-None-Match": first.headers["etag"]},
    )
    assert unchanged.status_code == 304


async def test_a_reader_goes_on_later_from_where_it_stood(service: Service) -> None:
    assert (await service.get())["resume_cursor"] is None
    await keep(service.database, a_report(run_id="first"), caller=ME)
    stood = (await service.get())["resume_cursor"]
    nothing = await service.get(cursor=stood)
    assert (nothing["items"], nothing["next_cursor"]) == ([], None)
    assert nothing["resume_cursor"] == stood
    await keep(service.database, a_report(run_id="second"), caller=ME)
    later = await service.get(cursor=stood)
    assert [one["run_id"] for one in later["items"]] == ["second"]
    assert later["resume_cursor"] not in {None, stood}


async def test_a_page_may_be_empty_and_lead_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_lists, "SEARCHED_ROWS", 4)
    items = [a_report(run_id=f"r{n}", outcome="oom" if n == 9 else "completed") for n in range(10)]
    await keep(service.database, *items, caller=ME)
    sizes: list[int] = []
    cursor = None
    while cursor or not sizes:
        given: dict[str, str] = {"cursor": cursor} if cursor else {}
        page = await service.get(outcome="oom", **given)
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
    assert sizes == [0, 0, 1]
    assert (await service.get(outcome="oom", cursor=page["resume_cursor"]))["items"] == []
    exported = await _exported(service, outcome="oom")
    assert len(exported.text.splitlines()) == 2


async def test_a_question_nobody_can_answer_is_refused(service: Service) -> None:
    unanswerable: list[dict[str, str | int]] = [
        {"limit": 201},
        {"limit": 0},
        {"since": "yesterday"},
        {"since": "2026-11-29T10:00:00"},
        {"until": "9999-12-31T23:59:59-23:00"},
        {"run_id": ""},
        {"run_id": "a\0b"},
        {"model": "a\0b"},
        {"status": "raised"},
        {"order": "random"},
        {"colour": "red"},
    ]
    for query in unanswerable:
        answer = await service.client.get("/v1/reports", params=query, headers=service.reader)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_parameter"), query
    for cursor in ("nonsense", "", "W10", "\0", "W10=" * 400):
        answer = await service.client.get(
            "/v1/reports", params={"cursor": cursor}, headers=service.reader
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor"), cursor


async def test_a_cursor_belongs_to_its_filters_its_order_and_its_tenant(service: Service) -> None:
    await keep(service.database, *(a_report(run_id="r", rank=n) for n in range(3)), caller=ME)
    cursor = (await service.get(run_id="r", limit=1))["next_cursor"]
    for changed in ({}, {"run_id": "s"}, {"run_id": "r", "order": "newest"}):
        answer = await service.client.get(
            "/v1/reports", params={**changed, "cursor": cursor}, headers=service.reader
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")
    answer = await service.client.get(
        "/v1/reports", params={"run_id": "r", "cursor": cursor}, headers=service.other
    )
    assert answer.status_code == 400
    # The number of items a page is no filter.
    assert len((await service.get(run_id="r", limit=2, cursor=cursor))["items"]) == 2


async def test_nothing_of_one_tenant_is_shown_to_another(service: Service) -> None:
    (one,) = await keep(service.database, a_report(measured=FAR_TOO_MUCH), caller=ME)
    get = service.client.get
    for path in ("/v1/reports", "/v1/reports/quarantine"):
        assert (await get(path, headers=service.other)).json()["items"] == []
    exported = await get("/v1/reports/export", headers=service.other)
    assert len(exported.text.splitlines()) == 1
    for answer in (
        await get(f"/v1/reports/{one.report_id}", headers=service.other),
        await service.client.post(
            f"/v1/reports/quarantine/{one.report_id}/release",
            json={"reason": "mine now"},
            headers=service.other,
        ),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_report_is_given_whole(service: Service) -> None:
    (one,) = await keep(service.database, a_report(peak_step=12), caller=ME)
    whole = await service.get(f"/{one.report_id}")
    assert whole["job"] == a_job()
    assert whole["document"]["peak_step"] == 12
    assert whole["document"]["job"] == {"sha256": whole["job_digest"]}
    (listed,) = (await service.get())["items"]
    assert listed.items() <= whole.items()


# ---------------------------------------------------------------- quarantine


async def test_a_released_report_counts_moves_to_the_end_and_keeps_its_doubts(
    service: Service,
) -> None:
    doubted, sound = await keep(
        service.database, a_report(run_id="d", measured=FAR_TOO_MUCH), a_report(), caller=ME
    )
    (listed,) = (await service.get("/quarantine"))["items"]
    assert (listed["report_id"], listed["status"]) == (doubted.report_id, "quarantined")
    assert {one["code"] for one in listed["reasons"]} == {"far_from_estimate"}
    stood = (await service.get())["resume_cursor"]

    released = await service.release(listed["report_id"], "checked with the team")
    assert released.status_code == 200
    assert released.json()["status"] == "accepted"
    assert released.json()["reasons"] == listed["reasons"]
    assert released.json()["first_received_at"] == listed["first_received_at"]

    assert (await service.get("/quarantine"))["items"] == []
    assert await kept(service.database, MINE) == [sound.report_id, doubted.report_id]
    (tail,) = (await service.get(cursor=stood))["items"]
    assert (tail["report_id"], tail["status"]) == (doubted.report_id, "accepted")
    (row,) = [one for one in await rows_of(service.database, report_keys) if one.run_id == "d"]
    assert row.status == "accepted"
    assert len(await rows_of(service.database, reports)) == 2

    async with service.database.reading() as connection:
        entry, *_ = await entries_of(connection, tenant=MINE, before=None, limit=9)
    assert (entry.action, entry.actor, entry.subject) == (
        "report.release", "keeper", doubted.report_id,
    )  # fmt: skip
    assert entry.detail["reason"] == "checked with the team"
    assert set(entry.detail["doubts"]) == {"far_from_estimate"}

    again = await service.release(listed["report_id"])
    assert (again.status_code, again.json()["code"]) == (409, "not_quarantined")


async def test_a_report_of_long_ago_is_released_into_the_present(service: Service) -> None:
    (one,) = await keep(service.database, a_report(measured=FAR_TOO_MUCH), caller=ME)
    long_ago = datetime(2026, 1, 15, tzinfo=UTC)
    await move_back(service.database, str(one.report_id), long_ago)
    released = (await service.release(str(one.report_id))).json()
    assert datetime.fromisoformat(released["received_at"]) > long_ago
    assert len(await rows_of(service.database, reports)) == 1
    assert await service.get(f"/{one.report_id}") == released


async def test_the_next_report_of_a_released_run_finds_it_where_it_went(service: Service) -> None:
    running = a_report(outcome="running", measured=FAR_TOO_MUCH)
    (one,) = await keep(service.database, running, caller=ME)
    assert (await service.release(str(one.report_id))).status_code == 200
    more = {**running, "measured": measured(82_500_000_000)}
    (raised,) = await keep(service.database, more, caller=ME)
    assert (raised.report_id, raised.receipt) == (one.report_id, "raised")
    assert len(await kept(service.database, MINE)) == 1


async def test_what_has_no_estimate_cannot_be_released(service: Service) -> None:
    launch = {name: value for name, value in {**a_report(), **A_LAUNCH}.items() if value}
    unknown = a_report(job=a_job(model={"name": "nobody/nothing-at-all"}))
    recorded = await keep(service.database, launch, unknown, caller=ME)
    for one in recorded:
        answer = await service.release(str(one.report_id))
        assert (answer.status_code, answer.json()["code"]) == (409, "job_unknown")
    assert len((await service.get("/quarantine"))["items"]) == 2


async def test_a_release_needs_its_scope_a_reason_and_a_report(service: Service) -> None:
    (one,) = await keep(service.database, a_report(measured=FAR_TOO_MUCH), caller=ME)
    path = f"/v1/reports/quarantine/{one.report_id}/release"
    post = service.client.post
    refused = await post(path, json={"reason": "r"}, headers=service.reader)
    assert (refused.status_code, refused.json()["scope"]) == (403, "calibrate")
    for body in ({}, {"reason": ""}, {"reason": "a\u200bb"}, {"reason": 1}, {"why": "r"}):
        answer = await post(path, json=body, headers=service.keeper)
        assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    nobody = await service.release("0192f0c8-0000-7000-8000-000000000000")
    assert nobody.status_code == 404
    assert len((await service.get("/quarantine"))["items"]) == 1


# ---------------------------------------------------------------- export


async def _exported(service: Service, **query: str) -> httpx.Response:
    answer = await service.client.get("/v1/reports/export", params=query, headers=service.reader)
    assert answer.status_code == 200, answer.text
    return answer


async def test_csv_and_parquet_hold_what_the_list_shows(service: Service, tmp_path: Path) -> None:
    items = [
        a_report(
            run_id=f"run, \"{n}\"", labels={"é": "ü\"'"}, step_seconds=n + 0.1,
            measured_at="2026-11-29T10:00:00.123456Z",
        )
        for n in range(3)
    ]  # fmt: skip
    await keep(service.database, *items, caller=ME)
    await keep(service.database, a_report(outcome="oom", measured=None), caller=ME)
    listed = (await service.get())["items"]
    answer = await _exported(service)
    assert answer.headers["content-type"].startswith("text/csv")
    disposition = answer.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="vramgate-reports-')
    assert disposition.endswith('.csv"')
    assert answer.text.endswith("\r\n")
    lines = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    binary = await _exported(service, format="parquet")
    file = tmp_path / "reports.parquet"
    file.write_bytes(binary.content)
    table = pq.read_table(file)
    rows = table.to_pylist()
    assert len(lines) == len(rows) == len(listed) == 4
    assert list(lines[0]) == table.column_names == [column.name for column in COLUMNS]
    for line, row, item in zip(lines, rows, listed, strict=True):
        flat = _flat(item)
        assert {name: "" if flat[name] is None else str(flat[name]) for name in flat} == {
            name: line[name] for name in flat
        }
        for name, value in flat.items():
            shown = row[name]
            is_moment = hasattr(shown, "isoformat")
            told = shown.isoformat().replace("+00:00", "Z") if is_moment else shown
            assert told == value, name
    types = {field.name: field.type for field in table.schema}
    assert types["max_allocated_bytes"] == pa.int64()
    assert types["received_at"] == types["measured_at"] == pa.timestamp("us", tz="UTC")
    assert types["step_seconds"] == pa.float64()
    assert types["labels"] == pa.string()


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    """Return what both files must hold of an item of the list."""
    plain = (
        "report_id", "run_id", "rank", "status", "received_at", "first_received_at",
        "measured_at", "submitter", "outcome", "model", "job_digest", "accelerator",
        "accelerator_total_bytes", "step_seconds", "tokens_per_second",
    )  # fmt: skip
    estimate = item["estimate"]
    layers = ("allocated", "reserved", "device")
    return {
        **{name: item[name] for name in plain},
        **item["measured"],
        **{f"estimated_{name}_bytes": estimate[f"{name}_bytes"] for name in (*layers, "required")},
        "model_version": estimate["model_version"],
        **{
            f"{name}_relative_error": item["residuals"].get(name, {}).get("relative_error")
            for name in layers
        },
    }


async def test_the_same_filters_select_what_is_exported(service: Service) -> None:
    await keep(service.database, a_report(run_id="a"), a_report(run_id="b"), caller=ME)
    await keep(service.database, a_report(run_id="c", measured=FAR_TOO_MUCH), caller=ME)
    for query, expected in (
        ({"run_id": "b"}, ["b"]),
        ({"status": "quarantined"}, ["c"]),
        ({"until": "2020-01-01T00:00:00Z"}, []),
    ):
        lines = csv.DictReader(io.StringIO((await _exported(service, **query)).text))
        assert [line["run_id"] for line in lines] == expected
    empty = await _exported(service, format="parquet", until="2020-01-01T00:00:00Z")
    assert pq.read_table(io.BytesIO(empty.content)).num_rows == 0


async def test_no_text_of_a_report_becomes_a_formula(service: Service) -> None:
    evil = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "'=1", "fine"]
    await keep(service.database, *(a_report(run_id=one) for one in evil), caller=ME)
    text = (await _exported(service)).text
    shown = [line["run_id"] for line in csv.DictReader(io.StringIO(text, newline=""))]
    assert shown == [*(f"'{one}" for one in evil[:-1]), "fine"]
    binary = await _exported(service, format="parquet")
    assert pq.read_table(io.BytesIO(binary.content))["run_id"].to_pylist() == evil


async def test_the_link_of_an_export_leads_to_what_came_after_it(service: Service) -> None:
    await keep(service.database, a_report(run_id="before"), caller=ME)
    answer = await _exported(service, outcome="completed", since="2026-01-01T00:00:00Z")
    await keep(service.database, a_report(run_id="after"), caller=ME)
    address = answer.headers["link"].partition(">")[0].removeprefix("<")
    page = (await service.client.get(address, headers=service.reader)).json()
    assert [one["run_id"] for one in page["items"]] == ["after"]


async def test_an_export_ends_where_the_reports_stood_when_it_began(database: Database) -> None:
    await keep(database, a_report(run_id="r"), a_report(run_id="s"), caller=ME)
    export = await ReportExport.begin(database, Selection(tenant=MINE))
    await keep(database, a_report(run_id="later"), caller=ME)
    runs = [one.run_id async for page in export.pages() for one in page]
    assert runs == ["r", "s"]


class _Watched(ReportExport):
    """An export during which somebody looks at the memory of the process."""

    peak_bytes = 0

    async def pages(self) -> AsyncIterator[list[StoredReport]]:
        """Yield the pages."""
        async for page in super().pages():
            yield page
            self.peak_bytes = max(self.peak_bytes, _resident_bytes())


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
async def test_an_export_takes_no_more_memory_for_more_reports(
    database: Database, file_format: str
) -> None:
    await keep(database, a_report(run_id="r", labels={"team": "nlp"}), caller=ME)
    await multiply(database, 50_000)

    async def export(last: int) -> tuple[int, int]:
        """Return how many bytes went out for so many reports, and what the process grew by."""
        begun = await ReportExport.begin(database, Selection(tenant=MINE))
        end = replace(begun.end, position=last)
        one = _Watched(database, Selection(tenant=MINE), end)
        before, size = _resident_bytes(), 0
        pieces = one.csv() if file_format == "csv" else pieces_of(await one.parquet())
        async for piece in pieces:
            size += len(piece)
        return size, one.peak_bytes - before

    await export(4_000)  # pyarrow and all statements are loaded by then
    size, grown = await export(60_000)
    assert size > (15_000_000 if file_format == "csv" else 100_000)
    # A page is some megabytes; all 50 000 on one page took 107 MiB (measured).
    assert grown < 32 * 2**20
