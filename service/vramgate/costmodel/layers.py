"""One layer of a job as a segment: kept, checkpointed or selected, by intervals, with checkpoints offloaded."""

from dataclasses import replace

from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.job import Checkpointing, CheckpointMode, TrainingJob
from vramgate.costmodel.kinds import Layer
from vramgate.costmodel.segments import (
    High,
    Memory,
    Segment,
    block_segment,
    checkpointed_segment,
)
from vramgate.costmodel.selective import per_op_selection
from vramgate.costmodel.tape import ACTIVATION, CATEGORIES
from vramgate.units import ceil_div


def layer_segment(
    job: TrainingJob,
    setting: Setting,
    layer: Layer,
    *,
    requires_grad: bool,
    accumulating: bool,
    memory: Memory | None,
) -> Segment:
    """Return the segment of one layer, under the job's checkpointing."""
    checkpointing = job.checkpointing
    keeps = per_op_selection(job)
    whole = checkpointing.mode is CheckpointMode.FULL
    if not whole and keeps is None:
        return block_segment(
            setting,
            layer.block,
            layer.weights,
            layer.stack.hidden_size,
            requires_grad=requires_grad,
            accumulating=accumulating,
            memory=memory,
        )
    segment = checkpointed_segment(
        setting,
        layer.block,
        layer.weights,
        layer.stack.hidden_size,
        requires_grad=requires_grad,
        reentrant=checkpointing.reentrant and keeps is None,
        accumulating=accumulating,
        keeps=keeps,
        memory=memory,
    )
    if not whole:
        return segment
    if checkpointing.every_n_layers > 1:
        between = block_segment(
            setting,
            layer.block,
            layer.weights,
            layer.stack.hidden_size,
            requires_grad=True,
            accumulating=accumulating,
            memory=memory,
        )
        segment = _every_few(segment, between, checkpointing.every_n_layers)
    return _offloaded(segment, checkpointing)


def _every_few(segment: Segment, between: Segment, every: int) -> Segment:
    """Keep one input for ``every`` layers; in backward all of them are recomputed and kept at once."""
    others = (every - 1) * between.kept_bytes
    high = segment.backward
    parts = high.parts.copy()
    parts[ACTIVATION] = parts[ACTIVATION] + others
    return replace(
        segment,
        kept=[ceil_div(size, every) for size in segment.kept],
        backward=High(bytes=high.bytes + others, parts=parts),
    )


def _offloaded(segment: Segment, checkpointing: Checkpointing) -> Segment:
    """Move what waits for backward to host memory."""
    if not checkpointing.offload:
        return segment
    return replace(segment, kept=[0] * CATEGORIES, offloaded=segment.kept_bytes)
