"""Segments of a step: the embedding, each kind of block, the head. Each is one tape, run forward and backward.

A segment says how much it keeps between its forward and its backward, how high it goes in each, and which parameter
gradients it leaves behind. ``step`` lays the segments of all layers in time.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from vramgate.costmodel.architecture import Block
from vramgate.costmodel.blocks.decoder import block
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.selective import Selection
from vramgate.costmodel.tape import (
    ACTIVATION,
    CATEGORIES,
    GRADIENT,
    TEMPORARY,
    ArrayTape,
    Tape,
    Tensor,
)
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes, Count

Parts = list[Bytes]
"""Bytes by tape category."""


@dataclass(slots=True, kw_only=True)
class High:
    """The highest moment of a piece: bytes above what the other segments hold, and their parts."""

    bytes: Bytes = 0
    parts: Parts = field(default_factory=lambda: [0] * CATEGORIES)


@dataclass(slots=True, kw_only=True, eq=False)
class Segment:
    """What one layer (or one end of the model) does to memory, seen from outside.

    The stream tensor that enters belongs to the segment from its start; the one that leaves is the next one's.
    """

    forward: High
    """Highest moment of forward, the incoming stream included."""
    kept: Parts
    """Kept for backward when forward has passed, by category; the outgoing stream excluded."""
    backward: High
    """Highest moment of backward, ``kept`` and the incoming gradient included."""
    gradients: Bytes
    """Parameter gradients it leaves."""
    casts_until_forward_ends: Bytes = 0
    """Autocast's weight copies that checkpointing does not save but the cache holds until autocast ends."""
    stream_bytes: Bytes = 0
    """The outgoing stream."""
    stream_width: int = 2
    """Bytes of an element of the outgoing stream."""
    offloaded: Bytes = 0
    """What waits for backward in host memory."""
    lingering: Bytes = 0
    """Inputs of 4-bit products that outlive their backward, until the loss of the next micro-batch."""
    requires_grad: bool = True

    @property
    def kept_bytes(self) -> Bytes:
        """All that is kept for backward."""
        return sum(self.kept)


class Entry(NamedTuple):
    """How a layer is entered: what of it changes within one job."""

    stream_requires_grad: bool
    stream_width: int
    reads_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a decoder's blocks read beside their stream: made outside them, counted outside them."""

    elements: Count
    width: int
    requires_grad: bool

    def on_tape(self) -> Tensor:
        """Return the memory for one tape, which does not count its bytes."""
        return Tensor(self.elements, self.width, ACTIVATION, requires_grad=self.requires_grad)


UNPACKS_BY_KERNEL = frozenset({"trl"})
"""Frameworks whose published GPTQ runs are of a Triton kernel that unpacks again in backward (fms-acceleration)."""


def new_tape(setting: Setting) -> Tape:
    """Return a tape for this setting."""
    kind = ArrayTape if setting.is_array else Tape
    tape = kind(autocast=setting.autocast, compute_width=setting.compute_width)
    tape.saves_quantized_inputs = setting.saves_quantized_inputs
    tape.saves_unpacked_weights = setting.software.framework not in UNPACKS_BY_KERNEL
    return tape


def stream_tensor(
    tape: Tape, setting: Setting, hidden_size: Count, *, requires_grad: bool
) -> Tensor:
    """Return the incoming residual stream, alive."""
    return tape.new(
        setting.tokens // setting.sequence_ranks * hidden_size,
        setting.stream_width,
        requires_grad=requires_grad,
    )


