"""Schedulers that ask until they are answered, and what they were told."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.chaos.flights import CUT_OFF, UNREACHED, Flights
from tests.chaos.harness import Service
from tests.chaos.questions import Copies, Question

FIRST_BACKOFF_SECONDS = 0.02
LONGEST_BACKOFF_SECONDS = 0.3
ANSWER_SECONDS = 30.0
COME_AGAIN = "answered 503"
MOST_REFUSALS = 5
"""So often a scheduler is told to come again before it turns to the next question."""
LONGEST_SECONDS = 4.0
"""Twice what the service takes for itself at most: some more for a machine that is busy starting others."""
WITNESSED_SHARE = 0.15
"""Of the answers that say ``recorded``, those whose row is looked for at once."""
UNCHECKED = "unchecked"
CANNOT_KEEP = "not_recorded"
"""The reason an answer gives where its decision is kept nowhere."""
SAME_IN_THE_ROW = (
    "mode", "verdict", "decision", "reason_code", "oom_probability", "policy_version",
    "calibration_version", "model_version", "inputs_digest",
)  # fmt: skip
"""Fields of an answer that are columns of its row."""

Key = tuple[str, str]
"""A tenant, and the id of one of its decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A decision as it was answered."""

    key: Key
    question: Question
    answer: Mapping[str, Any]

    @property
    def is_recorded(self) -> bool:
        """Whether it was told to be a row already."""
        return bool(self.answer["recorded"])

    @property
    def shown(self) -> dict[str, Any]:
        """Return what must be in its row."""
        own = {"external_id": self.question.external_id}
        return {**own, **{name: self.answer[name] for name in SAME_IN_THE_ROW}}


@dataclass(slots=True)
class AnswerCounts:
    """How many answers said what."""

    decisions: Counter[str] = field(default_factory=Counter)
    dry_runs: int = 0
    denied_unrecorded: int = 0
    """Refusals that did not wait for the database."""
    seconds_recorded: list[float] = field(default_factory=list)
    seconds_journalled: list[float] = field(default_factory=list)
    hurried: int = 0
    """Answers to callers with little patience."""
    in_time: int = 0
    """Those of them that came before it had run out."""

    @property
    def recorded(self) -> int:
        """How many answers said that the decision is a row."""
        return len(self.seconds_recorded)

    @property
    def journalled(self) -> int:
        """How many said that it is not yet."""
        return len(self.seconds_journalled)


class AdmissionLedger(Flights):
    """Everything that schedulers asked and were told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[Key, Told] = {}
        """Each decision as it was first answered."""
        self.recorded: set[Key] = set()
        """Those of which some answer said that they are rows."""
        self.dry_runs: set[Key] = set()
        self.questions = 0
        self.unanswered: list[Question] = []
        """Of each attempt that was cut off, or told to come again."""
        self.counts = AnswerCounts()
        self.wrongly_allowed: list[str] = []
        self._ids: dict[tuple[str, str, str, str], Key] = {}

    @property
    def answers(self) -> int:
        """How many answers there were."""
        return self.counts.decisions.total()

    def note(self, question: Question, answer: Mapping[str, Any], *, seconds: float) -> Told:
        """Hold an answer against what must have been decided, and keep it."""
        told = Told(key=(question.tenant, answer["decision_id"]), question=question, answer=answer)
        if seconds > LONGEST_SECONDS:
            self.faults.append(f"{told.key} was answered after {seconds:.1f} s")
        self.counts.decisions[answer["decision"]] += 1
        if question.patience_ms is not None:
            self.counts.hurried += 1
            self.counts.in_time += 1_000 * seconds <= question.patience_ms
        self._judge(question, answer)
        if not question.is_stored:
            self.counts.dry_runs += 1
            self.dry_runs.add(told.key)
            return told
        self._note_where(told, seconds)
        first = self.told.setdefault(told.key, told)
        if first.shown != told.shown:
            self.faults.append(f"{told.key} was answered {first.shown}, then {told.shown}")
        self._note_id(told)
        return told

    def _judge(self, question: Question, answer: Mapping[str, Any]) -> None:
        decision = answer["decision"]
        if decision in {question.fate.decision, UNCHECKED}:
            return
        words = f"{question.fate.name} was answered {decision}: {answer['message']}"
        refused_at_other_times = question.fate.decision == "deny"
        (self.wrongly_allowed if refused_at_other_times else self.faults).append(words)

    def _note_where(self, told: Told, seconds: float) -> None:
        if told.is_recorded:
            self.counts.seconds_recorded.append(seconds)
            self.recorded.add(told.key)
            return
        self.counts.seconds_journalled.append(seconds)
        self.counts.denied_unrecorded += told.answer["decision"] == "deny"
        if any(reason["code"] == CANNOT_KEEP for reason in told.answer["reasons"]):
            self.faults.append(f"{told.key} was answered with the word that it is kept nowhere")

    def _note_id(self, told: Told) -> None:
        """Hold the id against the one before, of the same question under the same external id."""
        external_id = told.question.external_id
        if external_id is None:
            return
        answer = told.answer
        asked = (told.key[0], external_id, answer["verdict"], answer["policy_version"])
        known = self._ids.setdefault(asked, told.key)
        if known != told.key:
            self.faults.append(f"{asked} has two ids: {known[1]} and {told.key[1]}")


