"""Terms: one job's memory taken apart into what is exact and what calibration multiplies.

A peak is the highest of the phases, each a sum of exact bytes and of terms with a factor; what lies above
allocated is a sum of terms too. The same formulas make one answer and a fit over thousands of jobs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vramgate.costmodel.breakdown import Component
from vramgate.units import Bytes, largest, smallest

Factor: TypeAlias = float | NDArray[np.float64]
MILLION = 1_000_000
"""Factors are read to a millionth, so that an answer is the same on every machine."""


class Term(StrEnum):
    """What has a factor of its own."""

    ACTIVATIONS = "activations"
    LOGITS = "logits"
    TEMPORARIES = "temporaries"
    BUFFERS = "buffers"
    FRAGMENTATION = "fragmentation"
    CONTEXT = "context"
    COMMUNICATORS = "communicators"
    CACHE = "cache"
    VARYING_CACHE = "varying_cache"
    SIDE_POOLS = "side_pools"


TERM_OF: Mapping[Component, Term] = {
    Component.ACTIVATIONS: Term.ACTIVATIONS,
    Component.LOGITS: Term.LOGITS,
    Component.TEMPORARIES: Term.TEMPORARIES,
    Component.AUTOCAST_CACHE: Term.TEMPORARIES,
    Component.DEQUANTIZATION: Term.TEMPORARIES,
    Component.COMMUNICATION_BUFFERS: Term.BUFFERS,
    Component.GATHERED_PARAMETERS: Term.BUFFERS,
}
"""The components whose bytes a factor moves; weights, gradients and states are exact."""
IN_PHASES = (Term.ACTIVATIONS, Term.LOGITS, Term.TEMPORARIES, Term.BUFFERS)

Factors: TypeAlias = Mapping[Term, Factor]
FIRST_PRINCIPLES: Factors = {}
"""Every factor that is not named is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpperTerms:
    """What lies above allocated, in bytes at first principles."""

    fragmentation: float
    """Of allocated: what no flush of the cache gives back."""
    workspaces: Bytes
    context: Bytes
    communicators: Bytes
    cache: Bytes
    """What the allocator keeps beyond the peak while there is room."""
    varying_cache: Bytes
    """The same where rows vary in length; one of the two is nothing."""
    side_pools: Bytes
    usable: Bytes | None
    """What the card can give; None where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLayers:
    """One peak, by layer."""

    required: Bytes
    reserved: Bytes
    device: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTerms:
    """The highest moment of one phase: what is exact, and the terms with a factor, in bytes."""

    exact: Bytes
    terms: Mapping[Term, Bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTerms:
    """One job taken apart: its allocated peak is the highest of the phases once factors are on them."""

    phases: tuple[PhaseTerms, ...]
    upper: UpperTerms


def phase_terms(components: Mapping[Component, Bytes]) -> PhaseTerms:
    """Return the components of a moment as terms.

    >>> phase_terms({Component.WEIGHTS: 16, Component.TEMPORARIES: 2, Component.DEQUANTIZATION: 1}).exact
    16
    """
    exact: Bytes = 0
    terms: dict[Term, Bytes] = {}
    for component, size in components.items():
        term = TERM_OF.get(component)
        if term is None:
            exact = exact + size
        else:
            terms[term] = terms.get(term, 0) + size
    return PhaseTerms(exact=exact, terms=terms)


def with_factors(components: dict[Component, Bytes], factors: Factors) -> dict[Component, Bytes]:
    """Return components with the factors of their terms on them; the same ones where there are none."""
    if not factors:
        return components
    return {
        component: size
        if (factor := factor_on(component, factors)) is None
        else scaled(size, factor)
        for component, size in components.items()
    }


def factor_on(component: Component, factors: Factors) -> Factor | None:
    """Return the factor on a component's bytes; None where they are exact, or it is 1."""
    term = TERM_OF.get(component)
    return None if term is None else factors.get(term)


def scaled(size: Bytes, factor: Factor) -> Bytes:
    """Return bytes times a factor, in whole bytes.

    >>> scaled(1_000, 1.0345)
    1034
    """
    if isinstance(factor, float):
        return size * round(factor * MILLION) // MILLION
    product: NDArray[np.int64] = np.asarray(size) * np.rint(factor * MILLION).astype(np.int64)
    return product // MILLION


def layers_above(allocated: Bytes, terms: UpperTerms, factors: Factors) -> MemoryLayers:
    """Return the layers above a peak of ``allocated`` bytes.

    *reserved* and *device* are the meters, which show what the allocator keeps as long as the card has room.
    """

    def of(term: Term, size: Bytes) -> Bytes:
        factor = factors.get(term)
        return size if factor is None else scaled(size, factor)

    outside = of(Term.CONTEXT, terms.context) + of(Term.COMMUNICATORS, terms.communicators)
    least = allocated + terms.workspaces
    fragmentation = of(Term.FRAGMENTATION, scaled(allocated, terms.fragmentation))
    reserved = (
        least
        + of(Term.CACHE, terms.cache)
        + of(Term.VARYING_CACHE, terms.varying_cache)
        + of(Term.SIDE_POOLS, terms.side_pools)
    )
    if terms.usable is not None:
        reserved = smallest(reserved, terms.usable - outside)
    reserved = largest(reserved, least)
    return MemoryLayers(
        required=least + fragmentation + outside, reserved=reserved, device=reserved + outside
    )
