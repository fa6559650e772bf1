"""Moments of a step, and the ledger they are noted in: what always is there, what segments hold, what comes on top."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import add

from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.kinds import Layer, LayerRun
from vramgate.costmodel.segments import High, Parts, Segment
from vramgate.costmodel.tape import ACTIVATION, CAST, CATEGORIES, COMPONENT_OF, Tape
from vramgate.units import Bytes, ceil_div

Waiting = dict[tuple[Layer, Segment], int]
"""How many layers wait for their backward, by their kind and the segment each of them is."""


@dataclass(slots=True, kw_only=True)
class Moment:
    """One moment of the step. Its components are added up when first asked for: most moments never are."""

    phase: Phase
    label: str
    bytes: Bytes
    static: dict[Component, Bytes]
    """What is there for the whole step; moments share it."""
    parts: Parts
    """What comes and goes, by tape category."""
    gathered: Bytes = 0
    """Parameters gathered for what runs at this moment."""
    waiting: Waiting = field(default_factory=dict)
    """Layers whose activations are kept for their backward at this moment."""

    _components: dict[Component, Bytes] | None = field(init=False, default=None)

    @property
    def components(self) -> dict[Component, Bytes]:
        """The bytes by component; they add up to ``bytes``."""
        if self._components is None:
            self._components = self._added_up()
        return self._components

    def _added_up(self) -> dict[Component, Bytes]:
        components = dict(self.static)
        for index, size in enumerate(self.parts):
            component = COMPONENT_OF[index]
            components[component] = components.get(component, 0) + size
        own = components.get(Component.GATHERED_PARAMETERS, 0)
        components[Component.GATHERED_PARAMETERS] = own + self.gathered
        return components


@dataclass(slots=True, kw_only=True)
class Piece:
    """Neighbouring layers that behave alike, with the segment each of them is."""

    run: LayerRun
    count: int
    segment: Segment


@dataclass(slots=True, kw_only=True)
class Passage:
    """Pieces that follow each other, the whole of them ``times`` over."""

    pieces: tuple[Piece, ...]
    times: int


@dataclass(slots=True)
class Ledger:
    """What is alive while a step runs, and the moments noted of it."""

    static: dict[Component, Bytes]
    """What is there for the whole step. Replaced, never changed: moments hold it."""
    moments: list[Moment] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    """All layers passed forward, in order."""
    held: Parts = field(default_factory=lambda: [0] * CATEGORIES)
    """What the segments passed so far keep, by tape category."""
    static_bytes: Bytes = field(init=False)
    casts: Bytes = 0
    """The part of it that goes when autocast ends."""
    waiting: Waiting = field(default_factory=dict)
    """Layers that wait for their backward now."""

    def __post_init__(self) -> None:
        """Add up what is there."""
        self.static_bytes = sum(self.static.values())

    @property
    def pieces(self) -> list[Piece]:
        """Every piece once, in order."""
        return [piece for passage in self.passages for piece in passage.pieces]

    def counted(self) -> Iterator[tuple[int, Piece]]:
        """Yield each piece with the number of layers it stands for in all rounds."""
        for passage in self.passages:
            for piece in passage.pieces:
                yield passage.times * piece.count, piece

    def hold(self, parts: Parts, count: int = 1) -> None:
        """Add ``count`` times ``parts`` to what is held; a negative count lets it go."""
        self.held = [held + count * size for held, size in zip(self.held, parts, strict=True)]

    def hold_in_flight(self, in_flight: int, *, chunks: int) -> None:
        """Add the activations of micro-batches in flight beside this one, counted in chunks of the stage's layers."""
        kept = sum(layers * piece.segment.kept_bytes for layers, piece in self.counted())
        others = ceil_div((in_flight - chunks) * kept, chunks)
        self.held[ACTIVATION] = self.held[ACTIVATION] + others

    def hold_casts(self, size: Bytes) -> None:
        """Add weight copies that autocast's cache keeps though no operation has saved them."""
        self.casts = self.casts + size
        self.held[CAST] = self.held[CAST] + size

    def drop_casts(self) -> None:
        """Leave autocast: let those copies go."""
        self.held[CAST] = self.held[CAST] - self.casts
        self.casts = 0

    def wait(self, piece: Piece, layers: int) -> None:
        """Let layers of a piece wait for their backward; a negative number: it has come."""
        key = piece.run.layer, piece.segment
        self.waiting[key] = self.waiting.get(key, 0) + layers

    def set_static(self, component: Component, size: Bytes) -> None:
        """Let a component stay at ``size`` for the rest of the step."""
        self.static = {**self.static, component: size}
        self.static_bytes = sum(self.static.values())

    def add_static(self, component: Component, size: Bytes) -> None:
        """Add bytes that stay for the rest of the step."""
        self.set_static(component, self.static.get(component, 0) + size)

    def note(self, phase: Phase, label: str, high: High, gathered: Bytes = 0) -> None:
        """Note a moment: ``high`` stands on what is held, and on both the parameters that sharding has gathered."""
        self.moments.append(
            Moment(
                phase=phase,
                label=label,
                bytes=self.static_bytes + sum(self.held) + high.bytes + gathered,
                static=self.static,
                parts=list(map(add, self.held, high.parts)),
                gathered=gathered,
                waiting=self.waiting.copy(),
            )
        )

    def note_tape(self, tape: Tape, phase: Phase, label: str) -> None:
        """Note the highest moment of ``tape`` since its peak was last restarted."""
        high, parts = tape.restart_peak()
        self.note(phase, label, High(bytes=high, parts=parts))
