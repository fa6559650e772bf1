"""What trainers will post, made up from a seed: alone and in batches, once, twice, and in states."""

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from tests.factories import a_job
from tests.reports import A100_BYTES, ALLOCATED, a_report, measured

MOST_IN_A_BATCH = 40
MOST_RANKS = 8
JOBS = 40


class Fate(Enum):
    """What must become of a report; a kept one is ``duplicate`` where it was sent before."""

    ACCEPTED = "accepted"
    RAISED = "raised"
    QUARANTINED = "quarantined"
    CONFLICT = "conflict"
    REFUSED = "refused"


class Copies(Enum):
    """How often a client posts one request on purpose, beside its retries."""

    ONE = auto()
    ANOTHER_LATER = auto()
    TWO_AT_ONCE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A report and what must become of it."""

    report: dict[str, Any]
    fate: Fate

    @property
    def key(self) -> tuple[str, int]:
        """Return what it is known by within its tenant."""
        return self.report["run_id"], self.report["rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """One request, posted until it is acknowledged."""

    items: tuple[Item, ...]
    is_gzip: bool
    idempotency_key: str | None
    copies: Copies


@dataclass(slots=True)
class _Script:
    """What one client posts, in order, and the runs of which later states are still to come."""

    postings: list[Posting] = field(default_factory=list)
    running: list[list[tuple[Item, ...]]] = field(default_factory=list)


def scripts_of(*, reports: int, clients: int, seed: int) -> list[list[Posting]]:
    """Return what each client posts; all of them together post this many different reports."""
    maker = _Maker(seed)
    scripts = [_Script() for _ in range(clients)]
    while maker.made < reports:
        script = maker.random.choice(scripts)
        maker.add_run(script, reports - maker.made)
        maker.go_on(script)
    for script in scripts:
        while script.running:
            maker.go_on(script)
    return [script.postings for script in scripts]


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 the same every time is what we want
        self.made = 0

    def add_run(self, script: _Script, most: int) -> None:
        """Add a run of some kind to what a client posts."""
        kind = self.random.choices(
            (self._single, self._batch, self._ranks, self._launch, self._odd_batch),
            weights=(50, 8, 16, 3, 3),
        )[0]
        first, *later = kind(most)
        self.made += sum(one.fate in {Fate.ACCEPTED, Fate.QUARANTINED} for one in first)
        script.postings.append(self._posting(first))
        if later:
            script.running.append(later)

    def go_on(self, script: _Script) -> None:
        """Let one of the client's runs come to its next state, or not."""
        if script.running and self.random.random() < 0.5:
            run = self.random.choice(script.running)
            script.postings.append(self._posting(run.pop(0)))
            script.running = [one for one in script.running if one]

    def _posting(self, items: Sequence[Item]) -> Posting:
        has_key = self.random.random() < 0.4
        return Posting(
            items=tuple(items),
            is_gzip=self.random.random() < 0.3,
            idempotency_key=self._name() if has_key else None,
            copies=self.random.choices(tuple(Copies), weights=(80, 12, 8))[0],
        )

    def _single(self, _most: int) -> list[tuple[Item, ...]]:
        return [(self._settled(self._name()),)]

    def _batch(self, most: int) -> list[tuple[Item, ...]]:
        count = min(most, self.random.randint(2, MOST_IN_A_BATCH))
        return [tuple(self._settled(self._name()) for _ in range(count))]

    def _ranks(self, most: int) -> list[tuple[Item, ...]]:
        """Return a run as its ranks tell of it: running, higher, done; then, at times, otherwise."""
        run, ranks = self._name(), min(most, self.random.randint(1, MOST_RANKS))
        job, labels = self._job(), self._labels()
        steps = sorted(self.random.sample(range(1_000), 3))
        outcomes = ("running", "running", "completed")
        states = [
            tuple(
                Item(
                    report=a_report(
                        run_id=run,
                        rank=rank,
                        job=job,
                        labels=labels,
                        outcome=outcome,
                        measured=measured(ALLOCATED + step * 1_000_003 + rank),
                        peak_step=step,
                    ),
                    fate=Fate.RAISED if index else Fate.ACCEPTED,
                )
                for rank in range(ranks)
            )
            for index, (step, outcome) in enumerate(zip(steps, outcomes, strict=True))
        ]
        if self.random.random() < 0.2:
            # The run is over: what comes under its key now must change nothing.
            states.append(tuple(_other(one) for one in states[-1]))
        return states

    def _launch(self, _most: int) -> list[tuple[Item, ...]]:
        report = a_report(run_id=self._name(), labels=self._labels())
        del report["job"]
        report["launch"] = {"framework": "torch", "command": "torchrun --nproc 8 train.py --ü"}
        return [(Item(report=report, fate=Fate.QUARANTINED),)]

    def _odd_batch(self, most: int) -> list[tuple[Item, ...]]:
        """Return a batch in which some reports are refused, or all of them."""
        kept = [self._settled(self._name()) for _ in range(min(most, self.random.randint(0, 5)))]
        items = [*kept, *(self._refused() for _ in range(self.random.randint(1, 3)))]
        self.random.shuffle(items)
        return [tuple(items)]

    def _settled(self, run: str) -> Item:
        report = a_report(
            run_id=run,
            job=self._job(),
            labels=self._labels(),
            measured=measured(ALLOCATED + self.random.randint(0, 10**9)),
            step_seconds=self.random.random() + 1e-6,
            software={"torch": "2.6.0", "driver": "550.54"},
        )
        if self.random.random() < 0.2:
            report["outcome"] = "oom"
            report["oom_message"] = "CUDA out of memory. Tried to allocate 2.00 GiB.\n" * 20
        return Item(report=report, fate=Fate.ACCEPTED)

    def _refused(self) -> Item:
        wrong: tuple[dict[str, Any], ...] = (
            {"measured": measured(A100_BYTES + 1)},
            {"measured": {"max_allocated_bytes": -1}},
            {"outcome": "finished"},
            {"unknown": 1},
            {"decision_id": "d-1"},
        )
        report = a_report(run_id=self._name(), **self.random.choice(wrong))
        return Item(report=report, fate=Fate.REFUSED)

    def _job(self) -> dict[str, Any]:
        rank = 8 + self.random.randrange(JOBS)
        return a_job(method={"kind": "lora", "rank": rank, "target_modules": "all-linear"})

    def _labels(self) -> dict[str, str]:
        return {
            "team": self.random.choice(("sprache", "日本語", "o'neil; --")),
            "try": self._name(),
        }

    def _name(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))


def _other(item: Item) -> Item:
    report = {**item.report, "step_seconds": 9.5}
    return Item(report=report, fate=Fate.CONFLICT)


def items_of(scripts: Sequence[Sequence[Posting]]) -> Iterator[Item]:
    """Yield every report of every request."""
    for script in scripts:
        for posting in script:
            yield from posting.items
