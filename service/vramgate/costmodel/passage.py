"""Passing through the layers, forward and backward: what it does to the ledger, and which moments can be the highest.

Layers of one kind stand on a base that changes by the same bytes from each to the next, and a round of layers on one
that changes by the same from each round to the next: the highest of them is the first or the last.
"""

from dataclasses import dataclass

from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.job import ShardingImplementation, TrainingJob
from vramgate.costmodel.moments import Ledger, Passage, Piece
from vramgate.costmodel.segments import High, Parts
from vramgate.costmodel.sharding import ShardPlan
from vramgate.costmodel.tape import ACTIVATION, CATEGORIES, GRADIENT, TEMPORARY
from vramgate.units import Bytes


@dataclass(slots=True, kw_only=True)
class LayerPasser:
    """Passes through layers on one rank."""

    job: TrainingJob
    plan: ShardPlan
    ledger: Ledger
    resident_gradients: bool
    """Gradients are there while forward runs; backward adds into them."""

    def forward(self, passage: Passage) -> None:
        """Pass forward: what is held only grows, so the last round is noted."""
        before = passage.times - 1
        if before:
            for piece in passage.pieces:
                layers = before * piece.count
                self._keep_gathered(piece, layers)
                self._hold(piece, layers)
                self.ledger.wait(piece, layers)
        for piece in passage.pieces:
            self._forward_piece(piece)
        self.ledger.passages.append(passage)

    def _forward_piece(self, piece: Piece) -> None:
        gathered = self._gathered(piece, self.plan.forward_units)
        self._keep_gathered(piece, piece.count)
        if piece.count > 1:
            self._hold(piece, piece.count - 1)
        self.ledger.note(Phase.FORWARD, _name(piece, "forward"), piece.segment.forward, gathered)
        self._hold(piece, 1)
        self.ledger.wait(piece, piece.count)

    def backward(self, passage: Passage) -> None:
        """Pass backward: noted are the last round, which comes first, and the first."""
        self._backward_round(passage)
        if passage.times == 1:
            return
        between = passage.times - 2
        if between:
            for piece in passage.pieces:
                self._let_go(piece, between * piece.count)
                self._retain_inputs(piece, between)
                self._leave(piece, between * piece.count)
        self._backward_round(passage)

    def _backward_round(self, passage: Passage) -> None:
        for piece in reversed(passage.pieces):
            if piece.segment.requires_grad:
                self._backward_piece(piece)
            else:
                self._let_go(piece, piece.count)
                self._leave(piece, piece.count)

    def _backward_piece(self, piece: Piece) -> None:
        segment, others = piece.segment, piece.count - 1
        gathered = self._gathered(piece, self.plan.backward_units)
        label = _name(piece, "backward")
        self._let_go(piece, 1)
        self.ledger.note(Phase.BACKWARD, label, segment.backward, gathered)
        if others:
            self._retain_inputs(piece, 1)
            self._let_go(piece, others)
            self._leave(piece, others)
            self.ledger.note(Phase.BACKWARD, label, segment.backward, gathered)
        self.note_flattening(
            label, segment.gradients, segment.gradients, segment.stream_bytes, gathered
        )
        self._leave(piece, 1)

    def note_flattening(
        self, label: str, made: Bytes, flat: Bytes, stream_bytes: Bytes, gathered: Bytes = 0
    ) -> None:
        """Note the end of a unit's backward in FSDP 1: its gradients as made, and all of them in one tensor."""
        if not self.plan.flattens_gradients:
            return
        parts: Parts = [0] * CATEGORIES
        parts[GRADIENT], parts[TEMPORARY] = made, flat + stream_bytes
        high = High(bytes=made + flat + stream_bytes, parts=parts)
        self.ledger.note(Phase.BACKWARD, f"{label}, gradients made flat", high, gathered)

    def _hold(self, piece: Piece, layers: int) -> None:
        """Hold what layers keep for backward, and what autocast keeps of them."""
        self.ledger.hold(piece.segment.kept, layers)
        self.ledger.hold_casts(layers * piece.segment.casts_until_forward_ends)

    def _let_go(self, piece: Piece, layers: int) -> None:
        """Let go what layers kept: their backward has come."""
        self.ledger.hold(piece.segment.kept, -layers)
        self.ledger.wait(piece, -layers)

    def _leave(self, piece: Piece, layers: int) -> None:
        """Leave the gradients of layers whose backward is over; those that stayed gathered are gathered no more."""
        self._keep_gathered(piece, -layers)
        held = self.ledger.held
        held[GRADIENT] = held[GRADIENT] + layers * self._gradients_left(piece)

    def _retain_inputs(self, piece: Piece, times: int) -> None:
        """Retain what the hooks of frozen flat parameters hold to the end: every block's input, and its gradient."""
        if not self.plan.keeps_inputs or not piece.segment.requires_grad:
            return
        held, size = self.ledger.held, piece.segment.stream_bytes
        held[ACTIVATION] = held[ACTIVATION] + times * (piece.count - 1) * size
        held[TEMPORARY] = held[TEMPORARY] + times * max(piece.count - 2, 0) * size

    def _gradients_left(self, piece: Piece) -> Bytes:
        """Return the gradients one layer leaves behind: all of them, or the rank's share."""
        stay = not (self.job.optimizer.in_backward or self.resident_gradients)
        if not stay or not piece.segment.requires_grad:
            return 0
        if not self.plan.shards_gradients:
            return piece.segment.gradients
        if self.job.sharding.offload_optimizer != "none":
            return 0
        layer = piece.run.layer
        return self.plan.gradients_share(layer.states.gradients, layer.expert_states.gradients)

    def _gathered(self, piece: Piece, units: int) -> Bytes:
        """Return the gathered layers alive while one of them runs, beyond those that stay gathered."""
        plan = self.plan
        by_unit = plan.gathers and plan.implementation is not ShardingImplementation.DEEPSPEED
        if not by_unit or plan.one_unit or plan.keeps_gathered:
            return 0
        return units * piece.run.layer.states.gathered

    def _keep_gathered(self, piece: Piece, layers: int) -> None:
        """Let layers that are not sharded again after forward stay gathered (a negative count: no more)."""
        if self.plan.gathers and self.plan.keeps_gathered and not self.plan.one_unit:
            size = layers * piece.run.layer.states.gathered
            self.ledger.add_static(Component.GATHERED_PARAMETERS, size)


def _name(piece: Piece, direction: str) -> str:
    return f"{direction} of one {piece.run.layer.block.name} block"
