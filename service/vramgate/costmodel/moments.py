"""Moments of a step, and the ledger they are noted in: what always is there, what segments hold, what comes on top."""

from dataclasses import dataclass, field

from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.rank_model import LayerRun, States
from vramgate.costmodel.segments import High, Parts, Segment
from vramgate.costmodel.sharding import ShardPlan
from vramgate.costmodel.tape import ACTIVATION, CATEGORIES, COMPONENT_OF, Tape
from vramgate.units import Bytes, ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLayers:
    """Layers of one kind that wait for their backward, and what each of them keeps."""

    name: str
    count: int
    bytes: Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One moment of the step."""

    phase: Phase
    label: str
    bytes: Bytes
    components: dict[Component, Bytes]
    kept: tuple[KeptLayers, ...]
    """Layers whose activations wait for their backward at this moment."""


@dataclass(slots=True, kw_only=True)
class Piece:
    """Neighbouring layers that behave alike, with the segment each of them is."""

    run: LayerRun
    states: States
    expert_states: States
    """The part of ``states`` that expert parallelism deals out."""
    count: int
    segment: Segment

    def gradients_share(self, plan: ShardPlan) -> Bytes:
        """Return a rank's share of one layer's gradients."""
        return plan.gradients_share(self.states.gradients, self.expert_states.gradients)


@dataclass(slots=True)
class Ledger:
    """What is alive while a step runs, and the moments noted of it."""

    static: dict[Component, Bytes]
    """What is there for the whole step."""
    moments: list[Moment] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    held: Parts = field(default_factory=lambda: [0] * CATEGORIES)
    """What the segments passed so far keep, by tape category."""
    kept: tuple[KeptLayers, ...] = ()
    """Layers that wait for their backward now."""
    _waiting: dict[int, tuple[str, int, Bytes]] = field(default_factory=dict)
    """The same by what each keeps: name, layers, bytes of one."""

    def hold(self, parts: Parts, count: int = 1) -> None:
        """Add ``count`` times ``parts`` to what is held; a negative count lets it go."""
        for index, size in enumerate(parts):
            self.held[index] = self.held[index] + (count * size)

    def hold_in_flight(self, in_flight: int, *, chunks: int) -> None:
        """Add the activations of micro-batches in flight beside this one, counted in chunks of the stage's layers."""
        kept = sum(piece.count * sum(piece.segment.kept) for piece in self.pieces)
        others = ceil_div((in_flight - chunks) * kept, chunks)
        self.held[ACTIVATION] = self.held[ACTIVATION] + others

    def wait(self, piece: Piece, layers: int) -> None:
        """Let layers of a piece wait for their backward; a negative number: it has come."""
        kept = piece.segment.kept
        name, waiting, size = self._waiting.get(
            id(kept), (piece.run.block.name, 0, kept[ACTIVATION])
        )
        self._waiting[id(kept)] = (name, waiting + layers, size)
        self.kept = tuple(
            KeptLayers(name=name, count=count, bytes=size)
            for name, count, size in self._waiting.values()
            if count
        )

    def add_static(self, component: Component, size: Bytes) -> None:
        """Add bytes that stay for the rest of the step."""
        self.static[component] = self.static.get(component, 0) + size

    def note(self, phase: Phase, label: str, high: High, gathered: Bytes = 0) -> None:
        """Note a moment: ``high`` stands on what is held, and on both the parameters that sharding has gathered."""
        components = dict(self.static)
        for index in range(CATEGORIES):
            size = self.held[index] + high.parts[index]
            component = COMPONENT_OF[index]
            components[component] = components.get(component, 0) + size
        own = components.get(Component.GATHERED_PARAMETERS, 0)
        components[Component.GATHERED_PARAMETERS] = own + gathered
        total = sum(self.static.values()) + sum(self.held) + high.bytes + gathered
        self.moments.append(
            Moment(phase=phase, label=label, bytes=total, components=components, kept=self.kept)
        )

    def note_tape(self, tape: Tape, phase: Phase, label: str) -> None:
        """Note the highest moment of ``tape`` since its peak was last restarted."""
        high, parts = tape.restart_peak()
        self.note(phase, label, High(bytes=high, parts=parts))
