"""Screening: readings that no error of the model explains are left out of a fit, and said.

What is so far off when it comes in is quarantined (``plausibility.py``); this is about what was released, or
came another way.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from vramgate.calibration.arrays import TermArrays
from vramgate.calibration.calibration import Remark
from vramgate.calibration.evidence import Observation
from vramgate.costmodel.terms import Term

FARTHEST = 4.0
"""Times above or below the model; of public readings the farthest is 2.6 times off."""
_UNITS = {-10: "KiB", -20: "MiB", -30: "GiB"}
"""Powers of two that a reporter is off by which forgot a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Observations without the readings that are left out, and what is said of those."""

    observations: tuple[Observation, ...]
    remarks: tuple[Remark, ...]


def screened(observations: Sequence[Observation]) -> Screened:
    """Return observations less the readings that lie farther than ``FARTHEST`` from the model.

    What outcomes say is kept: a run that lived has lived, whatever its meters said.
    """
    if not observations:
        return Screened(observations=(), remarks=())
    arrays = TermArrays([one.configuration for one in observations])
    layers = arrays.layers({term: np.ones(arrays.count) for term in Term})
    kept: list[Observation] = []
    far: dict[str, list[float]] = defaultdict(list)
    for row, one in enumerate(observations):
        logs = {
            layer: math.log(size / layers[layer].size[row]) for layer, size in one.measured.items()
        }
        sound = {layer: one.measured[layer] for layer in logs if _is_near(logs[layer])}
        kept.append(one if len(sound) == len(logs) else replace(one, measured=sound))
        far[one.tenant] += [log for log in logs.values() if not _is_near(log)]
    return Screened(observations=tuple(kept), remarks=tuple(_remarks(far, observations)))


def _is_near(log: float) -> bool:
    return abs(log) <= math.log(FARTHEST)


def _remarks(
    far: Mapping[str, Sequence[float]], observations: Sequence[Observation]
) -> Iterator[Remark]:
    for tenant, logs in sorted(far.items()):
        if logs:
            readings = sum(len(one.measured) for one in observations if one.tenant == tenant)
            middle = median(logs)
            unit = _UNITS.get(round(middle / math.log(2) / 10) * 10)
            guess = "" if unit is None else f", as if {unit} had been sent as bytes"
            yield Remark(
                code="far_from_model",
                message=f"{len(logs):,} of {readings:,} readings of tenant {tenant!r} lie over "
                f"{FARTHEST:g} times off the model ({math.exp(middle):.2g} times at the "
                f"median{guess}); they were left out.",
            )
