"""Batch, length, packing, attention, loss, checkpointing and model-parallel sizes."""

from vramgate.costmodel.job import (
    AttentionImplementation,
    Checkpointing,
    CheckpointMode,
    Dtype,
    Loss,
    MethodKind,
    Packing,
    Parallelism,
    Sharding,
    ShardingImplementation,
    Task,
)
from vramgate.jobs.attention_defaults import transformers_attention
from vramgate.jobs.ledger import Default, off, on
from vramgate.jobs.number_formats import HALVES
from vramgate.jobs.setting import Setting
from vramgate.jobs.sharding import FULL_SHARD
from vramgate.jobs.vocabulary import PipelineSchedule

USUAL_SEQUENCE = 2048
TASKS_WITHOUT_LOGITS = frozenset({Task.REWARD, Task.EMBEDDING, Task.CLASSIFICATION})
_NEEDS_HALF = frozenset({AttentionImplementation.FLASH_2, AttentionImplementation.FLASH_3})


def find_parallelism(setting: Setting) -> Parallelism:
    """Return the model-parallel sizes; what is not said is 1 or off."""
    said = setting.said.parallelism
    stages = said.virtual_pipeline_stages or 1
    schedule = said.pipeline_schedule
    if schedule is None:
        schedule = PipelineSchedule.ONE_FORWARD_ONE_BACKWARD
        if stages > 1:
            schedule = setting.ledger.take(
                "parallelism.pipeline_schedule",
                Default(PipelineSchedule.INTERLEAVED, "virtual pipeline stages interleave"),
            )
        elif (said.pipeline_parallel_size or 1) > 1:
            setting.ledger.note("parallelism.pipeline_schedule", schedule, "Megatron-LM default")
    tensor = said.tensor_parallel_size or 1
    sequence = said.sequence_parallel
    if sequence is None:
        sequence = False
        if tensor > 1:
            sequence = setting.ledger.take(
                "parallelism.sequence_parallel", setting.defaults.sharding.sequence_parallel
            )
    return Parallelism(
        tensor_parallel_size=tensor,
        pipeline_parallel_size=said.pipeline_parallel_size or 1,
        context_parallel_size=said.context_parallel_size or 1,
        expert_parallel_size=said.expert_parallel_size or 1,
        sequence_parallel=sequence,
        pipeline_schedule=schedule,
        virtual_pipeline_stages=stages,
    )


def find_sequence_length(setting: Setting) -> int:
    """Return the tokens of a row; without a framework default, 2048 or what the model can read."""
    said = setting.said.sequence_length
    if said is not None:
        return said
    longest = setting.model.architecture.max_position_embeddings or 0
    default = setting.defaults.batch.sequence_length
    if default is None:
        if setting.defaults.batch.sequence_is_models and longest > 0:
            return setting.ledger.take(
                "sequence_length", Default(longest, f"{setting.framework}: the model's longest")
            )
        default = Default(USUAL_SEQUENCE, f"vramgate: {setting.framework} has no default")
    if 0 < longest < default.value:
        default = Default(longest, f"{default.source}; the model's longest")
    return setting.ledger.take("sequence_length", default)


