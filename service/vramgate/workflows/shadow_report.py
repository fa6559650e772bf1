"""The shadow report of a tenant, over whole weeks."""

from datetime import UTC, date, datetime, timedelta

from vramgate.admission.shadow import (
    DEFAULT_WEEKS,
    MOST_WEEKS,
    ShadowReport,
    monday_of,
    mondays_between,
    shadow_report,
    start_of,
)
from vramgate.errors import DomainError
from vramgate.persistence.engine import Database
from vramgate.persistence.shadow_report import ShadowSelection, count_by_week

_AHEAD = timedelta(weeks=MOST_WEEKS)


class InvalidPeriodError(DomainError):
    """The period is empty, or longer than one report goes."""

    code = "invalid_parameter"


async def make_shadow_report(
    database: Database,
    chosen: ShadowSelection,
    *,
    since: datetime | None,
    until: datetime | None,
    now: datetime,
) -> ShadowReport:
    """Return the report on the weeks that hold any moment from ``since`` to before ``until``.

    Left out, they are the present week and the three before it.

    Raises:
        InvalidPeriodError: there is no such week, it is far ahead, or there are more than 53.
        DatabaseUnavailableError: the database does not answer.
    """
    mondays = _mondays(since, until, now)
    async with database.reading() as connection:
        counted = await count_by_week(connection, chosen, mondays)
    return shadow_report(mondays, counted)


def _mondays(since: datetime | None, until: datetime | None, now: datetime) -> tuple[date, ...]:
    end = until or start_of(monday_of(now) + timedelta(weeks=1))
    last = monday_of(end - timedelta(microseconds=1))
    begin = since or start_of(last - timedelta(weeks=DEFAULT_WEEKS - 1))
    if end > now + _AHEAD:
        raise InvalidPeriodError(
            f"until {_text(end)} lies more than a year ahead.", hint="Leave it out for the present."
        )
    if begin >= end:
        raise InvalidPeriodError(
            f"since {_text(begin)} is not before until {_text(end)}.",
            hint="Give an earlier since, or a later until.",
        )
    weeks = (end - begin) // timedelta(weeks=1)
    mondays = mondays_between(begin, end) if weeks <= MOST_WEEKS else ()
    if not 0 < len(mondays) <= MOST_WEEKS:
        raise InvalidPeriodError(
            f"From since {_text(begin)} to until {_text(end)} there are {weeks + 1:,} weeks; one "
            f"report goes over {MOST_WEEKS}.",
            hint="Ask for a part at a time.",
        )
    return mondays


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
