"""What schedulers will ask, made up from a seed: known jobs and new ones, once, again, and at once.

What must become of each follows from hand arithmetic. An 8B model (8.03e9 parameters) trained in full
in ``bf16-mixed`` holds 16 bytes a parameter, 128 GB, whatever the batch is: it cannot fit a card of
85 GB. LoRA over the same weights in 16 bits holds 16 GB and a few more.
"""

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from tests.factories import a_job

ON_CALL = "on-call"
"""Who may have a job let through by saying why."""
POLICY: dict[str, Any] = {"mode": "enforce", "break_glass": {"submitters": [ON_CALL]}}
SHORT_PATIENCE_MS = 300
KNOWN_JOBS = 12
TENANTS = ("default", "team-a")
"""The first asks without a token, the second with one."""


class Fate(Enum):
    """What must be decided, where there was time and the policy was known."""

    FITS = "allow"
    DOOMED = "deny"
    UNKNOWN = "warn"
    LET_THROUGH = "allow, as somebody broke the glass"

    @property
    def decision(self) -> str:
        """Return the word that the answer must say."""
        return self.value.split(",")[0]


class Copies(Enum):
    """How often a client asks one question on purpose, beside its retries."""

    ONE = auto()
    ANOTHER_LATER = auto()
    TWO_AT_ONCE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, asked until it is answered."""

    body: dict[str, Any]
    fate: Fate
    tenant: str
    copies: Copies
    patience_ms: int | None = None

    @property
    def external_id(self) -> str | None:
        """Return the scheduler's own id."""
        found: str | None = self.body.get("external_id")
        return found

    @property
    def is_stored(self) -> bool:
        """Whether anything is to be kept of it."""
        return not self.body.get("dry_run", False)


@dataclass(slots=True)
class _Maker:
    random: random.Random
    new_jobs: int = field(default=0)

    def question(self) -> Question:
        """Return the next one."""
        fate = self.random.choices(tuple(Fate), weights=(45, 40, 7, 8))[0]
        body: dict[str, Any] = {"job": self._job(fate), "queue": "a100", "submitter": "ada"}
        if fate is Fate.LET_THROUGH:
            body |= {"submitter": ON_CALL, "break_glass": "the deadline of the paper; 日本語"}
        if self.random.random() < 0.6:
            body |= {"cluster": "alps", "channel": "slurm", "external_id": self._name()}
        if self.random.random() < 0.03:
            body["dry_run"] = True
        return Question(
            body=body,
            fate=fate,
            tenant=self.random.choice(TENANTS),
            copies=self.random.choices(tuple(Copies), weights=(70, 18, 12))[0],
            patience_ms=SHORT_PATIENCE_MS if self.random.random() < 0.1 else None,
        )

    def _job(self, fate: Fate) -> dict[str, Any]:
        """Return a job that was asked about before, or, one time in five, a new one."""
        number = self.random.randrange(KNOWN_JOBS)
        if self.random.random() < 0.2:
            self.new_jobs += 1
            number = KNOWN_JOBS + self.new_jobs
        length = 128 + number % 1_900
        if fate is Fate.FITS:
            return a_job(sequence_length=length, micro_batch_size=1)
        if fate is Fate.UNKNOWN:
            return a_job(model={"name": f"nobody/model-{number}"})
        return a_job(
            sequence_length=length, micro_batch_size=1, method="full", precision="bf16-mixed"
        )

    def _name(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))


def questions_from(seed: int) -> Iterator[Question]:
    """Yield questions without end; of one seed, the same ones in the same order."""
    maker = _Maker(random.Random(seed))  # noqa: S311 the same every time is what we want
    while True:
        yield maker.question()