def find_accumulation(
    setting: Setting, *, micro_batch_size: int, data_parallel_size: int, stages: int
) -> int:
    """Return the micro-batches of a step: as said, or what fills global batch or pipeline."""
    said = setting.said.gradient_accumulation_steps
    if said is not None:
        return said
    default = setting.defaults.batch.accumulation
    if stages > 1:
        # Framework defaults of 1 leave a pipeline idle; nobody runs it so.
        default = Default(stages, "vramgate: as many micro-batches as stages")
    whole = setting.defaults.batch.global_batch_size
    if whole is not None and stages == 1:
        steps = -(-whole.value // (micro_batch_size * data_parallel_size))
        default = Default(steps, whole.source)
    return setting.ledger.take("gradient_accumulation_steps", default)


def find_packing(setting: Setting, task: Task, micro_batch_size: int) -> Packing:
    """Return whether rows are full. A single row is never padded."""
    said = setting.said.packing
    if said is not None:
        return said
    if micro_batch_size == 1 and setting.defaults.batch.packing.value is Packing.PADDED:
        default = Default(Packing.PACKED, "a micro-batch of one row has no padding")
    elif task is Task.PRETRAIN:
        default = Default(Packing.PACKED, "pretraining fills its rows")
    else:
        default = setting.defaults.batch.packing
    return setting.ledger.take("packing", default)


def find_checkpointing(setting: Setting, kind: MethodKind, sharding: Sharding) -> Checkpointing:
    """Return activation checkpointing complete."""
    said, ledger, defaults = (
        setting.said.activation_checkpointing,
        setting.ledger,
        setting.defaults.checkpointing,
    )
    mode = said.mode
    if mode is None:
        wanted = said.every_n_layers or said.offload or said.modules
        mode = ledger.take(
            "activation_checkpointing.mode",
            Default(
                CheckpointMode.SELECTIVE if said.modules else CheckpointMode.FULL,
                "activation_checkpointing was given without a mode",
            )
            if wanted
            else defaults.mode,
        )
    if mode is CheckpointMode.NONE:
        return Checkpointing()
    reentrant = said.reentrant
    if reentrant is None:
        reentrant = ledger.take(
            "activation_checkpointing.reentrant", _reentrant(setting, mode, kind, sharding)
        )
    offload = said.offload
    if offload is None and mode is CheckpointMode.FULL and defaults.offload.value:
        offload = ledger.take("activation_checkpointing.offload", defaults.offload)
    return Checkpointing(
        mode=mode,
        every_n_layers=said.every_n_layers or 1,
        offload=offload or False,
        reentrant=reentrant,
        modules=said.modules or (),
    )


def _reentrant(
    setting: Setting, mode: CheckpointMode, kind: MethodKind, sharding: Sharding
) -> Default[bool]:
    """Return whether checkpointing is reentrant, which some trainers let sharding decide.

    Sources: ms-swift ``trainers/mixin.py`` ``_fix_gradient_checkpointing``; TRL
    ``trainer/sft_trainer.py``: PEFT with ZeRO-3 forces it (TRL issue 2514).
    """
    if mode is CheckpointMode.SELECTIVE:
        return off("torch: selective checkpointing is non-reentrant")
    implementation = sharding.implementation
    if setting.framework == "ms-swift" and implementation is ShardingImplementation.DDP:
        return off("ms-swift default under DDP")
    zero_3 = (
        implementation is ShardingImplementation.DEEPSPEED and sharding.zero_stage == FULL_SHARD
    )
    if setting.framework == "trl" and zero_3 and kind in {MethodKind.LORA, MethodKind.QLORA}:
        return on("TRL: adapters under ZeRO-3 need it")
    return setting.defaults.checkpointing.reentrant


def find_attention(setting: Setting, compute: Dtype) -> AttentionImplementation:
    """Return the attention code; flash attention reads 16-bit tensors only."""
    said = setting.said.attention
    if said is not None:
        return said
    default = setting.defaults.kernels.attention
    if default is None:
        version = setting.stack.transformers
        chosen = transformers_attention(setting.model.architecture.model_type, version)
        default = Default(chosen, "transformers default")
    if default.value in _NEEDS_HALF and compute not in HALVES:
        default = Default(AttentionImplementation.SDPA, "flash attention has no fp32 kernel")
    return setting.ledger.take("attention", default)


def find_loss(setting: Setting, task: Task) -> Loss:
    """Return how the loss is computed."""
    said = setting.said.loss
    if said is not None:
        return said
    if task in TASKS_WITHOUT_LOGITS:
        return setting.ledger.take("loss", Default(Loss.STANDARD, f"{task.value} has no logits"))
    kernels = setting.said.fused_kernels
    if kernels is not None and "cross_entropy" in kernels:
        return setting.ledger.take("loss", Default(Loss.FUSED, "fused_kernels names cross_entropy"))
    return setting.ledger.take("loss", setting.defaults.kernels.loss)
