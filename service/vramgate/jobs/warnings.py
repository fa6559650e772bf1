"""What is known to mislead about a job that runs: said with the answer, refusing nothing.

The cost model adds what needs its numbers; here stands what the fields alone tell.
"""

from collections.abc import Callable, Iterator

from vramgate.costmodel.architecture import Position
from vramgate.costmodel.breakdown import EstimateWarning
from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Loss,
    MethodKind,
    Packing,
    ShardingImplementation,
)
from vramgate.jobs.ledger import Ledger
from vramgate.jobs.lora_targets import is_named
from vramgate.jobs.method import ADAPTER_KINDS
from vramgate.jobs.number_formats import HALVES
from vramgate.jobs.optimizer import TORCH_OPTIMIZERS
from vramgate.jobs.rules.case import Case
from vramgate.jobs.sharding import FSDP
from vramgate.jobs.vocabulary import LinearFormat, OptimizerImplementation, Wrap
from vramgate.units import format_gib

LONG_SEQUENCE = 4096
"""Eager attention keeps about 6 × heads × length² bytes a layer; from here it outgrows the rest."""
LARGE_VOCABULARY = 100_000
_FLASH = frozenset({AttentionImplementation.FLASH_2, AttentionImplementation.FLASH_3})
_AMPERE = (8, 0)
_ADA = (8, 9)
_HOPPER = (9, 0)
_BLACKWELL = (10, 0)


def warn_about(case: Case, ledger: Ledger) -> None:
    """Add to the ledger what is known to mislead about a job."""
    for warning in _WARNINGS:
        ledger.warnings.extend(warning(case))


def _warning(code: str, message: str) -> EstimateWarning:
    return EstimateWarning(code=code, message=message)


def card_without_bf16(case: Case) -> Iterator[EstimateWarning]:
    """V100 and T4 have no bf16; every Ampere card has, GeForce included."""
    device, precision = case.job.hardware.device, case.job.precision
    if device is None or device.bf16_native:
        return
    if Dtype.BF16 in {precision.weights, precision.compute}:
        yield _warning(
            "no_bf16",
            f"{device.name} has no bf16: torch emulates it, slowly, and trainers refuse it. Write"
            ' fp16 instead ("fp16-mixed"); the bytes are the same.',
        )


def card_without_format(case: Case) -> Iterator[EstimateWarning]:
    """fp8 needs Ada or Hopper, block-scaled formats need Blackwell."""
    device, linear = case.job.hardware.device, case.job.precision.linear
    if device is None or device.compute_capability is None or linear is None:
        return
    scaled = linear in {LinearFormat.MXFP8, LinearFormat.NVFP4}
    needed = _BLACKWELL if scaled else _AMPERE if linear == LinearFormat.INT8 else _ADA
    if device.compute_capability < needed:
        yield _warning(
            "no_low_precision",
            f"{device.name} (compute capability {device.compute_capability[0]}."
            f"{device.compute_capability[1]}) has no {linear} products; they need"
            f" {needed[0]}.{needed[1]}.",
        )


def flash_attention_card(case: Case) -> Iterator[EstimateWarning]:
    """FlashAttention-2 needs Ampere, FlashAttention-3 Hopper (flash-attn README)."""
    device, attention = case.job.hardware.device, case.job.attention
    if device is None or device.compute_capability is None or attention not in _FLASH:
        return
    needed = _HOPPER if attention is AttentionImplementation.FLASH_3 else _AMPERE
    if device.compute_capability < needed and case.said.attention is not None:
        yield _warning(
            "no_flash_attention",
            f"{attention.value} does not run on {device.name}; write attention sdpa, which takes a"
            " memory-efficient kernel there.",
        )


def eager_attention(case: Case) -> Iterator[EstimateWarning]:
    """Eager attention keeps whole score matrices."""
    length = int(case.job.sequence_length)
    if case.job.attention is AttentionImplementation.EAGER and length >= LONG_SEQUENCE:
        yield _warning(
            "eager_attention",
            f"Eager attention at sequence_length {length:,} keeps matrices of length² a head; sdpa or"
            " flash_attention_2 keep none.",
        )


