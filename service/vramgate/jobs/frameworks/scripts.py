"""Defaults of litgpt, Composer with llm-foundry, and fsdp_qlora's script.

Read in litgpt 0.5.13, mosaicml 0.32.1, llm_foundry 0.22.0 and AnswerDotAI/fsdp_qlora 02586ac7.
"""

from dataclasses import replace

from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Loss,
    MethodKind,
    OptimizerName,
    Packing,
    ShardingImplementation,
    Task,
)
from vramgate.jobs.frameworks.defaults import FrameworkDefaults
from vramgate.jobs.frameworks.native import one_precision, torch
from vramgate.jobs.ledger import Default, off
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.stack import Stack


def litgpt(stack: Stack) -> FrameworkDefaults:
    """Return litgpt's defaults.

    Sources: ``utils.py`` ``get_default_supported_precision``: bf16-mixed where supported;
    ``finetune/lora.py``: lora_r 8, lora_dropout 0.05, query
    and value, micro_batch_size 1 of a global batch of 16, ``lm_head_chunk_size`` 128 with
    ``chunked_cross_entropy``, no checkpointing on one device, FSDP with ``no_backward_sync`` on
    several; ``utils.py``: bnb.nf4 has no double quantisation; adapters stand in the run's
    precision.
    """
    base = torch(stack)
    in_precision = "litgpt: adapters in the run's precision"
    fsdp = Default(ShardingImplementation.FSDP, "litgpt default (FSDPStrategy)")
    return replace(
        base,
        name="litgpt",
        precision=one_precision(PrecisionPreset.BF16_MIXED, "litgpt default (bf16-mixed)"),
        adapters=replace(
            base.adapters,
            rank=Default(8, "litgpt default (lora_r)"),
            target_modules=Default(("q_proj", "v_proj"), "litgpt default (lora_query, lora_value)"),
            dropout=Default(0.05, "litgpt default (lora_dropout)"),
            dtype=Default(None, in_precision),
            kbit_dtype=Default(None, in_precision),
            double_quant=off("litgpt (bnb.nf4)"),
            prepare_for_kbit_training=off("litgpt (none)"),
        ),
        batch=replace(
            base.batch,
            micro_batch_size=Default(1, "litgpt default (micro_batch_size)"),
            packing=Default(Packing.PACKED, "litgpt: padded rows without a mask"),
            global_batch_size=Default(16, "litgpt default (global_batch_size)"),
        ),
        kernels=replace(
            base.kernels,
            attention=Default(AttentionImplementation.SDPA, "litgpt default"),
            loss=Default(Loss.CHUNKED, "litgpt default (chunked_cross_entropy)"),
        ),
        sharding=replace(
            base.sharding,
            replicas=fsdp,
            shards=fsdp,
            sync_each_micro_batch=off("litgpt (no_backward_sync)"),
        ),
    )


def composer(stack: Stack) -> FrameworkDefaults:
    """Return the defaults of Composer with llm-foundry.

    Sources: llm-foundry ``scripts/train/yamls/pretrain/*.yaml``: precision amp_bf16 over fp32
    weights, fsdp_config FULL_SHARD, activation_checkpointing on and not reentrant, decoupled AdamW;
    ``models/mpt/configuration_mpt.py``: attn_impl flash; sequences fill max_seq_len. Composer
    ``distributed/dist_strategy.py``: no_sync for DDP only, so FSDP reduces every micro-batch.
    """
    base = torch(stack)
    fsdp = Default(ShardingImplementation.FSDP, "llm-foundry YAMLs (fsdp_config)")
    return replace(
        base,
        name="composer",
        method=replace(base.method, task=Default(Task.PRETRAIN, "llm-foundry")),
        precision=one_precision(PrecisionPreset.BF16_MIXED, "llm-foundry YAMLs (amp_bf16)"),
        batch=replace(base.batch, packing=Default(Packing.PACKED, "llm-foundry default")),
        checkpointing=replace(
            base.checkpointing,
            mode=Default(CheckpointMode.FULL, "llm-foundry YAMLs"),
            reentrant=off("llm-foundry YAMLs (activation_checkpointing_reentrant)"),
        ),
        kernels=replace(
            base.kernels,
            attention=Default(
                AttentionImplementation.FLASH_2, "llm-foundry default (attn_impl flash)"
            ),
            loss=Default(Loss.FUSED, "llm-foundry default (loss_fn fused_crossentropy)"),
        ),
        sharding=replace(base.sharding, replicas=fsdp, shards=fsdp),
    )


def fsdp_qlora(stack: Stack) -> FrameworkDefaults:
    """Return the defaults of fsdp_qlora's ``train.py``.

    Source: ``main``: train_type qlora, batch_size 1, context_length 512, lora_rank 64, lora_dropout
    0.1, lora_target_modules all (six modules), precision bf16 throughout, adamw without fused,
    use_gradient_checkpointing on and not reentrant, full_shard, no_sync off. Its use_cpu_offload,
    on by default, is a choice that the job states (``sharding.offload_parameters``).
    """
    base = torch(stack)
    fsdp = Default(ShardingImplementation.FSDP, "fsdp_qlora default (full_shard)")
    bf16 = Default(Dtype.BF16, "fsdp_qlora default (precision bf16)")
    return replace(
        base,
        name="fsdp_qlora",
        method=replace(
            base.method, kind=Default(MethodKind.QLORA, "fsdp_qlora default (train_type)")
        ),
        precision=one_precision(PrecisionPreset.BF16_TRUE, "fsdp_qlora default (precision bf16)"),
        adapters=replace(
            base.adapters,
            rank=Default(64, "fsdp_qlora default (lora_rank)"),
            target_modules=Default(
                ("k_proj", "q_proj", "v_proj", "up_proj", "down_proj", "gate_proj"),
                "fsdp_qlora default (lora_target_modules all)",
            ),
            dropout=Default(0.1, "fsdp_qlora default (lora_dropout)"),
            dtype=bf16,
            kbit_dtype=bf16,
            prepare_for_kbit_training=off("fsdp_qlora (none)"),
        ),
        optimizer=replace(
            base.optimizer, name=Default(OptimizerName.ADAMW, "fsdp_qlora default (optimizer)")
        ),
        batch=replace(
            base.batch,
            micro_batch_size=Default(1, "fsdp_qlora default (batch_size)"),
            sequence_length=Default(512, "fsdp_qlora default (context_length)"),
            packing=Default(Packing.PADDED, "fsdp_qlora default"),
        ),
        checkpointing=replace(
            base.checkpointing, mode=Default(CheckpointMode.FULL, "fsdp_qlora default")
        ),
        sharding=replace(base.sharding, replicas=fsdp, shards=fsdp),
    )
