"""The layers of a job, each kind made once, and the order they stand in: runs of one kind, in rounds that come again.

All pipeline stages of a job share its ``LayerKinds``: a kind's weights, states and segments are the same on each.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from vramgate.costmodel.architecture import Block, Module, Stack
from vramgate.costmodel.job import AttentionImplementation, MethodKind, Packing, TrainingJob
from vramgate.costmodel.parallelism import (
    EXPERT_ROLES,
    block_share,
    expert_tensor_ranks,
    splits_layers,
)
from vramgate.costmodel.segments import Entry, Segment
from vramgate.costmodel.states import NO_STATES, States, weight_states
from vramgate.costmodel.weights import Weight, held_weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """One kind of layer, trained one way, as a rank holds it."""

    stack: Stack
    block: Block
    weights: dict[str, Weight]
    states: States
    """States of one such layer."""
    expert_states: States
    """The part of ``states`` that expert parallelism deals out."""
    segments: dict[Entry, Segment] = field(default_factory=dict)
    """What has been replayed of it so far; kinds that no tape tells apart share it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRun:
    """Neighbouring layers of one kind."""

    layer: Layer
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Runs that follow each other, the whole of them ``times`` over."""

    runs: tuple[LayerRun, ...]
    times: int


@dataclass(slots=True)
class LayerKinds:
    """The kinds of layers of one job, each made when it is first asked for.

    Kinds that hold the same modules share weights and states, though they may compute with them in other ways.
    """

    job: TrainingJob
    _made: dict[tuple[int, int, bool], Layer] = field(default_factory=dict)
    """By stack, kind and whether the layer trains."""
    _first: list[tuple[Stack, bool, Layer]] = field(default_factory=list)
    """The first kind that holds its modules, by stack and whether it trains."""

    def rounds(self, stack: Stack, *, start: int = 0, stop: int | None = None) -> Iterator[Round]:
        """Yield the rounds of layers ``start`` to ``stop`` of a stack; freezing trains the decoder's last layers."""
        layers = stack.layers[start:stop]
        frozen = 0
        if self.job.method.kind is MethodKind.FREEZE:
            decoder = stack is self.job.architecture.decoder
            trains = self.job.method.trainable_layers if decoder else 0
            frozen = max(0, len(stack.layers) - trains - start)
        if frozen:
            yield from self._rounds(stack, layers[:frozen], trains=False)
        yield from self._rounds(stack, layers[frozen:], trains=True)

    def _rounds(self, stack: Stack, layers: tuple[int, ...], *, trains: bool) -> Iterator[Round]:
        for counted, times in rounds_of(layers):
            runs = (
                LayerRun(layer=self._layer(stack, run.kind, trains=trains), count=run.number)
                for run in counted
            )
            yield Round(runs=tuple(runs), times=times)

    def _layer(self, stack: Stack, kind: int, *, trains: bool) -> Layer:
        key = id(stack), kind, trains
        layer = self._made.get(key)
        if layer is None:
            layer = self._made[key] = self._new(stack, stack.blocks[kind], trains=trains)
        return layer

    def _new(self, stack: Stack, block: Block, *, trains: bool) -> Layer:
        layout = self.job.parallelism
        if splits_layers(layout):
            block = block_share(block, layout, expert_tensor_ranks(self.job))
        known = self._holding(stack, block.modules, trains=trains)
        if known is not None:
            alike = self._as_replayed(known.block) == self._as_replayed(block)
            return replace(known, block=block, segments=known.segments if alike else {})
        weights = held_weights(block.modules, self.job, in_block=True, trainable_layer=trains)
        layer = Layer(
            stack=stack,
            block=block,
            weights=weights,
            states=weight_states(weights.values(), self.job),
            expert_states=self._dealt_out(weights),
        )
        self._first.append((stack, trains, layer))
        return layer

    def _holding(self, stack: Stack, modules: tuple[Module, ...], *, trains: bool) -> Layer | None:
        """Return the first kind that holds these modules. They are few: comparing them is cheaper than hashing all."""
        for of_stack, of_trained, layer in self._first:
            if of_stack is stack and of_trained == trains and layer.block.modules == modules:
                return layer
        return None

    def _as_replayed(self, block: Block) -> Block:
        """Return a block as a tape sees it: without its name and, but for one case, without its window.

        sdpa chooses a kernel by the window unless padding has put a mask there anyway; eager code masks every score,
        FlashAttention takes the window as a number.
        """
        sdpa = self.job.attention is AttentionImplementation.SDPA
        shape = block.attention
        if shape is not None and not (sdpa and self.job.packing is not Packing.PADDED):
            shape = replace(shape, sliding_window=None)
        return replace(block, name="", attention=shape)

    def _dealt_out(self, weights: dict[str, Weight]) -> States:
        """Return the states of a layer's experts, where expert parallelism deals them out."""
        if self.job.parallelism.expert_parallel_size == 1:
            return NO_STATES
        experts = (weight for weight in weights.values() if weight.module.role in EXPERT_ROLES)
        return weight_states(experts, self.job)


_RUN = re.compile(r"(.)\1*", re.DOTALL)
_ROUNDS = tuple(re.compile(rf"(.{{{period}}})\1+", re.DOTALL) for period in range(2, 13))
"""Rounds of so many runs that come at least twice in a row; two neighbouring runs are never alike."""


class CountedKind(NamedTuple):
    """A kind of layer and how many of it are neighbours."""

    kind: int
    number: int


def rounds_of(layers: tuple[int, ...]) -> Iterator[tuple[tuple[CountedKind, ...], int]]:
    """Yield what comes again and again in a sequence of kinds, with how often it comes.

    Regular expressions search one character a layer for runs, then one a run for the longest stretch of rounds.

    >>> [(len(runs), times) for runs, times in rounds_of((0, 1, 1, 0, 1, 1, 0, 1, 1, 2))]
    [(2, 3), (1, 1)]
    """
    found = [match[0] for match in _RUN.finditer("".join(map(chr, layers)))]
    letters: dict[str, str] = {}
    text = "".join([letters.setdefault(run, chr(len(letters))) for run in found])
    counted = {run: CountedKind(kind=ord(run[0]), number=len(run)) for run in letters}
    start = 0
    while start < len(text):
        stretches = [match for each in _ROUNDS if (match := each.match(text, start))]
        longest = max(stretches, key=lambda match: match.end(), default=None)
        period = 1 if longest is None else len(longest[1])
        stop = start + period if longest is None else longest.end()
        yield (
            tuple([counted[run] for run in found[start : start + period]]),
            (stop - start) // period,
        )
        start = stop
