"""Errors in a few figures: fractions of the measured value, never percent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

CLOSE = 0.10
"""What ``within_10_percent_fraction`` counts."""
SHORT = 0.05
"""Beyond this an under-estimate counts: what a margin cannot be expected to hide."""
NINETIETH = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFigures:
    """The errors of ``n`` rows; an error is predicted / measured - 1. None where there are no rows."""

    n: int
    median_error_fraction: float | None
    """Of the absolute errors, as the next."""
    p90_error_fraction: float | None
    within_10_percent_fraction: float | None
    mean_error_fraction: float | None
    """Signed: above zero the rows are over-estimated on the whole."""
    under_by_5_percent_fraction: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How many of the rows asked meet a condition."""

    n: int
    met: int
    fraction: float | None


def relative_error(predicted_bytes: int, measured_bytes: int) -> float:
    """Return predicted / measured - 1, from the difference so that a round error is round.

    >>> relative_error(95, 100)
    -0.05
    """
    return (predicted_bytes - measured_bytes) / measured_bytes


def error_figures(errors: Sequence[float]) -> ErrorFigures:
    """Return the figures of signed errors; percentiles are interpolated linearly.

    >>> error_figures([0.02, -0.06, 0.2]).median_error_fraction
    0.06
    """
    if not errors:
        return ErrorFigures(
            n=0,
            median_error_fraction=None,
            p90_error_fraction=None,
            within_10_percent_fraction=None,
            mean_error_fraction=None,
            under_by_5_percent_fraction=None,
        )
    signed = np.array(errors)
    absolute = np.abs(signed)
    return ErrorFigures(
        n=len(errors),
        median_error_fraction=float(np.median(absolute)),
        p90_error_fraction=float(np.percentile(absolute, NINETIETH)),
        within_10_percent_fraction=float((absolute <= CLOSE).mean()),
        mean_error_fraction=float(signed.mean()),
        under_by_5_percent_fraction=float((signed < -SHORT).mean()),
    )


def share(conditions: Iterable[bool]) -> Share:
    """Return how many of the conditions hold.

    >>> share([True, False, True, True])
    Share(n=4, met=3, fraction=0.75)
    """
    held = list(conditions)
    met = sum(held)
    return Share(n=len(held), met=met, fraction=met / len(held) if held else None)
