"""Evidence: what runs have shown of their memory, as a fit takes it.

A *reading* is a layer that somebody measured. A *bound* is what an outcome says of required: a run that
died needed more than the card gave, a run that lived at most that.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from vramgate.calibration.labels import Labels
from vramgate.costmodel.terms import MemoryTerms


class Layer(StrEnum):
    """A layer of truth that runs are measured on."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A job as the fit sees it: runs of one configuration are alike."""

    key: str
    """The same for runs of the same job on the same card and versions."""
    labels: Labels
    terms: MemoryTerms
    group: str
    """Runs of a group are left out together where a fit is tried on what it has not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a configuration: what was measured, and how it ended."""

    configuration: Configuration
    tenant: str
    measured: Mapping[Layer, int]
    required_above: int | None = None
    """Bytes of which it is known that they were not enough: it ran out of memory."""
    required_within: int | None = None
    """Bytes that were enough: it lived on a card that gives so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The runs of one configuration by one tenant, as one."""

    configuration: Configuration
    tenant: str
    measured: Mapping[Layer, float]
    """Median bytes."""
    runs: int
    required_above: int | None
    required_within: int | None
    ran_out: int
    """How many of the runs ran out of memory."""
    lived: int
    """How many are known to have had enough."""

    @property
    def bounds(self) -> Iterator[tuple[float, int, float]]:
        """Yield what outcomes say of required: above (+1) or at most (-1), bytes, the share of the outcomes."""
        outcomes = self.ran_out + self.lived
        if self.required_above is not None:
            yield 1.0, self.required_above, self.ran_out / outcomes
        if self.required_within is not None:
            yield -1.0, self.required_within, self.lived / outcomes


def aggregated(runs: Iterable[Run]) -> list[Observation]:
    """Return runs of the same configuration and tenant as one observation each, in order of appearance.

    The median is taken of what was measured, so that one odd run of several moves nothing; of bounds
    the tightest on either side, each with its share of the outcomes.
    """
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.configuration.key, run.tenant].append(run)
    return [_observation(group) for group in groups.values()]


def _observation(group: Sequence[Run]) -> Observation:
    first = group[0]
    values: dict[Layer, list[int]] = defaultdict(list)
    for run in group:
        for layer, size in run.measured.items():
            values[layer].append(size)
    above = [run.required_above for run in group if run.required_above is not None]
    within = [run.required_within for run in group if run.required_within is not None]
    return Observation(
        configuration=first.configuration,
        tenant=first.tenant,
        measured={layer: median(sizes) for layer, sizes in values.items()},
        runs=len(group),
        required_above=max(above, default=None),
        required_within=min(within, default=None),
        ran_out=len(above),
        lived=len(within),
    )
