"""Between the two stacks of an encoder-decoder: the memory one leaves to the other, and biases that span a stack."""

from dataclasses import dataclass

from vramgate.costmodel.architecture import ModelClass, Stack
from vramgate.costmodel.blocks.encoder_decoder_ends import decoder_embedding, memory_of
from vramgate.costmodel.blocks.relative_bias import ADDS_RELATIVE_BIAS, held_bias_bytes
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.breakdown import Phase
from vramgate.costmodel.job import CheckpointMode, MethodKind, TrainingJob
from vramgate.costmodel.moments import Ledger
from vramgate.costmodel.segments import Memory, new_tape
from vramgate.costmodel.tape import ACTIVATION, GRADIENT, TEMPORARY, Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes


def has_memory(job: TrainingJob) -> bool:
    """Return whether a decoder reads what an encoder has left."""
    return job.architecture.model_class is ModelClass.ENCODER_DECODER


@dataclass(slots=True)
class Crossing:
    """The way from the encoder's last block to the decoder's first, and back."""

    memory_tape: Tape
    output: Tensor
    """The encoder's output: the memory, on its own tape."""
    stream_tape: Tape
    stream: Tensor
    """The decoder's stream before its first block."""

    @property
    def memory(self) -> Memory:
        """The memory as the decoder's blocks see it."""
        return Memory(
            elements=self.output.elements,
            width=self.output.width,
            requires_grad=self.output.requires_grad,
        )

    def back(self, ledger: Ledger, *, shared: Bytes, summed: Bytes) -> None:
        """Run backward from the decoder's first block to the encoder's last; the memory's gradient is there whole.

        ``shared``: bytes of the embedding's gradient where the head has left one, ``summed``: of their sum where it is
        made beside them.
        """
        gradient = self.output.size if self.output.requires_grad else 0
        ledger.held[TEMPORARY] = ledger.held[TEMPORARY] + gradient
        _backward(
            self.stream_tape, self.stream, ledger, "backward of the decoder's embedding", summed
        )
        ledger.held[GRADIENT] = ledger.held[GRADIENT] - shared
        ledger.held[TEMPORARY] = ledger.held[TEMPORARY] - gradient
        ledger.held[ACTIVATION] = ledger.held[ACTIVATION] - self.output.size
        _backward(self.memory_tape, self.output, ledger, "backward of the encoder's output", 0)


def _backward(tape: Tape, out: Tensor, ledger: Ledger, label: str, summed: Bytes) -> None:
    ledger.hold(tape.by, -1)
    if not out.requires_grad:
        return
    tape.restart_peak()
    out.gradient = tape.new_gradient(out.size)
    tape.backward()
    tape.spike(summed)
    ledger.note_tape(tape, Phase.BACKWARD, label)
    ledger.held[GRADIENT] = ledger.held[GRADIENT] + tape.by[GRADIENT]


def cross_over(
    encoder: Setting,
    decoder: Setting,
    outside: dict[str, Weight],
    ledger: Ledger,
    *,
    stream_requires_grad: bool,
    accumulating: bool,
) -> Crossing:
    """Run forward from the encoder's last block to the decoder's first."""
    memory_tape = new_tape(encoder)
    memory_tape.accumulating = accumulating
    hidden_size = encoder.architecture.hidden_size
    stream = memory_tape.new(
        encoder.tokens * hidden_size, encoder.stream_width, requires_grad=stream_requires_grad
    )
    output = memory_of(memory_tape, encoder, outside, stream)
    ledger.note_tape(memory_tape, Phase.FORWARD, "encoder's output")
    memory_tape.drop(output)
    ledger.hold(memory_tape.by)
    ledger.held[ACTIVATION] = ledger.held[ACTIVATION] + output.size
    stream_tape = new_tape(decoder)
    stream_tape.accumulating = accumulating
    begun = decoder_embedding(stream_tape, decoder, outside)
    ledger.note_tape(stream_tape, Phase.FORWARD, "decoder's embedding")
    stream_tape.drop(begun)
    ledger.hold(stream_tape.by)
    return Crossing(memory_tape, output, stream_tape, begun)


@dataclass(slots=True)
class SpanningBias:
    """A bias made by a stack's first block and read by all of them (T5's relative positions)."""

    size: Bytes
    trains: bool
    kept: Bytes
    """What stays from forward to the first block's backward: checkpoints keep the bias as an input."""

    def begin(self, ledger: Ledger) -> None:
        """Hold the bias while the stack runs forward."""
        ledger.held[TEMPORARY] = ledger.held[TEMPORARY] + self.size

    def end(self, ledger: Ledger) -> None:
        """Let go what no checkpoint keeps."""
        ledger.held[TEMPORARY] = ledger.held[TEMPORARY] + (self.kept - self.size)

    def begin_backward(self, ledger: Ledger) -> None:
        """Hold the bias's gradient while the stack runs backward."""
        if self.trains:
            ledger.held[TEMPORARY] = ledger.held[TEMPORARY] + self.size

    def end_backward(self, ledger: Ledger) -> None:
        """Let the gradient and what was kept go."""
        ledger.held[TEMPORARY] = ledger.held[TEMPORARY] - (
            self.kept + (self.size if self.trains else 0)
        )


def spanning_bias(job: TrainingJob, setting: Setting, stack: Stack) -> SpanningBias:
    """Return the bias of a stack, of no bytes where the family has none."""
    shape = stack.blocks[0].attention
    size: Bytes = 0
    if setting.model_type in ADDS_RELATIVE_BIAS and shape is not None:
        size = held_bias_bytes(setting, heads=shape.heads)
    copies = 0
    if job.checkpointing.mode is CheckpointMode.FULL:
        crossed = any(block.cross_attention is not None for block in stack.blocks)
        copies = 2 if crossed else 1
    return SpanningBias(size, trains=job.method.kind is MethodKind.FULL, kept=copies * size)
