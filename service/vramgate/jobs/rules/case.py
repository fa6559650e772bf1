"""Case and Finding: what a rule reads and what it says."""

import math
from collections.abc import Sequence
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
    return nearest(divisors(number), wanted)


def divisors(number: int) -> list[int]:
    """Return what divides a number, in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*low, *(number // d for d in low)})


def nearest(fitting: Sequence[int], wanted: int) -> str:
    """Return the numbers on both sides of a wanted one, as words.

    >>> nearest([1, 5, 10, 30], 8)
    '5 or 10'
    """
    below = max((size for size in fitting if size < wanted), default=None)
    above = min((size for size in fitting if size > wanted), default=None)
    return " or ".join(str(size) for size in (below, above) if size is not None)


def multiples_near(divisor: int, wanted: int) -> str:
    """Return the multiples of a divisor on both sides of a wanted number, as words.

    >>> multiples_near(4, 6)
    '4 or 8'
    """
    below = wanted // divisor * divisor
    above = below + divisor
    return f"{below} or {above}" if below else f"{above}"
