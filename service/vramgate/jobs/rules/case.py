"""Case and Finding: what a rule reads and what it says."""

from dataclasses import dataclass

from vramgate.costmodel.job import TrainingJob
from vramgate.errors import FieldError
from vramgate.jobs.description import JobDescription
from vramgate.jobs.model import KnownModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A resolved job beside what was said of it."""

    said: JobDescription
    job: TrainingJob
    model: KnownModel
    framework: str
    data_parallel_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One contradiction: the field, the values, and the way out."""

    field: str
    """Path below the job: ``parallelism/tensor_parallel_size``."""
    code: str
    detail: str
    hint: str
    value: object = None

    def field_error(self) -> FieldError:
        """Return the finding as the answer shows it."""
        return FieldError(
            pointer=f"/job/{self.field}",
            code=self.code,
            detail=f"{self.detail}; {self.hint}",
            value=self.value,
        )


def divisors_near(number: int, wanted: int) -> str:
    """Return the divisors of a number on both sides of a wanted one, as words.

    >>> divisors_near(30, 8)
    '6 or 10'
    """
    below = next((d for d in range(min(wanted, number), 0, -1) if number % d == 0), 1)
    above = next((d for d in range(wanted, number + 1) if number % d == 0), None)
    return f"{below}" if above is None or above == below else f"{below} or {above}"


def multiples_near(divisor: int, wanted: int) -> str:
    """Return the multiples of a divisor on both sides of a wanted number, as words.

    >>> multiples_near(4, 6)
    '4 or 8'
    """
    below = wanted // divisor * divisor
    above = below + divisor
    return f"{below} or {above}" if below else f"{above}"