def large_vocabulary(case: Case) -> Iterator[EstimateWarning]:
    """Whole logits of a large vocabulary are often the peak."""
    vocabulary = case.job.architecture.vocab_size
    if vocabulary >= LARGE_VOCABULARY and case.job.loss in {Loss.STANDARD, Loss.FUSED}:
        tokens = int(case.job.micro_batch_size) * int(case.job.sequence_length)
        share = tokens * vocabulary // int(case.job.parallelism.tensor_parallel_size)
        yield _warning(
            "large_vocabulary",
            f"A vocabulary of {vocabulary:,} makes {format_gib(4 * share)} of fp32 logits for"
            f" {tokens:,} tokens, held more than once around the loss; loss fused_linear holds none.",
        )


def kbit_upcast(case: Case) -> Iterator[EstimateWarning]:
    """Peft's k-bit preparation doubles what is not quantised."""
    if case.job.method.prepare_for_kbit_training:
        yield _warning(
            "kbit_upcast",
            "prepare_for_kbit_training casts embeddings, head and norms to fp32: twice their 16-bit"
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
        yield _warning(
            "foreach_temporary",
            "The foreach optimizer step holds one more tensor list as large as the weights it"
            ' updates, for a moment; implementation "fused" does not.',
        )


def autocast_cache(case: Case) -> Iterator[EstimateWarning]:
    """Autocast keeps 16-bit copies of fp32 weights through forward and backward."""
    precision = case.job.precision
    if precision.autocast and precision.weights is Dtype.FP32:
        yield _warning(
            "autocast_cache",
            f"Autocast keeps a {precision.compute.value} copy of every fp32 weight it casts until the"
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
        yield _warning(
            "pure_fp16",
            "fp16 weights train without an fp32 copy: small updates are lost and torch's GradScaler"
            " refuses fp16 gradients. The usual choices are fp16-mixed and bf16.",
        )


def fsdp_alone(case: Case) -> Iterator[EstimateWarning]:
    """One rank has nobody to share with."""
    sharding = case.job.sharding
    if sharding.zero_stage and case.data_parallel_size == 1:
        yield _warning(
            "one_rank_shards_nothing",
            f"{sharding.implementation.value} stage {sharding.zero_stage} on one data-parallel rank"
            " shards nothing.",
        )


def unwrapped_fsdp(case: Case) -> Iterator[EstimateWarning]:
    """Without an auto-wrap policy the whole model is one unit."""
    sharding = case.job.sharding
    if sharding.implementation in FSDP and sharding.wrap == Wrap.NONE:
        yield _warning(
            "whole_model_gathered",
            "Without wrapping, FSDP gathers the whole model at once; wrap each block.",
        )


def unsynchronised_fsdp(case: Case) -> Iterator[EstimateWarning]:
    """Accumulating without synchronisation keeps whole gradients."""
    sharding, steps = case.job.sharding, int(case.job.gradient_accumulation_steps)
    if sharding.implementation in FSDP and steps > 1 and not sharding.sync_each_micro_batch:
        yield _warning(
            "whole_gradients_kept",
            f"While {steps} micro-batches accumulate without synchronisation, every rank holds whole"
            " gradients, not its shard; sync_each_micro_batch (accelerate: sync_each_batch) avoids it.",
        )


def accelerate_upcast(case: Case) -> Iterator[EstimateWarning]:
    """Accelerate casts trainable 16-bit parameters to fp32 before FSDP shards them.

    Source: accelerate ``accelerator.py`` and ``utils/fsdp_utils.py``, with mixed precision on.
    """
    precision = case.job.precision
    if (
        case.job.sharding.implementation in FSDP
        and case.framework
        in {"transformers", "accelerate", "trl", "llama_factory", "axolotl", "ms-swift"}
        and precision.autocast
        and precision.weights in HALVES
        and case.job.method.kind is MethodKind.FULL
    ):
        yield _warning(
            "fsdp_upcast",
            "With mixed precision on, accelerate casts trainable 16-bit weights to fp32 before FSDP"
            " shards them: 4 + 4 + 8 bytes a parameter, and 4 more in a foreach step.",
        )


def few_micro_batches(case: Case) -> Iterator[EstimateWarning]:
    """A pipeline with fewer micro-batches than stages is mostly idle."""
    stages = case.job.parallelism.pipeline_parallel_size
    steps = int(case.job.gradient_accumulation_steps)
    if stages > 1 and steps < stages:
        yield _warning(
            "few_micro_batches",
            f"{steps} micro-batches in a pipeline of {stages} stages: with fewer than {stages} the"
            " stages idle and hold less than a full pipeline would.",
        )


def uneven_stages(case: Case) -> Iterator[EstimateWarning]:
    """Layers that the stages do not divide make one stage larger."""
    sizes = case.job.parallelism
    parts = sizes.pipeline_parallel_size * sizes.virtual_pipeline_stages
    layers = case.job.architecture.num_hidden_layers
    if layers % parts:
        yield _warning(
            "uneven_stages",
            f"{layers} layers over {parts} pipeline parts are uneven; the largest was taken, and"
            " Megatron-LM asks for a layout.",
        )


def copied_heads(case: Case) -> Iterator[EstimateWarning]:
    """More tensor-parallel ranks than key-value heads hold copies."""
    size = int(case.job.parallelism.tensor_parallel_size)
    heads = [
        block.attention.kv_heads
        for block in case.job.architecture.decoder.blocks
        if block.attention
    ]
    if heads and size > min(heads) > 0:
        yield _warning(
            "copied_key_value_heads",
            f"tensor_parallel_size {size} exceeds {min(heads)} key-value heads: each is held by"
            " several ranks.",
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
        yield _warning(
            "beyond_positions",
            f"sequence_length {length:,} is beyond the {longest:,} positions of the model's config;"
            " the memory is as estimated, the quality is not.",
        )


def padding_free_attention(case: Case) -> Iterator[EstimateWarning]:
    """Rows joined without padding need an attention that knows their borders."""
    varlen = _FLASH | {AttentionImplementation.FLEX}
    if case.job.packing is Packing.PADDING_FREE and case.job.attention not in varlen:
        yield _warning(
            "padding_free_needs_flash",
            f"padding_free with {case.job.attention.value}: TRL and ms-swift need flash attention;"
            " other code attends across rows or builds a full mask.",
        )


def unmatched_targets(case: Case) -> Iterator[EstimateWarning]:
    """Names in target_modules that match nothing are passed over by peft, silently."""
    targets = case.job.method.target_modules
    if case.job.method.kind not in ADAPTER_KINDS or isinstance(targets, str):
        return
    paths = {module.path for module in case.job.architecture.outside} | {
        module.path
        for stack in case.job.architecture.stacks
        for block in stack.blocks
        for module in block.modules
    }
    idle = [name for name in targets if not any(is_named(path, (name,)) for path in paths)]
    if idle:
        yield _warning(
            "unmatched_targets",
            f"target_modules {', '.join(idle)[:200]} match nothing in {case.model.name}; peft passes"
            " over them.",
        )


def foreign_weight_format(case: Case) -> Iterator[EstimateWarning]:
    """Names such as -GGUF speak of files no trainer loads as they are."""
    words = case.model.weight_format
    if words and case.model.quantization is None:
        yield _warning(
            "weight_format",
            f"The name speaks of weights in {words}; they train as the base model's do, in"
            " precision.weights.",
        )


def offloaded_checkpoints(case: Case) -> Iterator[EstimateWarning]:
    """Offloaded checkpoints live in host memory."""
    checkpointing = case.job.checkpointing
    if checkpointing.mode is CheckpointMode.FULL and checkpointing.offload:
        yield _warning(
            "offloaded_checkpoints",
            "Checkpoints are held in pinned host memory: see host_bytes for what a node needs.",
        )


def ddp_on_one(case: Case) -> Iterator[EstimateWarning]:
    """DDP wraps even a single rank, buckets and all."""
    if (
        case.job.sharding.implementation is ShardingImplementation.DDP
        and case.data_parallel_size == 1
    ):
        yield _warning(
            "one_rank_ddp", "DDP on one rank keeps its gradient buckets and synchronises nothing."
        )


_WARNINGS: tuple[Callable[[Case], Iterator[EstimateWarning]], ...] = (
    card_without_bf16,
    card_without_format,
    flash_attention_card,
    eager_attention,
    large_vocabulary,
    kbit_upcast,
    foreach_temporary,
    autocast_cache,
    pure_fp16,
    fsdp_alone,
    unwrapped_fsdp,
    unsynchronised_fsdp,
    accelerate_upcast,
    few_micro_batches,
    uneven_stages,
    copied_heads,
    beyond_trained_length,
    padding_free_attention,
    unmatched_targets,
    foreign_weight_format,
    offloaded_checkpoints,
    ddp_on_one,
)
