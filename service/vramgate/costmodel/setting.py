"""From a job to the Setting its blocks run in: token counts and the bytes of an element of each kind of tensor."""

from vramgate.costmodel.blocks.setting import Setting
from vramgate.costmodel.job import CheckpointMode, ShardingImplementation, Task, TrainingJob
from vramgate.costmodel.parallelism import expert_tensor_ranks
from vramgate.costmodel.weights import is_mixed_sharding, trainable_widths
from vramgate.units import Count, ceil_div

FP32_BYTES = 4
PAIRS = frozenset({Task.DPO, Task.SIMPO, Task.ORPO, Task.KTO, Task.REWARD})
"""Tasks whose micro-batch counts pairs: chosen and rejected rows run together (TRL ``concatenated_forward``)."""


def setting_of(job: TrainingJob) -> Setting:
    """Return the numbers and words the blocks use, for one micro-batch of a job on one rank."""
    precision = job.precision
    stream = precision.weights.bytes
    if is_mixed_sharding(job):
        stream = trainable_widths(job).width
    elif job.method.prepare_for_kbit_training:
        stream = FP32_BYTES
    rows = job.micro_batch_size * (2 if job.task in PAIRS else 1)
    length = _row_tokens(job)
    sequence = ceil_div(length, job.parallelism.context_parallel_size)
    return Setting(
        architecture=job.architecture,
        batch=rows,
        sequence=sequence,
        tokens=rows * sequence,
        stream_width=stream,
        table_width=stream,
        compute_width=precision.compute.bytes,
        autocast=precision.autocast,
        attention=job.attention,
        packing=job.packing,
        fused_kernels=_kernels_in_use(job),
        software=job.software,
        recomputes=_recomputed_parts(job),
        whole_experts=expert_tensor_ranks(job) == 1,
        context_ranks=job.parallelism.context_parallel_size,
        sequence_ranks=job.parallelism.tensor_parallel_size
        if job.parallelism.sequence_parallel
        else 1,
    )


def _recomputed_parts(job: TrainingJob) -> frozenset[str]:
    """Return the parts that are named, or Megatron's default, the attention core."""
    if job.checkpointing.mode is not CheckpointMode.SELECTIVE:
        return frozenset()
    megatron = job.sharding.implementation is ShardingImplementation.MEGATRON
    return frozenset(job.checkpointing.modules) or frozenset({"core_attn"} if megatron else ())


def _row_tokens(job: TrainingJob) -> Count:
    """Return the tokens of a row: the sequence length, or an image's patches where the model reads images alone."""
    tokens = job.architecture.image_tokens
    if job.architecture.decoder.name == "vision" and tokens is not None:
        return tokens
    return job.sequence_length


FUSED_LORA_SET = frozenset({"cross_entropy", "rms_norm", "rope"})
"""The set of fms-acceleration (FOAK) and Unsloth; Liger's replaces the loss by its fused linear one instead."""
COMPILED = frozenset({"rms_norm", "swiglu"})
MLP_NAMES = frozenset({"gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"})


def _kernels_in_use(job: TrainingJob) -> frozenset[str]:
    """Return the fused kernels that do something.

    The SwiGLU kernel of the fused-LoRA sets is part of their adapter code: without adapters on the MLP it never runs
    (fms-acceleration ``fused_ops``; its measured slopes with and without the entry are equal).
    """
    kernels = job.fused_kernels
    if job.compile:  # the compiler recomputes norms and activations from their inputs
        kernels = kernels | COMPILED
    if not (kernels >= FUSED_LORA_SET and "swiglu" in kernels):
        return kernels
    targets = job.method.target_modules
    adapts_mlp = targets == "all-linear" or not MLP_NAMES.isdisjoint(targets)
    return kernels if adapts_mlp else kernels - {"swiglu"}
