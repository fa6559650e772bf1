"""Model-parallel sizes against the devices, the model and each other."""

import math
from collections.abc import Iterator

from vramgate.costmodel.architecture import AttentionKind, Block, ModelClass
from vramgate.jobs.rules.case import Case, Finding, divisors, divisors_near, multiples_near, nearest
from vramgate.jobs.vocabulary import PipelineSchedule

_SIZES = "parallelism/"


def devices_divide(case: Case) -> Iterator[Finding]:
    """Tensor × pipeline × context must divide the devices; what is left is data parallel."""
    sizes = case.job.parallelism
    product = (
        int(sizes.tensor_parallel_size)
        * sizes.pipeline_parallel_size
        * int(sizes.context_parallel_size)
    )
    devices = int(case.job.hardware.devices)
    if devices % product:
        yield Finding(
            field="hardware/devices",
            code="does_not_divide",
            detail=(
                f"devices {devices} are not divisible by tensor × pipeline × context parallel ="
                f" {sizes.tensor_parallel_size} × {sizes.pipeline_parallel_size} ×"
                f" {sizes.context_parallel_size} = {product}"
            ),
            hint=f"try {multiples_near(product, devices)} devices",
            value=devices,
        )


def pipelined_model(case: Case) -> Iterator[Finding]:
    """Pipelines cut a row of decoder layers; models with two stacks, or that read no text, have other shapes."""
    size = case.job.parallelism.pipeline_parallel_size
    if size > 1 and case.job.architecture.model_class in _NOT_PIPELINED:
        yield Finding(
            field=f"{_SIZES}pipeline_parallel_size",
            code="not_pipelined",
            detail=(
                f"pipeline_parallel_size {size} for {case.model.name}: no framework known here cuts"
                " such a model into pipeline stages"
            ),
            hint="shard it over data-parallel ranks instead (sharding), or split it with tensor_parallel_size",
            value=size,
        )


_NOT_PIPELINED = frozenset(
    {ModelClass.ENCODER_DECODER, ModelClass.IMAGE_CLASSIFIER, ModelClass.OTHER}
)


def tensor_parallel(case: Case) -> Iterator[Finding]:
    """The tensor-parallel size must divide heads and feed-forward, and fit the key-value heads.

    Source: Megatron-LM ``transformer_config.py`` and torch's ColwiseParallel over heads; key-value
    heads fewer than ranks are copied, so one must divide the other. Vocabularies are padded.
    """
    size = int(case.job.parallelism.tensor_parallel_size)
    if size == 1:
        return
    sizes = sorted(_split_sizes(case), key=lambda entry: _ORDER.index(entry[0]))
    undivided = [f"{name} {number}" for name, number in sizes if not _splits(size, name, number)]
    if undivided:
        strict = math.gcd(*(number for name, number in sizes if name != _KEY_VALUE_HEADS))
        fitting = [
            wanted
            for wanted in divisors(strict)
            if all(_splits(wanted, name, number) for name, number in sizes)
        ]
        yield Finding(
            field=f"{_SIZES}tensor_parallel_size",
            code="does_not_divide",
            detail=f"tensor_parallel_size {size} does not divide {' and '.join(undivided)}",
            hint=f"try {nearest(fitting, size)}",
            value=size,
        )


_HEADS, _KEY_VALUE_HEADS = "num_attention_heads", "num_key_value_heads"
_ORDER = (_HEADS, _KEY_VALUE_HEADS, "intermediate_size", "the experts' intermediate_size")


def _splits(size: int, name: str, number: int) -> bool:
    return number % size == 0 or (name == _KEY_VALUE_HEADS and size % number == 0)


def _split_sizes(case: Case) -> set[tuple[str, int]]:
    """Return what tensor parallelism splits, by the names configs use."""
    sizes: set[tuple[str, int]] = set()
    for stack in case.job.architecture.stacks:
        if stack.name not in {"decoder", "encoder"}:
            continue
        for block in stack.blocks:
            sizes |= _block_sizes(block)
    return {(name, number) for name, number in sizes if number > 0}


