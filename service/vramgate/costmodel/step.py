"""A steady training step on one rank, as a sequence of moments: what is alive, by component, at the worst of each.

The segments (embedding, blocks, head) are laid in time: forward in order, loss, backward in reverse, optimizer step.
What every other segment holds at a moment is the base; the segment's own high stands on it, and on both stand the
parameters that sharding has gathered for the segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from vramgate.costmodel.blocks.encoder_decoder_ends import encoder_embedding, encoder_setting
from vramgate.costmodel.blocks.ends import (
    embedding,
    rotary_table_bytes,
    shared_mask_bytes,
)
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.crossing import (
    Crossing,
    SpanningBias,
    cross_over,
    has_memory,
    spanning_bias,
)
from vramgate.costmodel.head import head_segment
from vramgate.costmodel.job import (
    CheckpointMode,
    Task,
    TrainingJob,
)
from vramgate.costmodel.kinds import Layer, LayerKinds, LayerRun, Round
from vramgate.costmodel.layers import layer_segment
from vramgate.costmodel.moments import Ledger, Moment, Passage, Piece
from vramgate.costmodel.parallelism import PipelineStage
from vramgate.costmodel.passage import LayerPasser
from vramgate.costmodel.rank_model import RankModel, rank_model
from vramgate.costmodel.rest import (
    keeps_gradients,
    loaded,
    resting_components,
    resting_gradients,
    shared_gradients,
    step_temporaries,
)
from vramgate.costmodel.segments import (
    Entry,
    High,
    Parts,
    Segment,
    new_tape,
)
from vramgate.costmodel.setting import setting_of
from vramgate.costmodel.sharding import ShardPlan, shard_plan
from vramgate.costmodel.shared_table import (
    gradients_are_views,
    head_is_tied,
    table_gradient,
)
from vramgate.costmodel.tape import (
    ACTIVATION,
    CATEGORIES,
    GRADIENT,
    LOGITS,
    TEMPORARY,
    Tape,
    Tensor,
)
from vramgate.units import Bytes, ceil_div, smallest

COMMON_ROW_TOKENS = 512
"""Tokens taken for a common row of instruction data: litgpt's published runs of Alpaca2k reach a limit of 512."""
CHECKPOINT_REQUIRES_INPUT_GRADIENT_SINCE = (5, 0)
"""transformers lets the embedding's output require a gradient when checkpointing is switched on, from here on."""


