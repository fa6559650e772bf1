"""Effects: which labels may move which term of the model, and how far before anybody has measured.

A factor is the product of its effects, one for each level: all jobs, those of a framework, those of a
framework and version, and so on. Every effect is near 1 until reports say otherwise; a level of few
reports stays near it and leaves the rest to the levels above (partial pooling).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from vramgate.calibration.labels import Label, Labels
from vramgate.costmodel.terms import Term

Level: TypeAlias = tuple[Label, ...]
"""What an effect is of: the jobs that agree in these labels; none: all jobs."""


@dataclass(frozen=True, slots=True, order=True)
class EffectKey:
    """One effect: a term, a level, and the labels' values."""

    term: Term
    level: Level
    values: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return it as text: ``activations: framework trl, method qlora``."""
        said = ", ".join(
            f"{label} {value}" for label, value in zip(self.level, self.values, strict=True)
        )
        return f"{self.term}: {said or 'all jobs'}"


_ALL: Level = ()
_FRAMEWORK: Level = (Label.FRAMEWORK,)
_VERSION: Level = (Label.FRAMEWORK, Label.VERSION)
_ARCHITECTURE: Level = (Label.ARCHITECTURE,)
_METHOD: Level = (Label.FRAMEWORK, Label.METHOD)
_CHECKPOINTING: Level = (Label.FRAMEWORK, Label.METHOD, Label.CHECKPOINTING)
_ATTENTION: Level = (Label.FRAMEWORK, Label.ATTENTION)
_LOSS: Level = (Label.FRAMEWORK, Label.LOSS)
_SHARDING: Level = (Label.FRAMEWORK, Label.SHARDING)
_SHARDED_METHOD: Level = (Label.FRAMEWORK, Label.METHOD, Label.SHARDING)
_MODEL: Level = (Label.FRAMEWORK, Label.MODEL)

LEVELS: Mapping[Term, tuple[Level, ...]] = {
    Term.ACTIVATIONS: (
        _ALL, _FRAMEWORK, _VERSION, _ARCHITECTURE, _METHOD, _CHECKPOINTING, _ATTENTION, _MODEL,
    ),
    Term.LOGITS: (_ALL, _FRAMEWORK, _VERSION, _LOSS, _MODEL),
    Term.TEMPORARIES: (_ALL, _FRAMEWORK, _VERSION, _METHOD),
    Term.BUFFERS: (_ALL, _FRAMEWORK, _VERSION, _SHARDING),
    Term.FRAGMENTATION: (_ALL, _FRAMEWORK),
    Term.CONTEXT: (_ALL, _ARCHITECTURE, _FRAMEWORK),
    Term.COMMUNICATORS: (_ALL, _ARCHITECTURE, _SHARDING),
    Term.CACHE: (_ALL, _FRAMEWORK, _SHARDED_METHOD, _MODEL),
    Term.VARYING_CACHE: (_ALL, _METHOD, _MODEL),
    Term.SIDE_POOLS: (_ALL, _FRAMEWORK),
}  # fmt: skip
"""From the widest level to the narrowest."""

SPREAD: Mapping[Term, float] = {
    # Exact traces hold these within 1 %; what a version or a kernel changes is some percent.
    Term.ACTIVATIONS: 0.03,
    Term.LOGITS: 0.03,
    Term.TEMPORARIES: 0.05,
    Term.BUFFERS: 0.05,
    # The sources in costmodel/coefficients.py differ by so much among themselves.
    Term.FRAGMENTATION: 0.2,
    Term.CONTEXT: 0.15,
    Term.COMMUNICATORS: 0.2,
    Term.CACHE: 0.3,
    Term.VARYING_CACHE: 0.05,
    Term.SIDE_POOLS: 0.2,
}
"""The standard deviation of one effect's logarithm before any report; reports of many segments widen it."""


def effects_of(term: Term, labels: Labels) -> Iterator[EffectKey]:
    """Yield the effects whose product is the factor of a term for a job with these labels."""
    for level in LEVELS[term]:
        yield EffectKey(term, level, tuple(labels[label] for label in level))