def _block_sizes(block: Block) -> set[tuple[str, int]]:
    sizes: set[tuple[str, int]] = set()
    attention = block.attention
    if attention is not None and attention.kind in {AttentionKind.SOFTMAX, AttentionKind.LATENT}:
        sizes.add((_HEADS, attention.heads))
        if attention.kind is AttentionKind.SOFTMAX and attention.kv_heads != attention.heads:
            sizes.add((_KEY_VALUE_HEADS, attention.kv_heads))
    if block.feed_forward is not None:
        sizes.add(("intermediate_size", block.feed_forward.intermediate_size))
    if block.experts is not None:
        sizes.add(("the experts' intermediate_size", block.experts.intermediate_size))
    return sizes


def sequence_parallel(case: Case) -> Iterator[Finding]:
    """Sequence parallelism splits the row over the tensor-parallel ranks, evenly."""
    size = int(case.job.parallelism.tensor_parallel_size)
    length = int(case.job.sequence_length)
    if case.job.parallelism.sequence_parallel and length % size:
        yield Finding(
            field="sequence_length",
            code="does_not_divide",
            detail=(
                f"sequence_length {length} is not divisible by tensor_parallel_size {size},"
                " which sequence_parallel splits it over"
            ),
            hint=f"try {multiples_near(size, length)}",
            value=length,
        )


def context_parallel(case: Case) -> Iterator[Finding]:
    """Each context-parallel rank takes two chunks of a row, one from each end.

    Source: Megatron-LM ``arguments.py``: seq-length divisible by 2 × context parallel; torch's
    context_parallel balances likewise.
    """
    size = int(case.job.parallelism.context_parallel_size)
    length = int(case.job.sequence_length)
    if size > 1 and length % (2 * size):
        yield Finding(
            field=f"{_SIZES}context_parallel_size",
            code="does_not_divide",
            detail=(
                f"sequence_length {length} is not divisible by 2 × context_parallel_size ="
                f" {2 * size}"
            ),
            hint=f"try a sequence_length of {multiples_near(2 * size, length)}",
            value=size,
        )


def expert_parallel(case: Case) -> Iterator[Finding]:
    """Experts are dealt out evenly over ranks of one pipeline stage."""
    size = int(case.job.parallelism.expert_parallel_size)
    if size == 1:
        return
    field = f"{_SIZES}expert_parallel_size"
    counts = {
        block.experts.num_experts
        for stack in case.job.architecture.stacks
        for block in stack.blocks
        if block.experts is not None
    }
    if not counts:
        yield Finding(
            field=field,
            code="not_applicable",
            detail=f"expert_parallel_size {size}, but {case.model.name} has no experts",
            hint="leave it out",
            value=size,
        )
    for count in sorted(counts):
        if count % size:
            yield Finding(
                field=field,
                code="does_not_divide",
                detail=f"expert_parallel_size {size} does not divide num_experts {count}",
                hint=f"try {divisors_near(count, size)}",
                value=size,
            )
    stage = int(case.job.hardware.devices) // case.job.parallelism.pipeline_parallel_size
    if stage and stage % size:
        yield Finding(
            field=field,
            code="does_not_divide",
            detail=(
                f"expert_parallel_size {size} does not divide the {stage} devices of a pipeline"
                " stage"
            ),
            hint=f"try {divisors_near(stage, size)}",
            value=size,
        )


