"""Calibration: factors on terms of the cost model, and margins, each with the reports it rests on."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from vramgate.calibration.distribution import FOLK, Distribution, Tabled, Wider
from vramgate.calibration.effects import EffectKey, effects_of
from vramgate.calibration.labels import Label, Labels
from vramgate.costmodel.terms import Factors, Term

LEAST_REPORTS = 99
"""A promise of 1 % needs so many: with fewer, even the largest residual is exceeded more often."""
SEGMENT_LEVELS: tuple[tuple[Label, ...], ...] = (
    (Label.FRAMEWORK, Label.METHOD, Label.ARCHITECTURE),
    (Label.FRAMEWORK, Label.METHOD),
    (Label.FRAMEWORK,),
    (),
)
"""Whose residuals make a margin: the narrowest segment with reports enough."""
LEAST_LOG = 5e-5
"""Factors nearer to 1 are 1: they would move nothing that is read."""

Segment: TypeAlias = tuple[str, ...]
"""The values of a level's labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One effect as it was fitted."""

    key: EffectKey
    log: float
    spread: float
    """The standard deviation of ``log`` that is left."""
    runs: int
    """Runs that it is part of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMargin:
    """The margin of jobs that agree in a level's labels."""

    level: tuple[Label, ...]
    values: Segment
    reports: int
    set_aside: int
    """Of the reports, how many were taken as gross errors."""
    distribution: Tabled

    @property
    def name(self) -> str:
        """Return it as text."""
        pairs = zip(self.level, self.values, strict=True)
        return ", ".join(f"{label} {value}" for label, value in pairs) or "all jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
    """A margin for one job, and what it rests on."""

    distribution: Distribution
    segment: str
    reports: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What a reader should know of how reports were taken: a stable code, and a sentence with the numbers."""

    code: str
    message: str


FOLK_MARGIN = Margin(distribution=FOLK, segment="", reports=0)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """One version."""

    version: str
    model_version: str
    """Of the cost model whose terms it multiplies."""
    runs: int
    effects: tuple[Effect, ...]
    margins: tuple[SegmentMargin, ...]
    frameworks: frozenset[str] = field(default=frozenset())
    """Those of which allocated was measured."""
    remarks: tuple[Remark, ...] = ()

    def factors_for(self, labels: Labels) -> Factors:
        """Return the factors on the terms of a job; a term that is not there has none."""
        found = {}
        for term in Term:
            log = sum(self._logs.get(key, 0.0) for key in effects_of(term, labels))
            if abs(log) >= LEAST_LOG:
                found[term] = round(math.exp(log), 6)
        return found

    def margin_for(self, labels: Labels) -> Margin:
        """Return the margin of a job: of the narrowest segment that has reports enough.

        Where nobody has measured the job's framework, the wider of everybody's and the folk rule's.
        """
        for level in SEGMENT_LEVELS:
            found = self._margins.get((level, tuple(labels[label] for label in level)))
            if found is not None:
                known = labels[Label.FRAMEWORK] in self.frameworks
                distribution: Distribution = found.distribution
                return Margin(
                    distribution=distribution if known else Wider(distribution, FOLK),
                    segment=found.name if known else f"{found.name}, and the folk rule",
                    reports=found.reports,
                )
        return FOLK_MARGIN

    @cached_property
    def _logs(self) -> Mapping[EffectKey, float]:
        return {effect.key: effect.log for effect in self.effects}

    @cached_property
    def _margins(self) -> Mapping[tuple[tuple[Label, ...], Segment], SegmentMargin]:
        return {(one.level, one.values): one for one in self.margins}
