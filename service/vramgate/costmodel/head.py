"""The head of a model and its loss, forward and backward, as one segment with four moments."""

from dataclasses import dataclass

from vramgate.costmodel.blocks.decoder import KEEPS_SHARDS
from vramgate.costmodel.blocks.ends import last_hidden, output_weight
from vramgate.costmodel.blocks.loss import (
    REBINDS_UNTIL,
    chunked_loss,
    fused_linear_loss,
    fused_loss,
    one_kernel_loss,
    parallel_loss,
    recomputed_chunks_loss,
    standard_loss,
)
from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.job import Loss, Task, TrainingJob
from vramgate.costmodel.operations import FP32, gather_sequence
from vramgate.costmodel.products import linear
from vramgate.costmodel.segments import High, new_tape
from vramgate.costmodel.tape import GRADIENT, LOGITS, TEMPORARY, Tape, Tensor
from vramgate.costmodel.weights import Weight
from vramgate.units import Bytes

WITHOUT_LOGITS = frozenset({Task.REWARD, Task.EMBEDDING, Task.CLASSIFICATION})
"""Tasks whose head is a handful of numbers a row instead of a vocabulary a token."""
RECOMPUTES_CHUNKS = frozenset({"trl"})
"""Frameworks whose chunked loss makes each chunk's logits again in backward."""
OUTPUT_ROLES = frozenset({"head", "embedding", "pooler"})
"""Modules outside the blocks that can be an output layer: see ``output_weight``."""
KEEPS_OUTPUTS = frozenset({"fsdp_qlora"})
"""Frameworks whose loop holds the model's outputs while backward runs (fsdp_qlora ``train.py``)."""
READS_LOGITS_IN_OWN_FORMAT = frozenset({"composer"})
"""Frameworks whose fused loss is flash-attention's: no fp32 copy (llm-foundry ``fused_crossentropy``)."""
LOSS_PARALLEL = frozenset({"torchtitan"})
"""Frameworks that compute the loss on logits split over the vocabulary (``loss_parallel``)."""
FUSED_LINEAR_SINCE = {"unsloth": (2024, 11)}
"""Frameworks whose loss without whole logits came with a version; before, their fused kernel read whole logits."""
TITAN_COMPILES_LOSS_SINCE = (0, 1)
TORCH_OF_COMPILED_TITAN_LOSS = (2, 8)
RECENT_FORMATS = frozenset({"mxfp8", "nvfp4"})
BLACKWELL = (10, 0)
"""Number formats and cards that came after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSegment:
    """What the head does to memory; the incoming stream belongs to it."""

    forward: High
    loss_forward: High
    loss_backward: High
    backward: High
    gradients: Bytes
    outputs: Bytes
    """Logits that a name of the training loop keeps through backward."""


def head_segment(
    job: TrainingJob,
    setting: Setting,
    outside: dict[str, Weight],
    *,
    requires_grad: bool,
    accumulating: bool,
) -> HeadSegment:
    """Return the segment of the final norm, the output layer and the loss."""
    tape = new_tape(setting)
    tape.accumulating = accumulating
    loss_input = _hidden(tape, job, setting, outside, requires_grad=requires_grad)
    kind = loss_in_use(job)
    weight = output_weight(outside) if has_logits(job, outside) else None
    if weight is not None and makes_logits(job, kind):
        logits = linear(tape, loss_input, weight)
        tape.leave_to_block(loss_input)  # a name of the model's function while the loss is computed
        tape.move(logits, LOGITS)
        loss_input = logits
    operations = len(tape.operations)
    forward = _restart(tape)
    tape.category = LOGITS
    if weight is None:
        loss = _row_loss(tape, loss_input)
        tape.end_block()
    else:
        names = tape.left_to_block.copy()
        tape.left_to_block.clear()
        loss = _token_loss(tape, job, setting, kind, loss_input, weight)
        tape.drop(*names)
    loss_forward = _restart(tape)
    tape.leave_autocast()
    outputs = _kept_output_bytes(job, setting)
    tape.allocate(outputs, LOGITS)
    outputs += sum(tensor.size for tensor in tape.left_to_block)
    tape.restart_peak()
    loss.gradient = tape.new_gradient(loss.size)
    tape.backward(down_to=operations)
    loss_backward = _restart(tape)
    tape.category = TEMPORARY
    tape.backward()
    return HeadSegment(
        forward=forward,
        loss_forward=loss_forward,
        loss_backward=loss_backward,
        backward=_restart(tape),
        gradients=tape.by[GRADIENT],
        outputs=outputs,
    )


def makes_logits(job: TrainingJob, kind: Loss) -> bool:
    """Return whether a loss reads whole logits: not where it makes them in chunks itself."""
    recomputes = kind is Loss.CHUNKED and job.software.framework in RECOMPUTES_CHUNKS
    return kind is not Loss.FUSED_LINEAR and not recomputes


def has_logits(job: TrainingJob, outside: dict[str, Weight]) -> bool:
    """Return whether the loss reads an output a vocabulary (or a set of classes) wide."""
    return job.task not in WITHOUT_LOGITS and not OUTPUT_ROLES.isdisjoint(outside)


def _hidden(
    tape: Tape,
    job: TrainingJob,
    setting: Setting,
    outside: dict[str, Weight],
    *,
    requires_grad: bool,
) -> Tensor:
    """Return the last hidden state on the whole sequence."""
    shard = setting.tokens // setting.sequence_ranks
    stream = tape.new(
        shard * job.architecture.hidden_size, setting.stream_width, requires_grad=requires_grad
    )
    hidden = last_hidden(tape, setting, outside, stream)
    if not job.parallelism.sequence_parallel:
        return hidden
    gathered = gather_sequence(
        tape,
        hidden,
        setting.sequence_ranks,
        keeps_shard=job.software.framework in KEEPS_SHARDS,
    )
    tape.leave_to_block(hidden)
    return gathered


def _restart(tape: Tape) -> High:
    high, parts = tape.restart_peak()
    return High(bytes=high, parts=parts)


def _row_loss(tape: Tape, hidden: Tensor) -> Tensor:
    """Return a loss of a few numbers a row: it keeps the hidden states, whose gradient is made whole."""
    loss = tape.new(1, FP32, requires_grad=hidden.requires_grad)
    if loss.requires_grad:
        tape.save(hidden)
        tape.record_saving(_row_loss_backward, loss, hidden)
    tape.drop(hidden)
    return loss


def _row_loss_backward(tape: Tape, loss: Tensor, hidden: Tensor) -> None:
    tape.release(tape.take(loss))
    made = tape.new_gradient(hidden.size)
    tape.release_saved(hidden)
    tape.give(hidden, made)


def _token_loss(
    tape: Tape, job: TrainingJob, setting: Setting, kind: Loss, logits: Tensor, weight: Weight
) -> Tensor:
    """Return the loss of whole logits, or straight from the hidden states; either is let go."""
    if not makes_logits(job, kind):
        make = fused_linear_loss if kind is Loss.FUSED_LINEAR else recomputed_chunks_loss
        loss = make(tape, setting, logits, weight)
        tape.drop(logits)
        return loss
    if kind is Loss.FUSED:
        if setting.software.framework in READS_LOGITS_IN_OWN_FORMAT:
            return one_kernel_loss(tape, logits)
        return fused_loss(tape, setting, logits)
    if kind is Loss.CHUNKED:
        return chunked_loss(tape, setting, logits, weight)
    if _compiles_loss(job):
        return one_kernel_loss(tape, logits)
    splits_vocabulary = job.parallelism.tensor_parallel_size > 1
    if splits_vocabulary and job.software.framework in LOSS_PARALLEL:
        return parallel_loss(tape, logits)
    return standard_loss(tape, setting, logits)


def loss_in_use(job: TrainingJob) -> Loss:
    """Return the loss that runs: a version that had no fused linear loss ran its fused one."""
    since = FUSED_LINEAR_SINCE.get(job.software.framework)
    if job.loss is not Loss.FUSED_LINEAR or since is None:
        return job.loss
    stated = job.software.stated(job.software.framework)
    return Loss.FUSED if stated is not None and stated < since else job.loss


def _compiles_loss(job: TrainingJob) -> bool:
    """Return whether the compiler sees the loss: where a whole model is compiled; in torchtitan since February 2025.

    Nothing stated: torchtitan's first published runs, which did not (torchtitan d1f62be7).
    """
    if not job.compile or job.software.framework != "torchtitan":
        return job.compile
    titan, torch = job.software.stated("torchtitan"), job.software.stated("torch")
    if titan is not None:
        return titan >= TITAN_COMPILES_LOSS_SINCE
    if torch is not None:
        return torch >= TORCH_OF_COMPILED_TITAN_LOSS
    card = job.hardware.device
    capability = card.compute_capability if card is not None else None
    recent_card = capability is not None and capability >= BLACKWELL
    return recent_card or job.precision.linear in RECENT_FORMATS


def _kept_output_bytes(job: TrainingJob, setting: Setting) -> Bytes:
    """Return the logits a training loop's name keeps through backward: fp32 where the model rebinds them."""
    if job.software.framework not in KEEPS_OUTPUTS or job.loss is not Loss.STANDARD:
        return 0 * setting.tokens
    rebinds = setting.transformers <= REBINDS_UNTIL
    width = FP32 if rebinds else setting.compute_width
    return setting.tokens * job.architecture.vocab_size * width
