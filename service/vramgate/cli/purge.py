"""``vramgate purge``: reports and decisions deleted for good."""

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.errors import DomainError, shortened

if TYPE_CHECKING:
    from vramgate.persistence.engine import Database
    from vramgate.persistence.purge import Doomed
    from vramgate.workflows.purge import Purge, Purged
    from vramgate.workflows.purge_decisions import DecisionPurge, PurgedDecisions

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"([1-9][0-9]{0,5})([hdw])", re.ASCII)
LARGEST_AGE = timedelta(days=36_500)
_WORDS = {
    "idempotency_keys": ("idempotency key", "idempotency keys"),
    "subjects": ("job asked about", "jobs asked about"),
}
"""Of what is counted, where the name of the count is not its word."""


class Kind(StrEnum):
    """What is deleted."""

    REPORTS = "reports"
    DECISIONS = "decisions"


class UnclearPurgeError(DomainError):
    """What was asked for is not enough, or too much, to delete anything by."""

    code = "unclear_purge"


def purge(
    *,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="Reports that last changed, and decisions made, longer ago than this: 12h, 400d, 60w."
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Those of this tenant.")] = None,
    submitter: Annotated[
        str | None,
        typer.Option(
            help="Those sent with tokens of this name, and decisions on jobs that this person or "
            "account sent to the scheduler; with --tenant."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Reports of this run, of all its ranks, and the decision it ran under; with "
            "--tenant."
        ),
    ] = None,
    only: Annotated[
        Kind | None, typer.Option(help="Leave the others; so each can be kept for its own time.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would go, and delete nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete reports and decisions, with the jobs, answers and idempotency keys that tell of them alone.

    All that is given must hold. Tokens and the audit trail stay; the trail of each tenant says what
    went, how many and by whom. A run that was purged can be reported anew.
    """
    from vramgate.cli.environment import on_the_database, user_of_this_command

    doomed = _doomed(older_than, tenant, submitter, run)
    actor = user_of_this_command()
    kinds = list(Kind) if only is None else [only]

    async def count(database: "Database") -> dict[Kind, dict[str, int]]:
        return {kind: await _purge_of(kind, database, doomed, actor).count() for kind in kinds}

    async def act(database: "Database") -> None:
        for kind in kinds:
            _print_purged(await _purge_of(kind, database, doomed, actor).run())

    _print_count(on_the_database(count))
    if dry_run:
        return
    if not yes:
        _ask()
    on_the_database(act)


def _purge_of(
    kind: Kind, database: "Database", doomed: "Doomed", actor: str
) -> "Purge | DecisionPurge":
    from vramgate.workflows.purge import Purge
    from vramgate.workflows.purge_decisions import DecisionPurge

    make = Purge if kind is Kind.REPORTS else DecisionPurge
    return make(database, doomed, actor=actor)


def parse_age(text: str) -> timedelta:
    """Return the length of time that a text names.

    Raises:
        UnclearPurgeError: it names none, or more than a century.

    >>> parse_age("400d").days
    400
    """
    found = _AGE.fullmatch(text)
    age = None if found is None else timedelta(**{_UNITS[found[2]]: int(found[1])})
    if age is None or age > LARGEST_AGE:
        raise UnclearPurgeError(
            f"--older-than {shortened(text, 40)!r} is no length of time.",
            hint="Give hours, days or weeks as 12h, 400d or 60w.",
        )
    return age


def _doomed(
    older_than: str | None, tenant: str | None, submitter: str | None, run: str | None
) -> "Doomed":
    from vramgate.persistence.purge import Doomed

    if (submitter is not None or run is not None) and tenant is None:
        raise UnclearPurgeError(
            "--submitter and --run mean those of one tenant.", hint="Name it with --tenant."
        )
    if older_than is None and tenant is None:
        raise UnclearPurgeError(
            "Nothing says what is to go.",
            hint="Give --older-than, --tenant, --submitter or --run; all that is given must hold.",
        )
    before = None if older_than is None else datetime.now(UTC) - parse_age(older_than)
    return Doomed(tenant=tenant, submitter=submitter, run_id=run, before=before)


def _print_count(counted: Mapping[Kind, Mapping[str, int]]) -> None:
    if not any(counted.values()):
        typer.echo(f"No {' and no '.join(kind.removesuffix('s') for kind in counted)} is meant.")
    for kind, by_tenant in counted.items():
        for tenant, number in by_tenant.items():
            typer.echo(f"{tenant}: {_many(number, kind.value)}")


def _ask() -> None:
    """Ask whether to go on.

    Raises:
        UnclearPurgeError: nobody is there to ask.
        typer.Abort: the answer is no.
    """
    if not sys.stdin.isatty():
        raise UnclearPurgeError("Nobody is there to confirm it.", hint="Give --yes.")
    typer.confirm("Delete them for good?", abort=True)


def _print_purged(purged: "Mapping[str, Purged | PurgedDecisions]") -> None:
    for tenant, gone in sorted(purged.items()):
        numbers = (_many(number, what) for what, number in asdict(gone).items())
        typer.echo(f"{tenant}: deleted {', '.join(numbers)}")


def _many(number: int, what: str) -> str:
    one, several = _WORDS.get(what, (what.removesuffix("s"), what))
    return f"{number:,} {one if number == 1 else several}"
