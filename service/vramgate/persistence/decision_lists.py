"""Kept decisions read page by page, in the order they were made.

A decision that a journal held appears where it was made: who reads the newest first and has passed
that place finds it by starting anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.stored import ListedDecision
from vramgate.persistence.decisions import LISTED, listed_fields
from vramgate.persistence.report_lists import Order
from vramgate.persistence.tables import decisions

SEARCHED_ROWS = 50_000
"""A few tenths of a second: no question may take the database for itself."""

_SEARCHED = (
    "verdict", "decision", "mode", "reason_code", "cluster", "queue", "channel", "submitter",
    "model", "accelerator", "policy_version",
)  # fmt: skip
"""Fields of a selection that no index knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPlace:
    """Where a decision stands among all of a tenant."""

    decided_at: datetime
    decision_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSelection:
    """Which decisions of one tenant are meant; None leaves a field open."""

    tenant: str
    verdict: Verdict | None = None
    decision: Verdict | None = None
    mode: Mode | None = None
    reason_code: str | None = None
    cluster: str | None = None
    queue: str | None = None
    channel: Channel | None = None
    submitter: str | None = None
    external_id: str | None = None
    model: str | None = None
    accelerator: str | None = None
    policy_version: str | None = None
    since: datetime | None = None
    """Made at this moment or later."""
    until: datetime | None = None
    """Made before this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionStretch:
    """A part of all decisions, in the order it is read."""

    order: Order = Order.NEWEST
    after: DecisionPlace | None = None
    """It begins behind this place, as the order runs."""
    last: DecisionPlace | None = None
    """The last place that belongs to it, as the order runs."""
    limit: int
    """How many decisions are wanted of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPortion:
    """The first decisions of a selection in a stretch."""

    decisions: list[ListedDecision]
    searched_to: DecisionPlace | None
    """Where the search stopped though less than what was wanted had been found; None where it did
    not stop."""


async def select_decisions(
    connection: AsyncConnection, chosen: DecisionSelection, stretch: DecisionStretch
) -> DecisionPortion:
    """Return the first ``limit`` decisions of the selection that lie in the stretch.

    Where no index knows which those are, ``SEARCHED_ROWS`` are looked through and no more: the
    answer may hold less than what is there, and says where to go on.
    """
    horizon = None
    if chosen.external_id is None and any(True for _ in _without_an_index(chosen)):
        horizon = await _horizon(connection, chosen, stretch)
    near = stretch if horizon is None else replace(stretch, last=horizon)
    rows = (await connection.execute(selecting(chosen, near))).mappings()
    found = [ListedDecision(**listed_fields(row)) for row in rows]
    return DecisionPortion(
        decisions=found, searched_to=horizon if len(found) < stretch.limit else None
    )


def selecting(chosen: DecisionSelection, stretch: DecisionStretch) -> sa.Select[Any]:
    """Return the statement behind ``select_decisions``."""
    query = sa.select(*(decisions.c[name] for name in LISTED)).where(
        *_within_times(chosen), *_without_an_index(chosen), *_within(stretch)
    )
    if chosen.external_id is not None:
        query = query.where(decisions.c.external_id == chosen.external_id)
    return query.order_by(*_in_order(stretch)).limit(stretch.limit)


def decision_place(decision: ListedDecision) -> DecisionPlace:
    """Return where the decision stands."""
    return DecisionPlace(decided_at=decision.decided_at, decision_id=decision.decision_id)


async def _horizon(
    connection: AsyncConnection, chosen: DecisionSelection, stretch: DecisionStretch
) -> DecisionPlace | None:
    """Return the place of the last of ``SEARCHED_ROWS`` rows; None where there are not so many.

    Read from the index alone.
    """
    query = (
        sa.select(decisions.c.decided_at, decisions.c.decision_id)
        .where(*_within_times(chosen), *_within(stretch))
        .order_by(*_in_order(stretch))
        .offset(SEARCHED_ROWS - 1)
        .limit(1)
    )
    row = (await connection.execute(query)).one_or_none()
    return (
        None
        if row is None
        else DecisionPlace(decided_at=row.decided_at, decision_id=row.decision_id)
    )


def _within_times(chosen: DecisionSelection) -> Iterator[sa.ColumnElement[bool]]:
    yield decisions.c.tenant == chosen.tenant
    if chosen.since is not None:
        yield decisions.c.decided_at >= chosen.since
    if chosen.until is not None:
        yield decisions.c.decided_at < chosen.until


def _without_an_index(chosen: DecisionSelection) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what can only be told by reading the rows."""
    for name in _SEARCHED:
        value = getattr(chosen, name)
        if value is not None:
            yield decisions.c[name] == value


def _within(stretch: DecisionStretch) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the bounds; the time alone as well, by which PostgreSQL leaves partitions out."""
    moment = decisions.c.decided_at
    place = sa.tuple_(moment, decisions.c.decision_id)
    if stretch.after is not None:
        behind = (stretch.after.decided_at, stretch.after.decision_id)
        if stretch.order is Order.OLDEST:
            yield sa.and_(moment >= stretch.after.decided_at, place > behind)
        else:
            yield sa.and_(moment <= stretch.after.decided_at, place < behind)
    if stretch.last is not None:
        last = (stretch.last.decided_at, stretch.last.decision_id)
        if stretch.order is Order.OLDEST:
            yield sa.and_(moment <= stretch.last.decided_at, place <= last)
        else:
            yield sa.and_(moment >= stretch.last.decided_at, place >= last)


def _in_order(stretch: DecisionStretch) -> tuple[sa.ColumnElement[Any], ...]:
    columns = (decisions.c.decided_at, decisions.c.decision_id)
    if stretch.order is Order.OLDEST:
        return columns
    return tuple(one.desc() for one in columns)
