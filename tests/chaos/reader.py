"""A reader that follows the list of reports through every kill."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from tests.chaos.check import MEASURED
from tests.chaos.clients import Acknowledged, Key

PAGE = 200
SHOWN = ("run_id", "rank", "outcome", "labels", "measured")
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
PAUSE_SECONDS = 0.2
"""Between a page with nothing new and the next look, and before a retry."""


@dataclass(slots=True)
class Reader:
    """Reads the list oldest first and goes on behind what it has seen."""

    pages: int = 0
    interruptions: int = 0
    items: int = 0
    last_seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each report as it was last shown, by its id."""
    faults: list[str] = field(default_factory=list)
    _cursor: str | None = None
    _moment: datetime = LONG_AGO

    async def follow(self, http: httpx.AsyncClient, all_posted: asyncio.Event) -> None:
        """Read until everything is posted and nothing new follows."""
        while True:
            was_all = all_posted.is_set()
            page = await self._page(http)
            if page is None:
                self.interruptions += 1
            else:
                self._take(page)
            if page is not None and not page["items"] and was_all:
                return
            if page is None or not page["items"]:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _page(self, http: httpx.AsyncClient) -> dict[str, Any] | None:
        asked: dict[str, str | int] = {"order": "oldest", "limit": PAGE}
        if self._cursor is not None:
            asked["cursor"] = self._cursor
        try:
            answer = await http.get("/v1/reports", params=asked)
        except httpx.TransportError:
            return None
        if answer.status_code == httpx.codes.OK:
            page: dict[str, Any] = answer.json()
            return page
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
            self.faults.append(f"the reader was answered {answer.status_code}: {answer.text[:500]}")
        return None

    def _take(self, page: Mapping[str, Any]) -> None:
        self.pages += 1
        self.items += len(page["items"])
        self._cursor = page["resume_cursor"]
        for item in page["items"]:
            moment = datetime.fromisoformat(item["received_at"])
            if moment < self._moment:
                self.faults.append(f"the reader was shown {item} behind {self._moment}")
            self._moment = moment
            before = self.last_seen.get(item["report_id"])
            if before is not None and before["received_at"] == item["received_at"]:
                self.faults.append(f"the reader was shown {item['report_id']} twice")
            self.last_seen[item["report_id"]] = item


def misread(reader: Reader, acknowledged: Mapping[Key, Acknowledged]) -> Iterator[str]:
    """Yield acknowledged reports that the reader did not see, or not as they were acknowledged."""
    for key, told in acknowledged.items():
        item = reader.last_seen.get(told.report_id)
        if item is None:
            yield f"{key} was acknowledged and the reader never saw it"
            continue
        shown = {name: item[name] for name in SHOWN}
        expected = {name: told.report[name] for name in SHOWN}
        expected["measured"] = {name: told.report["measured"].get(name) for name in MEASURED}
        if shown != expected:
            yield f"{key}: the reader last saw {shown}, not {expected}"
    # Shown before it was durable, then lost.
    for report_id in reader.last_seen.keys() - {one.report_id for one in acknowledged.values()}:
        yield f"the reader saw {report_id}, of which nobody was told"
