"""What answers share: their base, what was assumed, and what is known to mislead."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vramgate.costmodel.breakdown import Assumption, EstimateWarning


class Answer(BaseModel):
    """Base of what is answered: every field is always there."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AssumptionAnswer(Answer):
    """A value that nobody gave."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    field: str
    value: Any
    source: str = Field(alias="from")


class WarningAnswer(Answer):
    """Something about this job that is known to mislead."""

    code: str
    message: str


def shown_assumptions(assumptions: Iterable[Assumption]) -> list[AssumptionAnswer]:
    """Return the values that nobody gave."""
    return [
        AssumptionAnswer.model_validate(
            {"field": one.field, "value": one.value, "from": one.source}
        )
        for one in assumptions
    ]


def shown_warnings(warnings: Iterable[EstimateWarning]) -> list[WarningAnswer]:
    """Return the warnings, each once."""
    unique = dict.fromkeys((one.code, one.message) for one in warnings)
    return [WarningAnswer(code=code, message=message) for code, message in unique]
