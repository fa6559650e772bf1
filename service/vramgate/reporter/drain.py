"""Sends what the spool holds, each report once in effect."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vramgate.reporter.notices import log, say_once
from vramgate.reporter.send import Answer
from vramgate.reporter.spool import Held, Spool, Spooled

MOST_IN_A_BATCH = 100
_MOST_BATCH_BYTES = 2**20
_SERVER_ERROR = 500
_TOO_MANY_REQUESTS = 429
_DAY_NS = 86_400 * 10**9
# A decision that was journaled while the database was away is known once it is replayed. To the
# decision's own token the service says so with 503, which is tried again anyway.
_WAITABLE = frozenset({"unknown_decision"})


class Posts(Protocol):
    """Whatever posts a batch; ``send.Sender`` is it."""

    def post(self, reports: Sequence[Mapping[str, Any]]) -> Answer:
        """Send a batch and return the answer."""


@dataclass(slots=True, kw_only=True)
class Drained:
    """What became of the reports that waited."""

    sent: int = 0
    rejected: int = 0
    waiting: int = 0
    """Tried, and to be tried again."""
    trouble: str = ""
    """Why the service did not take them; empty where it answered."""
    retry_after_seconds: float = 0.0
    problem: object = None
    """What the service said about the last report it refused."""


def drain(
    spool: Spool,
    sender: Posts,
    url: str,
    *,
    until: float | None = None,
    decision_id: str | None = None,
) -> Drained:
    """Send what waits for this service, oldest first.

    Stops at the first sign that the service is not there, and at ``until`` on the monotonic clock.
    A file that another process is sending is left to it; so is what is not of ``decision_id``, where
    the token is for that one alone.
    """
    done = Drained()
    for batch in _batches(spool.entries()):
        if done.trouble or (until is not None and time.monotonic() > until):
            break
        _send_batch(spool, sender, batch, done, lambda one: _is_meant(one, url, decision_id))
    return done


def send_file(spool: Spool, sender: Posts, url: str, path: Path) -> Drained:
    """Send one file of the spool, before all others."""
    done = Drained()
    entries = [entry for entry in spool.entries() if entry.path == path]
    _send_batch(spool, sender, entries, done, lambda one: _is_meant(one, url))
    return done


def _is_meant(one: Held, url: str, decision_id: str | None = None) -> bool:
    """Return whether a report is for this service, and of this decision where one is named."""
    is_of_it = decision_id is None or one.report.get("decision_id") == decision_id
    return is_of_it and one.url in {None, url}


def _batches(entries: Sequence[Spooled]) -> list[list[Spooled]]:
    batches: list[list[Spooled]] = []
    room = 0
    for entry in entries:
        try:
            size = entry.path.stat().st_size
        except OSError:
            continue
        if not batches or len(batches[-1]) >= MOST_IN_A_BATCH or room < size:
            batches.append([])
            room = _MOST_BATCH_BYTES
        batches[-1].append(entry)
        room -= size
    return batches


def _send_batch(
    spool: Spool,
    sender: Posts,
    entries: Sequence[Spooled],
    done: Drained,
    is_meant: Callable[[Held], bool],
) -> None:
    with ExitStack() as locks:
        held: list[Held] = []
        for entry in entries:
            one = spool.hold(entry)
            if one is not None:
                locks.enter_context(one)
                if is_meant(one):
                    held.append(one)
        held = _without_outdated(spool, held)
        if held:
            _post(sender, held, done)
        # A newer report may have come while these were on their way.
        _without_outdated(spool, held)


def _without_outdated(spool: Spool, held: Sequence[Held]) -> list[Held]:
    """Return what still says something new; remove what a newer report of its run replaces."""
    newest = {entry.key: entry.written_ns for entry in spool.entries()}
    kept: list[Held] = []
    for one in held:
        is_outdated = newest.get(one.entry.key, 0) > one.entry.written_ns
        if one.entry.is_running and is_outdated:
            one.remove()
        else:
            kept.append(one)
    return kept


def _post(sender: Posts, held: Sequence[Held], done: Drained) -> None:
    answer = sender.post([one.report for one in held])
    if answer.items is not None:
        for one, item in zip(held, answer.items, strict=True):
            _settle(one, item, done)
    elif answer.problem is None:
        done.trouble = answer.trouble
        done.retry_after_seconds = answer.retry_after_seconds
        done.waiting += len(held)
        say_once(
            f"trouble {answer.trouble}",
            "vramgate: the service gave %s; %d report(s) wait in %s",
            answer.trouble,
            len(held),
            held[0].entry.path.parent,
        )
    elif len(held) == 1:
        _reject(held[0], answer.problem, done)
    else:
        # One of them spoils the batch: alone, only that one is refused.
        for one in held:
            if not done.trouble:
                _post(sender, [one], done)


def _settle(one: Held, item: Mapping[str, Any], done: Drained) -> None:
    problem = item.get("problem")
    if problem is None:
        if item.get("status") == "conflict":
            log.info("vramgate: the service already has another report of this run and rank")
        one.remove()
        done.sent += 1
    elif _may_pass(problem, one):
        done.waiting += 1
    else:
        _reject(one, problem, done)


def _may_pass(problem: object, one: Held) -> bool:
    """Return whether a refusal is of the moment, so that the report may be taken later."""
    if not isinstance(problem, Mapping):
        return False
    status = problem.get("status")
    if isinstance(status, int) and (status >= _SERVER_ERROR or status == _TOO_MANY_REQUESTS):
        return True
    words = {problem.get("code"), str(problem.get("type", "")).rpartition("/")[2]}
    is_recent = time.time_ns() - one.entry.written_ns < _DAY_NS
    return is_recent and not _WAITABLE.isdisjoint(words)


def _reject(one: Held, problem: object, done: Drained) -> None:
    one.reject(problem)
    done.rejected += 1
    done.problem = problem
    say_once(
        "rejected",
        "vramgate: the service refused a report; it is kept as *.rejected in %s",
        one.entry.path.parent,
    )
