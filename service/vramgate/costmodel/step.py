"""A steady training step on one rank, as a sequence of moments: what is alive, by component, at the worst of each.

The segments (embedding, blocks, head) are laid in time: forward in order, loss, backward in reverse, optimizer step.
What every other segment holds at a moment is the base; the segment's own high stands on it.
"""

from dataclasses import dataclass

from vramgate.costmodel.blocks.ends import (
    buffer_bytes,
    embedding,
    input_bytes,
    last_hidden,
    output_weight,
    rotary_table_bytes,
    shared_mask_bytes,
)
from vramgate.costmodel.blocks.loss import fused_linear_loss, fused_loss, standard_loss
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.breakdown import Component, Phase
from vramgate.costmodel.components.optimizer_states import PAGED, step_temporary_bytes
from vramgate.costmodel.job import CheckpointMode, Loss, TrainingJob
from vramgate.costmodel.operations import linear
from vramgate.costmodel.rank_model import LayerRun, RankModel, States, rank_model, weight_states
from vramgate.costmodel.segments import (
    High,
    Parts,
    Segment,
    block_segment,
    checkpointed_segment,
    new_tape,
)
from vramgate.costmodel.tape import (
    ACTIVATION,
    CAST,
    CATEGORIES,
    COMPONENT_OF,
    GRADIENT,
    LOGITS,
    TEMPORARY,
)
from vramgate.units import Bytes

FP32_BYTES = 4
CHECKPOINT_REQUIRES_INPUT_GRADIENT_SINCE = (5, 0)
"""transformers lets the embedding's output require a gradient when checkpointing is switched on, from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One moment of the step."""

    phase: Phase
    label: str
    bytes: Bytes
    components: dict[Component, Bytes]


def setting_of(job: TrainingJob) -> Setting:
    """Return the numbers and words the blocks use, for one micro-batch of a job."""
    precision = job.precision
    stream = precision.weights.bytes
    if job.method.prepare_for_kbit_training:
        stream = FP32_BYTES
    return Setting(
        architecture=job.architecture,
        batch=job.micro_batch_size,
        sequence=job.sequence_length,
        tokens=job.micro_batch_size * job.sequence_length,
        stream_width=stream,
        table_width=stream,
        compute_width=precision.compute.bytes,
        autocast=precision.autocast,
        attention=job.attention,
        packing=job.packing,
        fused_kernels=job.fused_kernels,
        software=job.software,
    )


