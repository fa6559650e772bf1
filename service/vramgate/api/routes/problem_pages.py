"""The pages that the ``type`` of a problem document points to."""

from typing import Annotated

from fastapi import APIRouter, Path

from vramgate.api.problem_kinds import KINDS
from vramgate.api.problems import problem_answers
from vramgate.errors import DomainError
from vramgate.wire.problems import ProblemPage, ProblemPages

router = APIRouter(prefix="/problems", tags=["problems"])


class UnknownProblemError(DomainError):
    """No kind of problem has this code."""

    code = "not_found"


@router.get("", operation_id="listProblems", summary="Every kind of problem")
async def list_problems() -> ProblemPages:
    """Return what each ``type`` of a problem document means."""
    return ProblemPages(items=[_page(code) for code in KINDS], next_cursor=None)


@router.get(
    "/{code}",
    operation_id="getProblem",
    summary="One kind of problem",
    responses=problem_answers(404, 422),
)
async def get_problem(
    code: Annotated[str, Path(max_length=64, description="The last part of `type`.")],
) -> ProblemPage:
    """Return what the kind of problem means and what to do about it."""
    if code not in KINDS:
        raise UnknownProblemError(
            f"There is no problem {code[:64]!r}.", hint="`/problems` lists them."
        )
    return _page(code)


def _page(code: str) -> ProblemPage:
    kind = KINDS[code]
    return ProblemPage(
        type=f"/problems/{code}",
        title=kind.title,
        status=kind.status,
        description=kind.description,
    )