def block_segment(
    setting: Setting,
    shape: Block,
    weights: dict[str, Weight],
    hidden_size: Count,
    *,
    requires_grad: bool,
    accumulating: bool,
    memory: Memory | None = None,
) -> Segment:
    """Return the segment of a block that keeps its activations."""
    tape = new_tape(setting)
    tape.accumulating = accumulating
    stream = stream_tensor(tape, setting, hidden_size, requires_grad=requires_grad)
    read = memory.on_tape() if memory is not None else None
    out = block(tape, setting, shape, weights, stream, read)
    tape.drop(stream)
    forward = High(bytes=tape.peak, parts=tape.peak_by)
    tape.leave_autocast()
    stream_bytes = out.size
    tape.drop(out)
    kept = tape.by.copy()
    kept[ACTIVATION] = kept[ACTIVATION] - tape.discarded_bytes
    if not out.requires_grad:
        return Segment(
            forward=forward,
            kept=kept,
            backward=High(),
            gradients=0,
            stream_bytes=stream_bytes,
            stream_width=out.width,
            requires_grad=False,
        )
    tape.peak, tape.peak_by = tape.live, tape.by.copy()
    _hold_gradient_of(tape, read)
    out.gradient = tape.new_gradient(out.size)
    tape.backward()
    return Segment(
        forward=forward,
        kept=kept,
        backward=High(bytes=tape.peak, parts=tape.peak_by),
        gradients=tape.by[GRADIENT],
        stream_bytes=stream_bytes,
        stream_width=out.width,
        lingering=sum(tape.quantized_inputs.values()),
    )


def _hold_gradient_of(tape: Tape, read: Tensor | None) -> None:
    """Let the memory's gradient be there already: the decoder's later blocks have added to it."""
    if read is not None and read.requires_grad:
        read.gradient = tape.new_gradient(read.size)


KEEPS_CACHE = {"gpt_bigcode": (4, 57)}
"""Families whose key-value cache stays on under checkpointing, up to a version of transformers: each layer's fused
projection is held to the end of the step (traced in 4.45)."""


def _cache_bytes(setting: Setting, shape: Block, out: Tensor) -> Bytes:
    last = KEEPS_CACHE.get(setting.model_type)
    attention = shape.attention
    if last is None or attention is None or setting.transformers > last:
        return 0 * setting.tokens
    width = attention.query_size + attention.key_size + attention.value_size
    return setting.tokens * width * out.width


def checkpointed_segment(
    setting: Setting,
    shape: Block,
    weights: dict[str, Weight],
    hidden_size: Count,
    *,
    requires_grad: bool,
    reentrant: bool,
    accumulating: bool,
    keeps: Selection | None = None,
    memory: Memory | None = None,
) -> Segment:
    """Return the segment of a block that keeps its input, and what ``keeps`` selects, and runs again in backward.

    Its first forward, which saves nothing, and its recomputation are the same operations: one replay counts both.
    """
    tape = new_tape(setting)
    tape.accumulating = accumulating
    tape.counts_unsaved = True  # as the block first runs
    stream = stream_tensor(tape, setting, hidden_size, requires_grad=requires_grad)
    tape.save(stream)
    kept = tape.by.copy()
    read = memory.on_tape() if memory is not None else None
    out = block(tape, setting, shape, weights, stream, read)
    forward = High(bytes=tape.unsaved_peak, parts=tape.unsaved_peak_by)
    casts = tape.unsaved_casts
    tape.counts_unsaved = False
    tape.leave_autocast()
    if keeps is not None:
        kept[ACTIVATION] = kept[ACTIVATION] + keeps.selected_bytes(tape)
    kept[ACTIVATION] = kept[ACTIVATION] + _cache_bytes(setting, shape, out)
    if not out.requires_grad:
        return Segment(
            forward=forward,
            kept=kept,
            backward=High(),
            gradients=0,
            casts_until_forward_ends=casts,
            stream_bytes=out.size,
            stream_width=out.width,
            requires_grad=False,
        )
    recomputed, parts = tape.reached, tape.reached_by
    if reentrant:
        recomputed, parts = tape.peak, tape.peak_by
    if not reentrant:
        tape.drop(out)
    alive = tape.live
    tape.peak = tape.live
    _hold_gradient_of(tape, read)
    out.gradient = tape.new_gradient(out.size)
    if reentrant:
        out.gradient.owners += 1
    else:
        tape.backward_of_unsaving()
    # Recomputation runs on top of the gradients that are there when the first saved tensor is asked for.
    gradients = tape.live - alive
    tape.peak = recomputed + gradients
    tape.peak_by = parts.copy()
    tape.peak_by[TEMPORARY] = tape.peak_by[TEMPORARY] + gradients
    tape.backward()
    return Segment(
        forward=forward,
        kept=kept,
        backward=High(bytes=tape.peak, parts=tape.peak_by),
        gradients=tape.by[GRADIENT],
        casts_until_forward_ends=casts,
        stream_bytes=out.size,
        stream_width=out.width,
    )
