"""What stands below the message: the policy's notes, what is unknown, what would fit."""

from collections.abc import Iterator

from vramgate.cli.checks.outcome import CheckedFile, printable
from vramgate.cli.checks.question import hint_for
from vramgate.errors import DomainError
from vramgate.units import format_gib
from vramgate.wire.admissions import AdmissionAnswer, SuggestionAnswer


def details_of(checked: CheckedFile) -> Iterator[str]:
    """Yield the lines below the message, which does not say them."""
    lines = _of_failure(checked.failure) if checked.failure is not None else iter(())
    if checked.answer is not None:
        lines = _of_answer(checked.answer)
    yield from map(printable, lines)


def cautions_of(checked: CheckedFile) -> Iterator[str]:
    """Yield what is known to mislead about a job."""
    if checked.answer is not None:
        yield from (printable(f"warning: {one.message}") for one in checked.answer.warnings)


def _of_failure(failure: DomainError) -> Iterator[str]:
    yield from (f"{field.pointer or '/'}: {field.detail}" for field in failure.other_fields)
    hint = hint_for(failure)
    if hint:
        yield hint


def _of_answer(answer: AdmissionAnswer) -> Iterator[str]:
    for problem in answer.problems[1:]:
        yield f"invalid job: {problem.detail}; {problem.fix}"
    yield from (f"note: {reason.message}" for reason in answer.reasons[1:])
    for unknown in answer.unknown:
        if unknown.reason not in answer.message:
            hint = f"; {unknown.hint}" if unknown.hint else ""
            yield f"unknown {unknown.field}: {unknown.reason} ({unknown.source}){hint}"
    yield from map(_suggested, answer.suggestions)


def _suggested(one: SuggestionAnswer) -> str:
    needs = format_gib(one.peak.required_bytes)
    return f"fits: {one.text.rstrip('.')}. Needs {needs}. Cost: {one.cost.rstrip('.')}."
