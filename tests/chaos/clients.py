"""Trainers that post until they are answered, and what they were told."""

import asyncio
import gzip
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from tests.chaos.flights import CUT_OFF, UNREACHED, Flights
from tests.chaos.traffic import Copies, Fate, Item, Posting

FIRST_BACKOFF_SECONDS = 0.02
LONGEST_BACKOFF_SECONDS = 0.3
ANSWER_SECONDS = 60.0
"""Above what the service may wait for its database: a request given up here could still be stored
after the ones that follow it."""
ACKNOWLEDGED = frozenset({httpx.codes.ACCEPTED, httpx.codes.UNPROCESSABLE_ENTITY})

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A report as it was last acknowledged."""

    report_id: str
    report: dict[str, Any]
    is_quarantined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    items: list[dict[str, Any]]
    body: str
    attempts: int
    was_cut_off: bool


class Ledger(Flights):
    """Everything the clients sent and were told."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: dict[Key, Acknowledged] = {}
        self.answers: dict[str, str] = {}
        """By idempotency key."""
        self.on_purpose = 0
        """Requests that were posted although they had been, or just were being, posted."""
        self.receipts: Counter[str] = Counter()
        self.stored_unacknowledged = 0
        """Requests cut off after their commit, as the answer to their retry shows."""

    def note(self, posting: Posting, answer: _Answer, *, is_copy: bool) -> None:
        """Hold an answer against what must have become of each report, and keep it."""
        if len(answer.items) != len(posting.items):
            self.faults.append(f"{len(posting.items)} reports, {len(answer.items)} answers")
            return
        self._note_key(posting, answer)
        may_be_known = is_copy or answer.attempts > 1
        statuses = [
            self._note_one(item, told, may_be_known=may_be_known)
            for item, told in zip(posting.items, answer.items, strict=True)
        ]
        if answer.was_cut_off and not is_copy and "duplicate" in statuses:
            self.stored_unacknowledged += 1

    def _note_key(self, posting: Posting, answer: _Answer) -> None:
        """Hold an answer under an idempotency key against the one before."""
        # Where nothing was taken there is no transaction to keep the answer in; it is made anew.
        key = posting.idempotency_key
        if key is None or answer.status != httpx.codes.ACCEPTED:
            return
        first = self.answers.setdefault(key, answer.body)
        if answer.body != first:
            self.faults.append(f"key {key} was answered {first} and then {answer.body}")

    def _note_one(self, item: Item, told: dict[str, Any], *, may_be_known: bool) -> str:
        status = "refused" if "problem" in told else str(told["status"])
        self.receipts[status] += 1
        allowed = {item.fate.value}
        if may_be_known and item.fate not in {Fate.REFUSED, Fate.CONFLICT}:
            allowed.add("duplicate")
        if status not in allowed:
            self.faults.append(f"{item.key} was {status}, not {item.fate.value}: {told}")
        known = self.acknowledged.get(item.key)
        if status == "refused":
            return status
        if known is not None and known.report_id != told["report_id"]:
            self.faults.append(f"{item.key} was {known.report_id}, is {told['report_id']}")
        if status != "conflict":
            self.acknowledged[item.key] = Acknowledged(
                report_id=told["report_id"],
                report=item.report,
                is_quarantined=item.fate is Fate.QUARANTINED,
            )
        return status


class Trainer:
    """One client: posts its requests in order, each until it is acknowledged."""

    def __init__(self, http: httpx.AsyncClient, ledger: Ledger, *, seed: int) -> None:
        self._http = http
        self._ledger = ledger
        self._random = random.Random(seed)  # noqa: S311 only spreads the retries

    async def post_all(self, script: Sequence[Posting]) -> None:
        """Post everything; ends when all of it is acknowledged."""
        for posting in script:
            await self._post(posting)

    async def _post(self, posting: Posting) -> None:
        if posting.copies is Copies.TWO_AT_ONCE:
            answers = await asyncio.gather(*(self._answer(posting) for _ in range(2)))
        else:
            answers = [await self._answer(posting)]
        for answer in answers:
            self._ledger.note(posting, answer, is_copy=len(answers) > 1)
        if posting.copies is Copies.ANOTHER_LATER:
            answers.append(await self._answer(posting))
            self._ledger.note(posting, answers[-1], is_copy=True)
        self._ledger.on_purpose += len(answers) - 1

    async def _answer(self, posting: Posting) -> _Answer:
        body, headers = _encoded(posting)
        attempts, was_cut_off, backoff = 0, False, FIRST_BACKOFF_SECONDS
        while True:
            attempts += 1
            answer, trouble = await self._attempt(body, headers)
            if answer is not None:
                told = answer.json()
                return _Answer(
                    status=answer.status_code,
                    items=told["items"],
                    body=answer.text,
                    attempts=attempts,
                    was_cut_off=was_cut_off,
                )
            was_cut_off |= trouble != UNREACHED
            await asyncio.sleep(backoff * self._random.uniform(0.5, 1))
            backoff = min(2 * backoff, LONGEST_BACKOFF_SECONDS)

    async def _attempt(
        self, body: bytes, headers: dict[str, str]
    ) -> tuple[httpx.Response | None, str | None]:
        """Return the answer where it acknowledges, or why it does not."""
        ledger = self._ledger
        attempt, trouble = ledger.begin(at=str(self._http.base_url)), None
        try:
            answer = await self._http.post("/v1/reports", content=body, headers=headers)
        except httpx.ConnectError:
            trouble = UNREACHED
        except httpx.TransportError:
            trouble = CUT_OFF
        else:
            if answer.status_code in ACKNOWLEDGED:
                return answer, None
            trouble = f"answered {answer.status_code}"
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                ledger.faults.append(f"{trouble}: {answer.text[:500]}")
        finally:
            await ledger.end(attempt, trouble=trouble)
        return None, trouble


def _encoded(posting: Posting) -> tuple[bytes, dict[str, str]]:
    headers = {"content-type": "application/json"}
    reports = [item.report for item in posting.items]
    body = json.dumps({"reports": reports}, ensure_ascii=False).encode()
    if posting.is_gzip:
        headers["content-encoding"] = "gzip"
        body = gzip.compress(body, compresslevel=1)
    if posting.idempotency_key is not None:
        headers["idempotency-key"] = f'"{posting.idempotency_key}"'
    return body, headers
