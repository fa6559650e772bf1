"""Margins: distributions of what fits that had not seen a job said wrongly of it, by segment."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from vramgate.calibration import conformal
from vramgate.calibration.arrays import REQUIRED, Numbers
from vramgate.calibration.calibration import LEAST_REPORTS, SEGMENT_LEVELS, Segment, SegmentMargin
from vramgate.calibration.effects import Level
from vramgate.calibration.held_out import HeldOut

OVERHEAD_SPREADS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08)
"""What required may scatter by about its expectation beside what allocated does."""
WORTH = 1.0
"""By how much a wider spread must make outcomes likelier, as a logarithm, to be taken (Akaike 1974). Outcomes say
little of it: without this, chance doubles it in one cluster of three."""
LEAST_CHANCE = 1e-6
"""No single outcome says more than this against a spread."""


def required_margins(held_out: Sequence[HeldOut]) -> tuple[SegmentMargin, ...]:
    """Return margins on required: residuals of allocated, widened by what outcomes say lies above it."""
    return _margins(held_out)


def allocated_margins(held_out: Sequence[HeldOut]) -> tuple[SegmentMargin, ...]:
    """Return margins on allocated itself, which is measured: nothing is added for what lies above it."""
    return _margins(held_out, spread=conformal.LEAST_SPREAD)


def _margins(
    held_out: Sequence[HeldOut], *, spread: float | None = None
) -> tuple[SegmentMargin, ...]:
    measured = [one for one in held_out if one.allocated_residual is not None]
    if not measured:
        return ()
    values = np.array([one.allocated_residual for one in measured], dtype=float)
    weights = conformal.sound(values)
    if spread is None:
        spread = _overhead_spread(values, weights, held_out)
    return tuple(
        SegmentMargin(
            level=level,
            values=names,
            reports=len(members),
            set_aside=int(np.sum(weights[members] < conformal.HALF)),
            distribution=conformal.tabled(values[members], weights[members], spread),
        )
        for (level, names), members in sorted(_segments(measured).items())
        if len(members) >= LEAST_REPORTS
    )


def _segments(measured: Sequence[HeldOut]) -> Mapping[tuple[Level, Segment], list[int]]:
    segments: dict[tuple[Level, Segment], list[int]] = defaultdict(list)
    for index, one in enumerate(measured):
        labels = one.observation.configuration.labels
        for level in SEGMENT_LEVELS:
            segments[level, tuple(labels[label] for label in level)].append(index)
    return segments


def _overhead_spread(values: Numbers, weights: Numbers, held_out: Sequence[HeldOut]) -> float:
    """Return the least spread of required about allocated that explains outcomes nearly as well as any."""
    ends = [
        (math.log(size / one.predicted[REQUIRED]), side > 0, share)
        for one in held_out
        for side, size, share in one.observation.bounds
    ]

    def likelihood(spread: float) -> float:
        table = conformal.tabled(values, weights, spread)
        chances = [(table.exceedance(at), is_above, share) for at, is_above, share in ends]
        return sum(
            share * math.log(max(chance if is_above else 1 - chance, LEAST_CHANCE))
            for chance, is_above, share in chances
        )

    found = {spread: likelihood(spread) for spread in OVERHEAD_SPREADS}
    enough = max(found.values()) - WORTH
    return min(spread for spread, likely in found.items() if likely >= enough)
