"""Arrays: thousands of configurations through the model's formulas at once, with derivatives.

The same sums as ``costmodel.terms``, in floating point: a fit needs no whole bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vramgate.calibration.evidence import Configuration, Layer
from vramgate.costmodel.terms import IN_PHASES, Term

Numbers: TypeAlias = NDArray[np.float64]
REQUIRED = "required"
"""The layer that nobody measures."""
OUTSIDE = (Term.CONTEXT, Term.COMMUNICATORS)
"""What the allocator does not hold."""
KEPT = (Term.CACHE, Term.VARYING_CACHE, Term.SIDE_POOLS)
"""What the allocator holds beyond the peak while the card has room."""
Shares: TypeAlias = Mapping[Term, Numbers]
"""Of each term its part of a layer's bytes: the derivative of the logarithm by the term's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Bytes of one layer for every configuration, and what part of them each term is."""

    size: Numbers
    shares: Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Where maxima and minima lie; within one regime all layers are smooth in the factors."""

    highest: NDArray[np.intp]
    """The phase of each configuration that peaks."""
    meets: NDArray[np.intp]
    """What reserved is: ``_WANTED`` where the card has room, ``_MOST`` where it ends, ``_LEAST`` beyond that."""


_WANTED, _MOST, _LEAST = range(3)


class TermArrays:
    """The terms of configurations as arrays; n configurations of up to p phases."""

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        """Lay the terms out; absent phases are empty ones, which are never the highest."""
        count = len(configurations)
        phases = max((len(one.terms.phases) for one in configurations), default=1)
        self._exact = np.zeros((count, phases))
        self._in_phase = {term: np.zeros((count, phases)) for term in IN_PHASES}
        for row, one in enumerate(configurations):
            for column, phase in enumerate(one.terms.phases):
                self._exact[row, column] = phase.exact
                for term, size in phase.terms.items():
                    self._in_phase[term][row, column] = size
        upper = [one.terms.upper for one in configurations]
        self._fragmentation = np.array([one.fragmentation for one in upper], dtype=float)
        self._workspaces = np.array([one.workspaces for one in upper], dtype=float)
        self._above: dict[Term, Numbers] = {
            Term.CONTEXT: np.array([one.context for one in upper], dtype=float),
            Term.COMMUNICATORS: np.array([one.communicators for one in upper], dtype=float),
            Term.CACHE: np.array([one.cache for one in upper], dtype=float),
            Term.VARYING_CACHE: np.array([one.varying_cache for one in upper], dtype=float),
            Term.SIDE_POOLS: np.array([one.side_pools for one in upper], dtype=float),
        }
        self._usable = np.array(
            [np.inf if one.usable is None else one.usable for one in upper], dtype=float
        )
        self.count = count

    def exercised(self, term: Term) -> NDArray[np.bool_]:
        """Return which configurations have any bytes of a term."""
        if term in self._in_phase:
            found: NDArray[np.bool_] = np.any(self._in_phase[term] > 0, axis=1)
            return found
        return (self._fragmentation if term is Term.FRAGMENTATION else self._above[term]) > 0

    def regime(self, factors: Mapping[Term, Numbers]) -> Regime:
        """Return the regime in which the layers are under factors."""
        highest = self._phases(factors).argmax(axis=1)
        allocated, _ = self._peak(factors, highest)
        wanted, most, least = self._reserved(allocated, self._scaled_above(factors))
        meets = np.where(wanted <= most, _WANTED, np.where(most >= least, _MOST, _LEAST))
        return Regime(highest=highest, meets=meets)

    def layers(
        self, factors: Mapping[Term, Numbers], regime: Regime | None = None
    ) -> dict[Layer | str, Prediction]:
        """Return every layer under factors, one a term and configuration; in a regime, or where they are."""
        regime = self.regime(factors) if regime is None else regime
        allocated, parts = self._peak(factors, regime.highest)
        above = self._scaled_above(factors)
        outer = {term: above[term] for term in OUTSIDE}
        outside = outer[Term.CONTEXT] + outer[Term.COMMUNICATORS]
        fragmentation = self._fragmentation * factors[Term.FRAGMENTATION]
        in_required = {
            **{term: size * (1 + fragmentation) for term, size in parts.items()},
            Term.FRAGMENTATION: allocated * fragmentation,
        }
        required = allocated * (1 + fragmentation) + self._workspaces + outside
        reserved = np.choose(regime.meets, self._reserved(allocated, above))
        in_reserved = _in_reserved(regime, parts, above)
        in_device = {**in_reserved, **{term: in_reserved[term] + outer[term] for term in OUTSIDE}}
        return {
            Layer.ALLOCATED: _prediction(allocated, parts),
            REQUIRED: _prediction(required, {**in_required, **outer}),
            Layer.RESERVED: _prediction(reserved, in_reserved),
            Layer.DEVICE: _prediction(reserved + outside, in_device),
        }

    def _phases(self, factors: Mapping[Term, Numbers]) -> Numbers:
        phases = self._exact.copy()
        for term, sizes in self._in_phase.items():
            phases += sizes * factors[term][:, None]
        return phases

    def _peak(
        self, factors: Mapping[Term, Numbers], highest: NDArray[np.intp]
    ) -> tuple[Numbers, dict[Term, Numbers]]:
        """Return allocated, and what each term is of it."""
        place = (np.arange(self.count), highest)
        parts = {term: sizes[place] * factors[term] for term, sizes in self._in_phase.items()}
        return np.add.reduce([self._exact[place], *parts.values()]), parts

    def _scaled_above(self, factors: Mapping[Term, Numbers]) -> dict[Term, Numbers]:
        return {term: sizes * factors[term] for term, sizes in self._above.items()}

    def _reserved(
        self, allocated: Numbers, above: Mapping[Term, Numbers]
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Return what the allocator would keep, the most that the card lets it, and what it must."""
        least = allocated + self._workspaces
        wanted = least + above[Term.CACHE] + above[Term.VARYING_CACHE] + above[Term.SIDE_POOLS]
        return wanted, self._usable - above[Term.CONTEXT] - above[Term.COMMUNICATORS], least


def _in_reserved(
    regime: Regime, parts: Mapping[Term, Numbers], above: Mapping[Term, Numbers]
) -> dict[Term, Numbers]:
    """Return what reserved changes by as each term does; where the card ends, what is outside takes from it."""
    kept, ends = regime.meets == _WANTED, regime.meets == _MOST
    return {
        **{term: size * ~ends for term, size in parts.items()},
        **{term: above[term] * kept for term in KEPT},
        **{term: above[term] * -ends.astype(float) for term in OUTSIDE},
    }


def _prediction(size: Numbers, parts: Mapping[Term, Numbers]) -> Prediction:
    safe = np.maximum(size, 1.0)
    return Prediction(size=safe, shares={term: part / safe for term, part in parts.items()})
