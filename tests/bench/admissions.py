"""Decisions over HTTP with a token on PostgreSQL, beside a bare endpoint that asks for none."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import httpx

from tests.bench import questions
from tests.bench.asked import Asked, admitting
from tests.bench.harness import Comparison, Latencies, Latency, in_turn
from tests.bench.load import BodyOf, Timed
from tests.bench.processes import bare_endpoint, postgres

MANY = 64
FEW = 16
ROUND_SECONDS = 3.0
RATES = (100, 500)
"""Questions a second."""
RATE_SECONDS = 20.0
WARM_UP_SECONDS = 3.0
SAMPLE_SECONDS = 2.0

# Budgets: DESIGN.md, 12.
REPEATED_SHARE = 1.0
"""Of the bare endpoint's throughput, at least, for jobs that repeat."""
NEW_SHARE = 0.25
"""The same where every job is new."""
BUDGETS: Mapping[int, tuple[str, float]] = {100: ("p99", 0.05)}
"""By questions a second."""

SAME_BYTES = "the same bytes"
SAME_JOB = "the same job, a new external_id"
NEW_JOB = "every job new"
WAYS: Mapping[str, BodyOf] = {
    SAME_BYTES: questions.same_bytes,
    SAME_JOB: questions.same_job,
    NEW_JOB: questions.new_job,
}
_SHARES = {SAME_BYTES: REPEATED_SHARE, SAME_JOB: REPEATED_SHARE, NEW_JOB: NEW_SHARE}


def admissions_beside_bare() -> list[Comparison]:
    """Compare questions that repeat and new ones with a bare endpoint, many at once and few."""
    return [_beside_bare(MANY), _beside_bare(FEW)]


def _beside_bare(connections: int) -> Comparison:
    with postgres() as server, ExitStack() as stack:
        bare = Asked(stack.enter_context(bare_endpoint(server.fresh())))
        ours = stack.enter_context(admitting(server.fresh()))
        ask = {
            "bare endpoint, one row a request": partial(question_seconds, bare, questions.new_job)
        }
        ask |= {
            f"POST /v1/admit, {name}": partial(question_seconds, ours, WAYS[name]) for name in WAYS
        }
        timings = in_turn({name: partial(one, connections) for name, one in ask.items()})
        note = _told_of_new(ours)
    first = timings[0].seconds
    budgets = [first / _SHARES[name] for name in WAYS]
    ours_timed = [
        replace(one, budget_seconds=budget)
        for one, budget in zip(timings[1:], budgets, strict=True)
    ]
    return Comparison(
        title=f"Decisions kept, {connections} connections, PostgreSQL, one process, with a token",
        unit="question",
        timings=[timings[0], *ours_timed],
        notes=[note],
    )


def latencies_at_rates() -> list[Latencies]:
    """Return how long answers take at fixed rates."""
    with postgres() as server, admitting(server.fresh()) as ours:
        warm_up(ours)
        return [_at_rate(ours, rate) for rate in RATES]


def _at_rate(ours: Asked, rate: int) -> Latencies:
    rows, notes = [], []
    for name, body_of in WAYS.items():
        answers = ours.at_rate(body_of, per_second=rate, seconds=RATE_SECONDS)
        seconds = [one.seconds for one in answers]
        rows.append(Latency(name=name, seconds=seconds, budget=BUDGETS.get(rate)))
        notes.append(told_of_recorded(name, answers))
    title = f"POST /v1/admit at {rate} questions/s, PostgreSQL, a token"
    return Latencies(title=title, rows=rows, notes=notes)


def warm_up(ours: Asked) -> None:
    """Ask a while, so that connections are open and everything is imported."""
    for body_of in WAYS.values():
        ours.at_rate(body_of, per_second=RATES[0], seconds=WARM_UP_SECONDS)


def recorded(answers: Sequence[Timed]) -> int:
    """Return how many decisions were rows when they were answered; the others were in the journal.

    Raises:
        RuntimeError: an answer is no decision.
    """
    bodies = []
    for one in answers:
        if one.answer.status != httpx.codes.OK:
            raise RuntimeError(f"{one.answer.status}: {one.answer.body.decode(errors='replace')}")
        bodies.append(json.loads(one.answer.body))
    return sum(body["recorded"] for body in bodies)


def told_of_recorded(name: str, answers: Sequence[Timed]) -> str:
    """Return how many decisions were rows when they were answered, in words."""
    return f"{name}: {recorded(answers):,} of {len(answers):,} were rows when they were answered."


def question_seconds(asked: Asked, body_of: BodyOf, connections: int, _turn: int) -> float:
    """Return what a question takes in one round, for ``in_turn``."""
    return asked.seconds_a_question(body_of, connections=connections, round_seconds=ROUND_SECONDS)


def _told_of_new(ours: Asked) -> str:
    """Return how many new jobs there are, and what becomes of some of them."""
    answers = ours.at_rate(questions.new_job, per_second=RATES[0], seconds=SAMPLE_SECONDS)
    verdicts = Counter(json.loads(one.answer.body)["verdict"] for one in answers)
    told = ", ".join(f"{verdict} {count}" for verdict, count in verdicts.most_common())
    return f"New jobs: {questions.DISTINCT:,} distinct; of {len(answers)} asked about: {told}."
