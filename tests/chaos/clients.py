"""Trainers that post until they are answered, and what they were told."""

import asyncio
import gzip
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.traffic import Copies, Fate, Item, Posting

FIRST_BACKOFF_SECONDS = 0.02
LONGEST_BACKOFF_SECONDS = 0.3
ANSWER_SECONDS = 60.0
"""Above what the service may wait for its database: a request given up here could still be stored
after the ones that follow it."""
ACKNOWLEDGED = frozenset({httpx.codes.ACCEPTED, httpx.codes.UNPROCESSABLE_ENTITY})
UNREACHED = "could not connect"

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """A report as it was last acknowledged."""

    report_id: str
    report: dict[str, Any]
    is_quarantined: bool


@dataclass(slots=True, eq=False)
class Strike:
    """A moment at which processes were killed, and the requests it met."""

    killed: tuple[str, ...]
    in_flight: int = 0
    unanswered: int = 0
    """Of those in flight: cut off, or told to come again."""


@dataclass(slots=True, eq=False)
class _Attempt:
    """A request under way."""

    met: list[Strike] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    items: list[dict[str, Any]]
    body: str
    attempts: int
    was_cut_off: bool


class Ledger:
    """Everything the clients sent and were told."""

    def __init__(self) -> None:
        self.acknowledged: dict[Key, Acknowledged] = {}
        self.answers: dict[str, str] = {}
        """By idempotency key."""
        self.requests = 0
        self.on_purpose = 0
        """Requests that were posted although they had been, or just were being, posted."""
        self.retries: Counter[str] = Counter()
        self.receipts: Counter[str] = Counter()
        self.strikes: list[Strike] = []
        self.stored_unacknowledged = 0
        """Requests cut off after their commit, as the answer to their retry shows."""
        self.faults: list[str] = []
        self._in_flight: set[_Attempt] = set()
        self._answered = 0
        self._is_over = False
        self._changed = asyncio.Condition()

    async def reached(self, *, acknowledged: int, in_flight: int) -> None:
        """Wait until so many reports are acknowledged and so many requests are under way.

        Or until everything is posted.
        """

        def is_reached() -> bool:
            are_enough = len(self.acknowledged) >= acknowledged
            return self._is_over or (are_enough and len(self._in_flight) >= in_flight)

        async with self._changed:
            await self._changed.wait_for(is_reached)

    async def next_answer(self) -> None:
        """Wait until a request is acknowledged; others of the same commit are about to be."""
        before = self._answered
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_over or self._answered > before)

    async def close(self) -> None:
        """Note that everything is posted."""
        self._is_over = True
        await self._tell()

    def strike(self, *killed: str) -> Strike:
        """Note that processes are killed now."""
        strike = Strike(killed, in_flight=len(self._in_flight))
        for attempt in self._in_flight:
            attempt.met.append(strike)
        self.strikes.append(strike)
        return strike

    def begin(self) -> _Attempt:
        """Note that a request is sent."""
        attempt = _Attempt()
        self._in_flight.add(attempt)
        return attempt

    async def end(self, attempt: _Attempt, *, trouble: str | None) -> None:
        """Note that a request was answered, or what came instead."""
        self._in_flight.discard(attempt)
        if trouble is None:
            self._answered += 1
        else:
            self.retries[trouble] += 1
        if trouble not in {None, UNREACHED}:
            for strike in attempt.met:
                strike.unanswered += 1
        await self._tell()

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

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


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
        ledger.requests += 1
        attempt, trouble = ledger.begin(), None
        try:
            answer = await self._http.post("/v1/reports", content=body, headers=headers)
        except httpx.ConnectError:
            trouble = UNREACHED
        except httpx.TransportError:
            trouble = "cut off"
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
