"""Is the process alive, and can it answer."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from vramgate import __version__
from vramgate.api.dependencies import tenant_catalogs_of
from vramgate.api.problems import problem_answers
from vramgate.persistence.engine import Database
from vramgate.wire.health import CheckName, Health, Readiness, ReadinessCheck
from vramgate.workflows.record_decisions import DecisionIntake
from vramgate.workflows.storage import trouble_of

router = APIRouter(tags=["health"])


@router.get("/livez", operation_id="getLiveness", summary="Is the process alive")
async def livez() -> Health:
    """Answer 200 while the process answers at all; nothing else is asked."""
    return Health(status="alive")


@router.get(
    "/readyz",
    operation_id="getReadiness",
    summary="Can the service answer",
    response_model_exclude_none=True,
    responses={
        503: {"model": Readiness, "description": "Not yet, or no longer"},
        **problem_answers(422),
    },
)
async def readyz(
    request: Request,
    response: Response,
    verbose: Annotated[
        str | None, Query(max_length=8, description="Tell each check; the value does not matter.")
    ] = None,
    exclude: Annotated[
        list[CheckName] | None,
        Query(max_length=len(CheckName), description="Checks that are not made; may be repeated."),
    ] = None,
) -> Readiness:
    """Answer 200 where every check passes and 503 where one does not.

    Admissions go on while the database is away: whoever sends them here by this answer asks with
    `?exclude=database`, or no replica is left to ask.
    """
    left_out = frozenset(exclude or ())
    checks = [one for one in await _made(request, left_out) if one.name not in left_out]
    is_ready = all(check.passed for check in checks)
    if not is_ready:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return Readiness(
        status="ready" if is_ready else "not ready", checks=checks if verbose is not None else None
    )


async def _made(request: Request, left_out: frozenset[CheckName]) -> list[ReadinessCheck]:
    """Make the checks; the database, which may take its time, is not asked for nothing."""
    checks = _checks(request)
    if CheckName.DATABASE not in left_out:
        checks.append(await _database_check(request))
    return [*checks, *_journal_checks(request)]


async def _database_check(request: Request) -> ReadinessCheck:
    database: Database | None = getattr(request.app.state, "database", None)
    trouble = "not opened yet" if database is None else await trouble_of(database)
    kind = "" if database is None else database.url.get_backend_name()
    return ReadinessCheck(name=CheckName.DATABASE, passed=trouble is None, detail=trouble or kind)


def _journal_checks(request: Request) -> list[ReadinessCheck]:
    """Tell what the journal holds; it is there for when something else fails, so it fails nothing."""
    intake: DecisionIntake | None = getattr(request.app.state, "decision_intake", None)
    if intake is None:
        return []
    state = intake.state
    numbers = {
        "waiting": state.waiting,
        "bytes": state.waiting_bytes,
        "replayed": state.replayed,
        "dropped": state.dropped,
        "refused": state.refused,
        "damaged segments": state.damaged,
    }
    words = [f"{number:,} {name}" for name, number in numbers.items()]
    if state.database_away:
        words.append("database away")
    return [ReadinessCheck(name=CheckName.JOURNAL, passed=True, detail=", ".join(words))]


def _checks(request: Request) -> list[ReadinessCheck]:
    is_serving = bool(request.app.state.is_serving)
    catalogs = tenant_catalogs_of(request).site
    models, cards = len(catalogs.models.entries), len(catalogs.accelerators.entries)
    return [
        ReadinessCheck(
            name=CheckName.SERVICE,
            passed=is_serving,
            detail=f"vramgate {__version__}" if is_serving else "starting or stopping",
        ),
        ReadinessCheck(
            name=CheckName.CATALOG,
            passed=models > 0 and cards > 0,
            detail=f"{models} models, {cards} accelerators",
        ),
    ]