class Step:
    """Walks through one step and collects its moments."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self.setting = setting_of(job)
        self.model: RankModel = rank_model(job)
        self.moments: list[Moment] = []
        self.static: dict[Component, Bytes] = {}
        self.held: Parts = [0] * CATEGORIES
        """What the segments passed so far keep, by tape category."""
        self.segments: list[tuple[LayerRun, Segment]] = []
        self.states: list[States] = []

    # -- what is always there -------------------------------------------------------------------------------------

    def _lay_static(self) -> None:
        weights = optimizer = master = gradients = 0
        for count, states in self._all_states():
            weights += count * states.weights
            optimizer += count * states.optimizer
            master += count * states.master
            gradients += count * states.gradients
        self.gradient_bytes = gradients
        buffers = buffer_bytes(self.setting)
        self.static = {
            Component.WEIGHTS: weights + buffers,
            Component.OPTIMIZER_STATES: 0 if self.job.optimizer.name in PAGED else optimizer,
            Component.MASTER_WEIGHTS: master,
            Component.ACTIVATIONS: input_bytes(self.setting),
        }

    def _all_states(self) -> list[tuple[int, States]]:
        found = [(run.count, weight_states(run.weights, self.job)) for run in self.model.runs]
        found.append((1, weight_states(self.model.outside, self.job)))
        return found

    def _note(self, phase: Phase, label: str, high: High) -> None:
        components = dict(self.static)
        for index in range(CATEGORIES):
            size = self.held[index] + high.parts[index]
            component = COMPONENT_OF[index]
            components[component] = components.get(component, 0) + size
        total = sum(self.static.values()) + sum(self.held) + high.bytes
        self.moments.append(Moment(phase=phase, label=label, bytes=total, components=components))

    # -- the walk -------------------------------------------------------------------------------------------------

    def run(self) -> list[Moment]:
        """Return the moments of the step."""
        self._lay_static()
        self._embed()
        for run in self.model.runs:
            self._forward_run(run)
        self._finish_forward()
        for run, segment in reversed(self.segments):
            self._backward_run(run, segment)
        self._embed_backward()
        self._optimizer_step()
        return self.moments

    def _embed(self) -> None:
        setting = self.setting
        self.held[ACTIVATION] += rotary_table_bytes(setting) + shared_mask_bytes(setting)
        checkpointing = self.job.checkpointing
        hooked = checkpointing.mode is CheckpointMode.FULL and (
            checkpointing.reentrant
            or setting.transformers >= CHECKPOINT_REQUIRES_INPUT_GRADIENT_SINCE
        )
        tape = new_tape(setting)
        stream = embedding(tape, setting, self.model.outside, input_requires_grad=hooked)
        self._note(Phase.FORWARD, "embedding", High(bytes=tape.peak, parts=tape.peak_by))
        self.stream_requires_grad = stream.requires_grad
        tape.drop(stream)
        self._hold(tape.by)
        self.embedding_tape = tape
        self.embedded = stream

    def _hold(self, parts: Parts) -> None:
        for index, size in enumerate(parts):
            self.held[index] += size

    def _let_go(self, parts: Parts) -> None:
        for index, size in enumerate(parts):
            self.held[index] -= size

    def _forward_run(self, run: LayerRun) -> None:
        trains_below = self.stream_requires_grad
        pieces = [(run.count, self._segment(run))]
        if not trains_below and self.stream_requires_grad and run.count > 1:
            # The first block with a trainable weight gets no gradient for its input; those after it do.
            pieces = [(1, pieces[0][1]), (run.count - 1, self._segment(run))]
        for count, segment in pieces:
            for index in range(CATEGORIES):
                self.held[index] += (count - 1) * segment.kept[index]
            self.held[CAST] += (count - 1) * segment.casts_until_forward_ends
            self._note(Phase.FORWARD, "a block", segment.forward)
            self._hold(segment.kept)
            self.held[CAST] += segment.casts_until_forward_ends
            self.segments.append(
                (
                    LayerRun(
                        stack=run.stack, block=run.block, weights=run.weights, count=count
                    ),
                    segment,
                )
            )

    def _segment(self, run: LayerRun) -> Segment:
        checkpointing = self.job.checkpointing
        hidden = run.stack.hidden_size
        if checkpointing.mode is CheckpointMode.FULL:
            segment = checkpointed_segment(
                self.setting,
                run.block,
                run.weights,
                hidden,
                requires_grad=self.stream_requires_grad,
                reentrant=checkpointing.reentrant,
            )
        else:
            segment = block_segment(
                self.setting,
                run.block,
                run.weights,
                hidden,
                requires_grad=self.stream_requires_grad,
            )
        self.stream_requires_grad = segment.requires_grad
        return segment

    def _finish_forward(self) -> None:
        """Run the head and the loss, forward and backward, to the gradient of the last block's output."""
        setting = self.setting
        tape = new_tape(setting)
        elements = setting.tokens * self.job.architecture.hidden_size
        stream = tape.new(
            elements, setting.stream_width, requires_grad=self.stream_requires_grad
        )
        hidden = last_hidden(tape, setting, self.model.outside, stream)
        weight = output_weight(self.model.outside)
        logits = None
        if self.job.loss is not Loss.FUSED_LINEAR:
            logits = linear(tape, hidden, weight)
            tape.drop(hidden)
            tape.move(logits, LOGITS)
        head_operations = len(tape.operations)
        high, parts = tape.restart_peak()
        self._note(Phase.FORWARD, "output layer", High(bytes=high, parts=parts))
        tape.category = LOGITS
        if logits is None:
            loss = fused_linear_loss(tape, setting, hidden, weight)
            tape.drop(hidden)
        else:
            loss = (fused_loss if self.job.loss is Loss.FUSED else standard_loss)(
                tape, setting, logits
            )
        high, parts = tape.restart_peak()
        self._note(Phase.LOSS, "forward of the loss", High(bytes=high, parts=parts))
        tape.leave_autocast()
        self._drop_casts()
        tape.restart_peak()
        loss.gradient = tape.new_gradient(loss.size)
        tape.backward(down_to=head_operations)
        high, parts = tape.restart_peak()
        self._note(Phase.LOSS, "backward of the loss", High(bytes=high, parts=parts))
        tape.category = TEMPORARY
        tape.backward()
        self._note(
            Phase.BACKWARD, "backward of the output layer", High(bytes=tape.peak, parts=tape.peak_by)
        )
        self.held[GRADIENT] += tape.by[GRADIENT]

    def _drop_casts(self) -> None:
        for run, segment in self.segments:
            self.held[CAST] -= run.count * segment.casts_until_forward_ends

    def _backward_run(self, run: LayerRun, segment: Segment) -> None:
        if not segment.requires_grad:
            for index in range(CATEGORIES):
                self.held[index] -= run.count * segment.kept[index]
            return
        self._let_go(segment.kept)
        self._note(Phase.BACKWARD, "backward of the last block of a run", segment.backward)
        if run.count > 1:
            for index in range(CATEGORIES):
                self.held[index] -= (run.count - 1) * segment.kept[index]
            self.held[GRADIENT] += (run.count - 1) * segment.gradients
            self._note(Phase.BACKWARD, "backward of the first block of a run", segment.backward)
        self.held[GRADIENT] += segment.gradients

    def _embed_backward(self) -> None:
        tape = self.embedding_tape
        if not self.embedded.requires_grad:
            return
        tape.peak, tape.peak_by = tape.live, tape.by.copy()
        self._let_go(tape.by)
        self.embedded.gradient = tape.new_gradient(self.embedded.size)
        tape.backward()
        tied = self.model.outside["embedding"]
        if self.job.architecture.tie_word_embeddings and tied.trainable:
            size = tied.elements * tied.width
            if self._head_gradient_is_view(tied.width):
                tape.allocate(size)  # both gradients are views: their sum is made beside them
                tape.free(size)
            tape.free(size, GRADIENT)
        self._note(
            Phase.BACKWARD, "backward of the embedding", High(bytes=tape.peak, parts=tape.peak_by)
        )
        self.held = [0] * CATEGORIES

    def _head_gradient_is_view(self, width: int) -> bool:
        """Return whether the tied head's gradient comes straight from a product, which the engine will not add to."""
        if self.job.loss is Loss.FUSED_LINEAR:
            return False
        setting = self.setting
        return width == (setting.compute_width if setting.autocast else setting.stream_width)

    def _optimizer_step(self) -> None:
        one_state = sum(count * states.one_state for count, states in self._all_states())
        largest_state = max(states.largest_state for _, states in self._all_states())
        temporary = step_temporary_bytes(
            self.job.optimizer, all_states_bytes=one_state, largest_bytes=largest_state
        )
        self.held = [0] * CATEGORIES
        self.held[GRADIENT] = self.gradient_bytes
        parts = [0] * CATEGORIES
        parts[TEMPORARY] = temporary
        self._note(Phase.OPTIMIZER_STEP, "optimizer step", High(bytes=temporary, parts=parts))
