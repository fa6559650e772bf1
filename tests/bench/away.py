"""Decisions while the database is stopped, beside a service whose database runs, in one run."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from tests.bench.admissions import (
    MANY,
    NEW_JOB,
    RATE_SECONDS,
    RATES,
    SAME_JOB,
    WAYS,
    question_seconds,
    told_of_recorded,
    warm_up,
)
from tests.bench.asked import Asked, admitting
from tests.bench.harness import Comparison, Latencies, Latency, Shown, in_turn
from tests.bench.processes import postgres

KINDS = (SAME_JOB, NEW_JOB)
RUNNING, STOPPED = "database running", "database stopped"
_ROOM = {"VRAMGATE_JOURNAL_MAX_BYTES": str(4 * 2**30)}
"""For every decision of the run: what a full journal loses would cost nothing to keep."""


def admissions_without_database() -> list[Shown]:
    """Compare two services of which one has its database stopped under it."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(postgres()) for name in (RUNNING, STOPPED)}
        services = {
            name: stack.enter_context(admitting(server.fresh(), _ROOM))
            for name, server in servers.items()
        }
        for one in services.values():
            warm_up(one)
        servers[STOPPED].stop()
        throughputs = [_throughput(kind, services) for kind in KINDS]
        latencies = [_latencies(rate, services) for rate in RATES]
        told = _told_of_journal(services[STOPPED])
        last = replace(latencies[-1], notes=[*latencies[-1].notes, told])
        return [*throughputs, *latencies[:-1], last]


def _throughput(kind: str, services: Mapping[str, Asked]) -> Comparison:
    ways = {
        name: partial(question_seconds, asked, WAYS[kind], MANY) for name, asked in services.items()
    }
    return Comparison(
        title=f"Decisions kept, {MANY} connections, {kind}", unit="question", timings=in_turn(ways)
    )


def _latencies(rate: int, services: Mapping[str, Asked]) -> Latencies:
    rows, notes = [], []
    for kind in KINDS:
        for name, asked in services.items():
            answers = asked.at_rate(WAYS[kind], per_second=rate, seconds=RATE_SECONDS)
            seconds = [one.seconds for one in answers]
            rows.append(Latency(name=f"{kind}, {name}", seconds=seconds))
            notes.append(told_of_recorded(rows[-1].name, answers))
    title = f"POST /v1/admit at {rate} questions/s, PostgreSQL, a token"
    return Latencies(title=title, rows=rows, notes=notes)


def _told_of_journal(asked: Asked) -> str:
    """Return what the service says of its journal: how many wait, and that none was dropped."""
    with asked.client() as client:
        checks = client.get("/readyz", params={"verbose": ""}).json()["checks"]
    (journal,) = (one["detail"] for one in checks if one["name"] == "journal")
    return f"Journal of the service whose database stopped: {journal}."