def pipeline_parallel(case: Case) -> Iterator[Finding]:
    """Every stage, and every part of an interleaved one, holds a layer at least."""
    sizes = case.job.parallelism
    layers = case.job.architecture.num_hidden_layers
    stages, parts = sizes.pipeline_parallel_size, sizes.virtual_pipeline_stages
    if stages > layers:
        yield Finding(
            field=f"{_SIZES}pipeline_parallel_size",
            code="out_of_range",
            detail=f"pipeline_parallel_size {stages} is more than num_hidden_layers {layers}",
            hint=f"write at most {layers}",
            value=stages,
        )
    elif parts > 1 and stages * parts > layers:
        yield Finding(
            field=f"{_SIZES}virtual_pipeline_stages",
            code="out_of_range",
            detail=(
                f"pipeline_parallel_size {stages} × virtual_pipeline_stages {parts} ="
                f" {stages * parts} is more than num_hidden_layers {layers}"
            ),
            hint=f"try at most {max(1, layers // stages)}",
            value=parts,
        )


_SEVERAL_PARTS = frozenset({PipelineSchedule.INTERLEAVED, PipelineSchedule.ZERO_BUBBLE_V})


def pipeline_schedule(case: Case) -> Iterator[Finding]:
    """A schedule needs the stages and parts it interleaves."""
    sizes = case.job.parallelism
    schedule = PipelineSchedule(sizes.pipeline_schedule)
    stages, parts = sizes.pipeline_parallel_size, sizes.virtual_pipeline_stages
    if parts > 1 and stages == 1:
        yield Finding(
            field=f"{_SIZES}virtual_pipeline_stages",
            code="conflict",
            detail=f"virtual_pipeline_stages {parts} with pipeline_parallel_size 1",
            hint="raise pipeline_parallel_size or leave virtual_pipeline_stages out",
            value=parts,
        )
    elif parts > 1 and schedule not in _SEVERAL_PARTS:
        yield Finding(
            field=f"{_SIZES}pipeline_schedule",
            code="conflict",
            detail=f"pipeline_schedule {schedule.value} runs one part a stage, not {parts}",
            hint='write "interleaved", or leave virtual_pipeline_stages out',
            value=schedule.value,
        )
    elif schedule is PipelineSchedule.INTERLEAVED and parts == 1:
        yield Finding(
            field=f"{_SIZES}virtual_pipeline_stages",
            code="conflict",
            detail="pipeline_schedule interleaved needs several parts a stage",
            hint="write virtual_pipeline_stages 2 or more",
            value=parts,
        )


def paired_stages(case: Case) -> Iterator[Finding]:
    """DualPipe runs from both ends: its stages come in pairs."""
    stages = case.job.parallelism.pipeline_parallel_size
    if case.job.parallelism.pipeline_schedule == PipelineSchedule.DUALPIPE and stages % 2:
        yield Finding(
            field=f"{_SIZES}pipeline_parallel_size",
            code="conflict",
            detail=f"pipeline_schedule dualpipe pairs its stages; {stages} is odd",
            hint=f"try {multiples_near(2, stages)}",
            value=stages,
        )


_TORCH_PIPELINES = frozenset({"torch", "torchtitan"})


def interleaved_micro_batches(case: Case) -> Iterator[Finding]:
    """Interleaved schedules take micro-batches in groups.

    Megatron's groups have as many as stages (``schedules.py``); torch makes as many whole rounds as
    fit (``pipelining/schedules.py``, ``ScheduleInterleaved1F1B``), so fewer than two need not divide.
    """
    sizes = case.job.parallelism
    stages, steps = sizes.pipeline_parallel_size, int(case.job.gradient_accumulation_steps)
    interleaves = sizes.pipeline_schedule == PipelineSchedule.INTERLEAVED
    rounds = max(1, steps // stages)
    is_uneven = steps % rounds if case.framework in _TORCH_PIPELINES else steps % stages
    if interleaves and sizes.virtual_pipeline_stages > 1 and is_uneven:
        yield Finding(
            field="gradient_accumulation_steps",
            code="does_not_divide",
            detail=f"the interleaved schedule runs micro-batches in groups of"
            f" pipeline_parallel_size {stages}, and gradient_accumulation_steps is {steps}",
            hint=f"try {multiples_near(stages, steps)}",
            value=steps,
        )
