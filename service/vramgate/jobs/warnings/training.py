"""What the step itself holds that people forget."""

from collections.abc import Iterator

from vramgate.costmodel.architecture import Position
from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Loss,
    Packing,
)
from vramgate.jobs.method import ADAPTER_KINDS
from vramgate.jobs.optimizer import TORCH_OPTIMIZERS
from vramgate.jobs.rules.case import Case
from vramgate.jobs.training import TASKS_WITHOUT_LOGITS
from vramgate.jobs.vocabulary import OptimizerImplementation
from vramgate.units import format_gib

LONG_SEQUENCE = 4096
"""Eager attention keeps about 6 × heads × length² bytes a layer; from here it outgrows the rest."""
LARGE_VOCABULARY = 100_000
_VARIABLE_LENGTH = frozenset(
    {
        AttentionImplementation.FLASH_2,
        AttentionImplementation.FLASH_3,
        AttentionImplementation.FLEX,
    }
)


def eager_attention(case: Case) -> Iterator[EstimateWarning]:
    """Eager attention keeps whole score matrices."""
    length = int(case.job.sequence_length)
    if case.job.attention is AttentionImplementation.EAGER and length >= LONG_SEQUENCE:
        yield EstimateWarning(
            code="eager_attention",
            message=f"Eager attention at sequence_length {length:,} keeps matrices of length² a head; sdpa or"
            " flash_attention_2 keep none.",
        )


def large_vocabulary(case: Case) -> Iterator[EstimateWarning]:
    """Whole logits of a large vocabulary are often the peak."""
    vocabulary = case.job.architecture.vocab_size
    holds_logits = case.job.loss in {Loss.STANDARD, Loss.FUSED}
    if case.job.task in TASKS_WITHOUT_LOGITS:
        return
    if vocabulary >= LARGE_VOCABULARY and holds_logits:
        tokens = int(case.job.micro_batch_size) * int(case.job.sequence_length)
        share = tokens * vocabulary // int(case.job.parallelism.tensor_parallel_size)
        yield EstimateWarning(
            code="large_vocabulary",
            message=f"A vocabulary of {vocabulary:,} makes {format_gib(4 * share)} of fp32 logits for"
            f" {tokens:,} tokens, held more than once around the loss; loss fused_linear holds none.",
        )


def kbit_upcast(case: Case) -> Iterator[EstimateWarning]:
    """Peft's k-bit preparation doubles what is not quantised."""
    if case.job.method.prepare_for_kbit_training:
        yield EstimateWarning(
            code="kbit_upcast",
            message="prepare_for_kbit_training casts embeddings, head and norms to fp32: twice their 16-bit"
            " bytes, and fp32 hidden states.",
        )


def foreach_temporary(case: Case) -> Iterator[EstimateWarning]:
    """The foreach step makes a copy of what it updates."""
    optimizer = case.job.optimizer
    if (
        case.job.method.kind not in ADAPTER_KINDS
        and optimizer.name in TORCH_OPTIMIZERS
        and optimizer.implementation == OptimizerImplementation.FOREACH
        and not optimizer.in_backward
    ):
        yield EstimateWarning(
            code="foreach_temporary",
            message="The foreach optimizer step holds one more tensor list as large as the weights it"
            ' updates, for a moment; implementation "fused" does not.',
        )


def autocast_cache(case: Case) -> Iterator[EstimateWarning]:
    """Autocast keeps 16-bit copies of fp32 weights through forward and backward."""
    precision = case.job.precision
    if precision.autocast and precision.weights is Dtype.FP32:
        yield EstimateWarning(
            code="autocast_cache",
            message=f"Autocast keeps a {precision.compute.value} copy of every fp32 weight it casts until the"
            " backward pass has used it: up to 2 bytes a parameter beside the 4; checkpointing"
            " bounds it to a block.",
        )


def pure_fp16(case: Case) -> Iterator[EstimateWarning]:
    """fp16 weights without a master copy overflow, and torch's GradScaler refuses them."""
    precision, kind = case.job.precision, case.job.method.kind
    if (
        precision.weights is Dtype.FP16
        and not precision.master_weights
        and kind not in ADAPTER_KINDS
    ):
        yield EstimateWarning(
            code="pure_fp16",
            message="fp16 weights train without an fp32 copy: small updates are lost and torch's GradScaler"
            " refuses fp16 gradients. The usual choices are fp16-mixed and bf16.",
        )


def beyond_trained_length(case: Case) -> Iterator[EstimateWarning]:
    """Rotary models run beyond their positions, but were not trained to."""
    longest = case.job.architecture.max_position_embeddings
    length = int(case.job.sequence_length)
    rotary = any(
        block.attention is not None and block.attention.position is Position.ROTARY
        for block in case.job.architecture.decoder.blocks
    )
    if rotary and longest and length > longest:
        yield EstimateWarning(
            code="beyond_positions",
            message=f"sequence_length {length:,} is beyond the {longest:,} positions of the model's config;"
            " the memory is as estimated, the quality is not.",
        )


def padding_free_attention(case: Case) -> Iterator[EstimateWarning]:
    """Rows joined without padding need an attention that knows their borders."""
    knows_borders = case.job.attention in _VARIABLE_LENGTH
    if case.job.packing is Packing.PADDING_FREE and not knows_borders:
        yield EstimateWarning(
            code="padding_free_needs_flash",
            message=f"padding_free with {case.job.attention.value}: TRL and ms-swift need flash attention;"
            " other code attends across rows or builds a full mask.",
        )


def offloaded_checkpoints(case: Case) -> Iterator[EstimateWarning]:
    """Offloaded checkpoints live in host memory."""
    checkpointing = case.job.checkpointing
    if checkpointing.mode is CheckpointMode.FULL and checkpointing.offload:
        yield EstimateWarning(
            code="offloaded_checkpoints",
            message="Checkpoints are held in pinned host memory: see host_bytes for what a node needs.",
        )