class Scheduler:
    """One client: asks its questions in order, at any replica, and again where there is no answer."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        replicas: Sequence[Service],
        ledger: AdmissionLedger,
        *,
        headers: Mapping[str, Mapping[str, str]],
        witness: Callable[[Told], Awaitable[None]],
        seed: int,
    ) -> None:
        """Prepare a client; ``headers`` hold what each tenant shows."""
        self._http = http
        self._replicas = replicas
        self._ledger = ledger
        self._headers = headers
        self._witness = witness
        self._random = random.Random(seed)  # noqa: S311 only spreads the requests

    async def ask_all(self, questions: Iterator[Question]) -> None:
        """Ask one question after the other until the run is over; others may draw on them too."""
        while not self._ledger.is_over:
            self._ledger.questions += 1
            await self._ask(next(questions))

    async def _ask(self, question: Question) -> None:
        at_once = 2 if question.copies is Copies.TWO_AT_ONCE else 1
        await asyncio.gather(*(self._answer(question) for _ in range(at_once)))
        if question.copies is Copies.ANOTHER_LATER:
            await self._answer(question)

    async def _answer(self, question: Question) -> None:
        backoff, refusals = FIRST_BACKOFF_SECONDS, 0
        while not self._ledger.is_over and refusals < MOST_REFUSALS:
            began = time.monotonic()
            answer = await self._attempt(question)
            if not isinstance(answer, str):
                await self._note(question, answer, seconds=time.monotonic() - began)
                return
            refusals += answer == COME_AGAIN
            await asyncio.sleep(backoff * self._random.uniform(0.5, 1))
            backoff = min(2 * backoff, LONGEST_BACKOFF_SECONDS)

    async def _note(self, question: Question, answer: Mapping[str, Any], *, seconds: float) -> None:
        told = self._ledger.note(question, answer, seconds=seconds)
        is_stored = told.is_recorded and question.is_stored
        if is_stored and self._random.random() < WITNESSED_SHARE:
            await self._witness(told)

    async def _attempt(self, question: Question) -> Mapping[str, Any] | str:
        """Return the answer, or what came instead."""
        address = self._address()
        attempt, trouble = self._ledger.begin(at=address), None
        try:
            answer = await self._post(question, address)
            trouble = self._trouble_of(answer)
        except httpx.ConnectError:
            trouble = UNREACHED
        except httpx.TransportError as error:
            trouble = CUT_OFF
            if isinstance(error, httpx.TimeoutException):
                self._ledger.faults.append(f"no answer within {ANSWER_SECONDS:.0f} s")
        finally:
            await self._ledger.end(attempt, trouble=trouble)
        if trouble is None:
            found: Mapping[str, Any] = answer.json()
            return found
        if trouble != UNREACHED and question.is_stored:
            self._ledger.unanswered.append(question)
        return trouble

    def _trouble_of(self, answer: httpx.Response) -> str | None:
        """Return what else than an answer it is; None where it is one."""
        if answer.status_code == httpx.codes.OK:
            return None
        trouble = f"answered {answer.status_code}"
        if trouble != COME_AGAIN or "retry-after" not in answer.headers:
            self._ledger.faults.append(f"{trouble}: {answer.text[:500]}")
        return trouble

    def _address(self) -> str:
        # A load balancer would see which is down; a down one is met now and then all the same.
        up = [one for one in self._replicas if one.is_up] or self._replicas
        return self._random.choice(up).address

    async def _post(self, question: Question, address: str) -> httpx.Response:
        headers = dict(self._headers[question.tenant])
        if question.patience_ms is not None:
            headers["X-Request-Timeout-Ms"] = str(question.patience_ms)
        return await self._http.post(f"{address}/admit", json=question.body, headers=headers)
