"""Jobs in a few words, for the tests of this folder."""

from typing import Any

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.catalog.models import builtin_models
from vramgate.errors import InvalidJobError
from vramgate.jobs.resolve import ResolvedJob, resolve
from vramgate.wire.job import JobIn

LLAMA = {"name": "meta-llama/Llama-3.1-8B"}


def resolved(**fields: Any) -> ResolvedJob:  # noqa: ANN401 whatever JSON holds
    """Resolve a job given as JSON; the model is Llama-3.1-8B unless said."""
    job = JobIn.model_validate({"model": LLAMA, **fields})
    return resolve(job.to_domain(), models=builtin_models(), accelerators=builtin_accelerators())


def refusal(**fields: Any) -> InvalidJobError:  # noqa: ANN401 whatever JSON holds
    """Return why a job is refused."""
    try:
        resolved(**fields)
    except InvalidJobError as error:
        return error
    raise AssertionError(f"not refused: {fields}")


def assumed(result: ResolvedJob, field: str) -> tuple[object, str]:
    """Return the value taken for a field and whose default it is."""
    found = [one for one in result.assumptions if one.field == field]
    assert len(found) == 1, (field, [one.field for one in result.assumptions])
    return found[0].value, found[0].source


def warning_codes(result: ResolvedJob) -> set[str]:
    """Return the codes of a job's warnings."""
    return {warning.code for warning in result.warnings}
