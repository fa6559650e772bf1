"""Batch, length, attention, loss and checkpointing against the model and each other."""

from collections.abc import Iterator

from vramgate.costmodel.architecture import Position
from vramgate.costmodel.job import AttentionImplementation, CheckpointMode, Dtype, Loss
from vramgate.jobs.attention_defaults import runs_transformers_code, transformers_attention
from vramgate.jobs.rules.case import Case, Finding
from vramgate.jobs.training import TASKS_WITHOUT_LOGITS
from vramgate.jobs.vocabulary import FusedKernel
from vramgate.units import format_gib

_FLASH = frozenset({AttentionImplementation.FLASH_2, AttentionImplementation.FLASH_3})
INT64 = 2**63
_MARGIN = 512
"""Above the bytes any block keeps a token and unit of width (eager fp32 stays below 128)."""


def flash_in_fp32(case: Case) -> Iterator[Finding]:
    """flash-attn has 16-bit kernels only."""
    if case.job.attention in _FLASH and case.job.precision.compute is Dtype.FP32:
        yield Finding(
            field="attention",
            code="conflict",
            detail=f"{case.job.attention.value} with compute fp32: flash attention has no fp32"
            " kernel",
            hint='write attention sdpa, or the precision "bf16-mixed"',
            value=case.job.attention.value,
        )


def sdpa_exists(case: Case) -> Iterator[Finding]:
    """Transformers refuses ``attn_implementation="sdpa"`` for classes without it."""
    if case.said.attention is not AttentionImplementation.SDPA:
        return
    kind, version = case.job.architecture.model_type, case.job.software.transformers
    if not runs_transformers_code(case.framework):
        return
    if transformers_attention(kind, version) is AttentionImplementation.EAGER:
        if kind == "gemma2" and version < (5, 0):
            return  # eager by default there, but sdpa on request
        yield Finding(
            field="attention",
            code="conflict",
            detail=f"transformers {version[0]}.{version[1]} has no sdpa for {kind}",
            hint="write eager or flash_attention_2",
            value="sdpa",
        )


def learned_positions(case: Case) -> Iterator[Finding]:
    """A row cannot be longer than a table of learned positions."""
    architecture = case.job.architecture
    longest = architecture.max_position_embeddings
    length = int(case.job.sequence_length)
    learned = any(
        block.attention is not None and block.attention.position is Position.LEARNED
        for stack in architecture.stacks
        if stack.name in {"decoder", "encoder"}
        for block in stack.blocks
    )
    if learned and longest and length > longest:
        yield Finding(
            field="sequence_length",
            code="out_of_range",
            detail=f"sequence_length {length} is more than the {longest} positions that"
            f" {case.model.name} has learned",
            hint=f"write at most {longest}",
            value=length,
        )


def checkpointing_fields(case: Case) -> Iterator[Finding]:
    """Parts of a block are chosen in selective mode; without checkpointing nothing is chosen."""
    said, mode = case.said.activation_checkpointing, case.job.checkpointing.mode
    if said.modules and mode is not CheckpointMode.SELECTIVE:
        yield Finding(
            field="activation_checkpointing/modules",
            code="not_applicable",
            detail=f"modules {', '.join(said.modules)[:80]} with mode {mode.value}",
            hint='write mode "selective", or leave modules out',
        )
    if mode is CheckpointMode.NONE and (said.offload or (said.every_n_layers or 1) > 1):
        yield Finding(
            field="activation_checkpointing/mode",
            code="conflict",
            detail="activation_checkpointing.offload or every_n_layers with mode none",
            hint='write mode "full"',
            value=mode.value,
        )
    layers = case.job.architecture.num_hidden_layers
    every = case.job.checkpointing.every_n_layers
    if every > layers:
        yield Finding(
            field="activation_checkpointing/every_n_layers",
            code="out_of_range",
            detail=f"every_n_layers {every} is more than num_hidden_layers {layers}",
            hint=f"write at most {layers}",
            value=every,
        )


def loss_and_kernels(case: Case) -> Iterator[Finding]:
    """A fused cross-entropy kernel is a fused loss, where the task computes one over a vocabulary."""
    if case.job.task in TASKS_WITHOUT_LOGITS:
        return
    names_kernel = FusedKernel.CROSS_ENTROPY in case.job.fused_kernels
    if names_kernel and case.said.loss is Loss.STANDARD and case.said.fused_kernels:
        yield Finding(
            field="loss",
            code="conflict",
            detail="loss standard with the fused kernel cross_entropy",
            hint="write loss fused, or take cross_entropy out of fused_kernels",
            value=case.said.loss.value,
        )


def occupied(case: Case) -> Iterator[Finding]:
    """Others cannot hold more than the card has."""
    device, held = case.job.hardware.device, case.job.hardware.occupied_bytes
    if device is not None and held > device.usable_bytes:
        yield Finding(
            field="hardware/occupied_bytes",
            code="out_of_range",
            detail=f"occupied_bytes are {format_gib(held)}, and {device.name} has"
            f" {format_gib(device.usable_bytes)}",
            hint="write what nvidia-smi shows as used before the job starts, in bytes",
            value=held,
        )


def absurd_sizes(case: Case) -> Iterator[Finding]:
    """No sum of bytes may leave 64 bits; every real job stays a million times below."""
    job, architecture = case.job, case.job.architecture
    tokens = int(job.micro_batch_size) * int(job.sequence_length)
    layers = sum(len(stack.layers) for stack in architecture.stacks) or 1
    width = max((_width(case), architecture.vocab_size, 1))
    heads = max(
        (b.attention.heads for s in architecture.stacks for b in s.blocks if b.attention), default=1
    )
    linear = tokens * width * layers * _MARGIN
    square = tokens * int(job.sequence_length) * heads * layers * 32
    if max(linear, square) >= INT64:
        yield Finding(
            field="micro_batch_size",
            code="absurd_size",
            detail=f"micro_batch_size {job.micro_batch_size} × sequence_length"
            f" {job.sequence_length} over {layers} layers is beyond 64 bits of bytes",
            hint="write sequences per device in one forward pass, and tokens of a sequence",
            value=int(job.micro_batch_size),
        )


def _width(case: Case) -> int:
    """Return the widest stream of a block, in elements a token."""
    architecture = case.job.architecture
    widths = [architecture.hidden_size]
    for stack in architecture.stacks:
        for block in stack.blocks:
            if block.feed_forward is not None:
                widths.append(block.feed_forward.intermediate_size)
            if block.experts is not None:
                widths.append(block.experts.intermediate_size * block.experts.experts_per_token)
    return max(widths)