@dataclass(slots=True)
class Step:
    """Walks through one step of one pipeline stage and collects its moments."""

    job: TrainingJob
    stage: PipelineStage
    kinds: LayerKinds | None = None
    """The job's kinds of layers, where another stage has made some."""
    setting: Setting = field(init=False)
    model: RankModel = field(init=False)
    plan: ShardPlan = field(init=False)
    ledger: Ledger = field(init=False)
    passer: LayerPasser = field(init=False)
    stream_requires_grad: bool = field(init=False, default=True)
    resident_gradients: bool = field(init=False)
    """Gradients are there while forward runs; backward adds into them."""
    biases: list[SpanningBias] = field(init=False, default_factory=list)
    """One for each stack that has run forward and not yet backward."""
    crossing: Crossing | None = field(init=False, default=None)
    """An encoder-decoder's way between its stacks, once it has been gone."""

    def __post_init__(self) -> None:
        """Lay out what does not change while the step runs."""
        job = self.job
        self.model = rank_model(job, self.stage, self.kinds or LayerKinds(job))
        self.setting = encoder_setting(setting_of(job), self.model.outside)
        states = self.model.states
        self.plan = shard_plan(job, parameters=states.parameters, gradient_bytes=states.gradients)
        self.resident_gradients = keeps_gradients(job)
        self.ledger = Ledger(resting_components(job, self.setting, self.model, self.plan))
        if self.resident_gradients:
            resting = resting_gradients(job, self.model, self.plan)
            self.ledger.add_static(Component.GRADIENTS, resting)
        self.passer = LayerPasser(
            job=job,
            plan=self.plan,
            ledger=self.ledger,
            resident_gradients=self.resident_gradients,
        )

    @property
    def offloaded_bytes(self) -> Bytes:
        """Checkpoints that wait in host memory."""
        return sum(layers * piece.segment.offloaded for layers, piece in self.ledger.counted())

    def run(self) -> list[Moment]:
        """Return the moments of the step."""
        weights = self.ledger.static[Component.WEIGHTS]
        self.ledger.moments.append(loaded(self.job, self.setting, self.model, weights))
        embedded = self._embed() if self.stage.first else None
        self._forward()
        self.ledger.hold_in_flight(self.stage.in_flight, chunks=self.stage.chunks)
        self._hold_lingering()
        if self.stage.last:
            self._head()
        self.ledger.drop_casts()
        self._backward()
        if embedded is not None:
            self._embed_backward(*embedded)
        self._optimizer_step()
        return self.ledger.moments

    def _new_tape(self) -> Tape:
        tape = new_tape(self.setting)
        tape.accumulating = self._accumulating
        return tape

    def _embed(self) -> tuple[Tape, Tensor]:
        setting = self.setting
        self.ledger.held[ACTIVATION] = self.ledger.held[ACTIVATION] + (
            rotary_table_bytes(setting) + shared_mask_bytes(setting)
        )
        checkpointing = self.job.checkpointing
        hooked = checkpointing.mode is CheckpointMode.FULL and (
            checkpointing.reentrant
            or setting.transformers >= CHECKPOINT_REQUIRES_INPUT_GRADIENT_SINCE
        )
        tape = self._new_tape()
        begin = encoder_embedding if has_memory(self.job) else embedding
        stream = begin(tape, setting, self.model.outside, input_requires_grad=hooked)
        self.ledger.note(Phase.FORWARD, "embedding", High(bytes=tape.peak, parts=tape.peak_by))
        self.stream_requires_grad = stream.requires_grad
        tape.drop(stream)
        self.ledger.hold(tape.by)
        return tape, stream

    def _forward(self) -> None:
        """Run all blocks forward, stack by stack."""
        stack, bias = None, None
        for each in self.model.rounds:
            entered = each.runs[0].layer.stack
            if entered is not stack:
                if bias is not None:
                    bias.end(self.ledger)
                if stack is not None and has_memory(self.job):
                    self._cross_over()
                stack = entered
                bias = spanning_bias(self.job, self.setting, stack)
                self.biases.append(bias)
                bias.begin(self.ledger)
            for passage in self._passages(each):
                self.passer.forward(passage)
        if bias is not None:
            bias.end(self.ledger)

    def _passages(self, each: Round) -> Iterator[Passage]:
        """Yield a round's layers by how they are entered.

        The first block with a trainable weight gets no gradient for its input, and a block may widen the stream. Once
        a round leaves the stream as it found it, those after it are as it is.
        """
        left = each.times
        while left:
            entered = self._entry
            pieces = [piece for run in each.runs for piece in self._pieces(run)]
            times = left if left > 1 and self._entry == entered else 1
            left -= times
            yield Passage(pieces=tuple(pieces), times=times)

    def _pieces(self, run: LayerRun) -> Iterator[Piece]:
        left = run.count
        while left:
            entered = self._entry
            segment = self._segment(run.layer, entered)
            count = left if left > 1 and self._entry == entered else 1
            left -= count
            yield Piece(run=run, count=count, segment=segment)

    @property
    def _entry(self) -> Entry:
        """How the next layer is entered."""
        return Entry(
            stream_requires_grad=self.stream_requires_grad,
            stream_width=self.setting.stream_width,
            reads_memory=self.crossing is not None,
        )

    def _segment(self, layer: Layer, entry: Entry) -> Segment:
        """Return the segment of the next layer, made once for layers that are entered alike."""
        segment = layer.segments.get(entry)
        if segment is None:
            segment = layer.segments[entry] = layer_segment(
                self.job,
                self.setting,
                layer,
                requires_grad=self.stream_requires_grad,
                accumulating=self._accumulating,
                memory=self.crossing.memory if self.crossing is not None else None,
            )
        self.stream_requires_grad = segment.requires_grad
        if segment.stream_width != self.setting.stream_width:
            self.setting = replace(self.setting, stream_width=segment.stream_width)
        return segment

    def _cross_over(self) -> None:
        decoder = setting_of(self.job)
        self.crossing = cross_over(
            self.setting,
            decoder,
            self.model.outside,
            self.ledger,
            stream_requires_grad=self.stream_requires_grad,
            accumulating=self._accumulating,
        )
        self.setting = decoder
        self.stream_requires_grad = self.crossing.stream.requires_grad

    def _backward(self) -> None:
        """Run all blocks backward, stack by stack."""
        stack = None
        for passage in reversed(self.ledger.passages):
            left = passage.pieces[0].run.layer.stack
            if left is not stack:
                if stack is not None:
                    self.biases.pop().end_backward(self.ledger)
                    if self.crossing is not None:
                        shared, summed = self._shared_table()
                        self.crossing.back(self.ledger, shared=shared, summed=summed)
                stack = left
                self.biases[-1].begin_backward(self.ledger)
            self.passer.backward(passage)
        if self.biases:
            self.biases.pop().end_backward(self.ledger)

    @property
    def _accumulating(self) -> bool:
        """Whether no new parameter gradients stay: they are added into others, or used up where they are made."""
        stays = not (self.resident_gradients or self.job.optimizer.in_backward)
        return not stays and not self.plan.shards_gradients

    def _hold_lingering(self) -> None:
        """Add the 4-bit products' inputs of the micro-batch before, which hang on its loss until that is replaced.

        The longest row sets the peak; the one before it is taken as a common one, but for pretraining's full rows.
        """
        if not self.resident_gradients:
            return
        lingering = sum(layers * piece.segment.lingering for layers, piece in self.ledger.counted())
        if self.job.task is not Task.PRETRAIN:
            common = smallest(self.setting.sequence, COMMON_ROW_TOKENS)
            lingering = ceil_div(lingering * common, self.setting.sequence)
        self.ledger.add_static(Component.ACTIVATIONS, lingering)

    def _head(self) -> None:
        """Run the head and the loss, forward and backward, to the gradient of the last block's output."""
        head = head_segment(
            self.job,
            self.setting,
            self.model.outside,
            requires_grad=self.stream_requires_grad,
            accumulating=self._accumulating,
        )
        self.ledger.note(Phase.FORWARD, "output layer", head.forward)
        self.ledger.note(Phase.LOSS, "forward of the loss", head.loss_forward)
        self.ledger.drop_casts()
        self.ledger.note(Phase.LOSS, "backward of the loss", head.loss_backward)
        self.ledger.note(Phase.BACKWARD, "backward of the output layer", head.backward)
        self.ledger.held[GRADIENT] = self.ledger.held[GRADIENT] + head.gradients
        self.ledger.held[LOGITS] = self.ledger.held[LOGITS] + head.outputs

    def _embed_backward(self, tape: Tape, embedded: Tensor) -> None:
        if not embedded.requires_grad:
            return
        self.ledger.hold(tape.by, -1)
        tape.restart_peak()
        embedded.gradient = tape.new_gradient(embedded.size)
        tape.backward()
        shared, summed = self._shared_table()
        if self.crossing is None:
            tape.spike(summed)
        else:  # added in place to what the decoder's pass has left
            shared = table_gradient(self.model.outside, accumulating=self._accumulating)
        tape.free(shared, GRADIENT)
        self.ledger.note_tape(tape, Phase.BACKWARD, "backward of the embedding")
        whole = self.model.outside_states.gathered
        self.passer.note_flattening("backward of the embedding", tape.by[GRADIENT], whole, 0)

    def _shared_table(self) -> tuple[Bytes, Bytes]:
        """Return the bytes of the table's gradient that a pass adds to another's, and of a sum made beside them."""
        outside = self.model.outside
        gradient = table_gradient(outside, accumulating=self._accumulating)
        if not head_is_tied(self.job, outside, last_stage=self.stage.last):
            return 0, 0
        views = gradients_are_views(self.job, self.setting, outside)
        return gradient, gradient if views else 0

    def _optimizer_step(self) -> None:
        temporary = step_temporaries(self.job, self.model, self.plan)
        self.ledger.held = [0] * CATEGORIES
        self.ledger.set_static(Component.GATHERED_PARAMETERS, 0)
        if self.plan.accumulates_whole:  # the last backward has reduced them
            shared = shared_gradients(self.model, self.plan)
            self.ledger.set_static(Component.GRADIENTS, shared)
        if not self.resident_gradients and not self.job.optimizer.in_backward:
            self.ledger.held[GRADIENT] = resting_gradients(self.job, self.model, self.plan)
        parts: Parts = [0] * CATEGORIES
        parts[TEMPORARY] = temporary
        self.ledger.note(Phase.OPTIMIZER_STEP, "optimizer step", High(bytes=temporary, parts=parts))
