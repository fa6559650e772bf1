"""Defaults of plain torch, DeepSpeed, Megatron-LM, torchtitan and torchtune.

Read in torch 2.13, DeepSpeed 0.9 to 0.19, Megatron-LM d98e8a64, torchtitan 0.0.2 to 0.3.0 and
torchtune 0.6.1.
"""

from dataclasses import replace

from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Loss,
    MethodKind,
    Packing,
    ShardingImplementation,
    Task,
)
from vramgate.jobs.frameworks.defaults import (
    AdapterDefaults,
    CheckpointingDefaults,
    FrameworkDefaults,
    MethodDefaults,
    PrecisionDefaults,
)
from vramgate.jobs.frameworks.hugging_face import accelerate
from vramgate.jobs.ledger import Default, off, on
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.stack import Stack
from vramgate.jobs.vocabulary import OptimizerImplementation


def one_precision(preset: PrecisionPreset, source: str) -> PrecisionDefaults:
    """Return the same number formats for whatever trains."""
    default = Default(preset, source)
    return PrecisionDefaults(
        full=default, adapters=default, quantized=default, autocast_16bit_weights=off(source)
    )


def torch(stack: Stack) -> FrameworkDefaults:
    """Return the defaults of a plain PyTorch loop over a transformers model.

    Sources: torch ``nn.Module``: fp32; ``optim/adamw.py``: foreach on CUDA; the activation
    checkpointing guide: use_reentrant=False; FSDP reduces gradients in every backward unless inside
    ``no_sync``.
    """
    base = accelerate(stack)
    return replace(
        base,
        name="torch",
        method=MethodDefaults(
            kind=Default(MethodKind.FULL, "torch: every parameter trains"),
            task=Default(Task.SFT, "vramgate: the loss of a causal language model"),
            trainable_layers=base.method.trainable_layers,
        ),
        precision=replace(
            one_precision(PrecisionPreset.FP32, "torch default"), quantized=base.precision.quantized
        ),
        batch=replace(
            base.batch,
            micro_batch_size=Default(1, "vramgate: torch has no batch of its own"),
            packing=Default(Packing.PACKED, "vramgate: rows of full length"),
            accumulation=Default(1, "vramgate: no accumulation"),
        ),
        checkpointing=CheckpointingDefaults(
            mode=Default(CheckpointMode.NONE, "torch default"),
            reentrant=off("torch guide (use_reentrant=False)"),
            offload=off("torch default"),
        ),
        kernels=replace(
            base.kernels,
            loss=Default(Loss.STANDARD, "torch: cross entropy over whole logits"),
            fused=Default((), "vramgate: the model's own kernels"),
            compile=off("torch default"),
        ),
        sharding=replace(
            base.sharding,
            replicas=Default(ShardingImplementation.DDP, "torch: DistributedDataParallel"),
            shards=Default(ShardingImplementation.FSDP2, "torch: fully_shard"),
            stage=Default(0, "DeepSpeed default (zero_optimization.stage)"),
            sync_each_micro_batch=on("torch default (no no_sync)"),
            auto_buckets=False,
        ),
    )


def deepspeed(stack: Stack) -> FrameworkDefaults:
    """Return DeepSpeed's defaults under a plain loop.

    Sources: ``runtime/config.py``, ``runtime/zero/config.py``: stage 0,
    gradient_accumulation_steps 1, neither bf16 nor fp16, but every tutorial turns one on: 16-bit
    weights with an fp32 master copy; optimizer "AdamW" is FusedAdam (``runtime/engine.py``).
    """
    base = torch(stack)
    return replace(
        base,
        name="deepspeed",
        precision=one_precision(
            PrecisionPreset.BF16_MASTER, "vramgate: DeepSpeed with bf16 enabled"
        ),
        optimizer=replace(
            base.optimizer,
            implementation=Default(OptimizerImplementation.FUSED, "DeepSpeed default (FusedAdam)"),
        ),
        sharding=replace(
            base.sharding,
            replicas=Default(ShardingImplementation.DEEPSPEED, "DeepSpeed"),
            shards=Default(ShardingImplementation.DEEPSPEED, "DeepSpeed"),
        ),
    )


def megatron(stack: Stack) -> FrameworkDefaults:
    """Return Megatron-LM's defaults.

    Sources: ``megatron/training/arguments.py``: fp32 without --bf16 (every published recipe passes
    it), distributed optimizer off, recomputation off, sequence parallelism off, RoPE and SwiGLU
    fusion on (``--no-rope-fusion``, ``--no-bias-swiglu-fusion``), cross-entropy fusion off;
    ``transformer_config.py``: attention backend auto (Transformer Engine's flash or fused);
    ``tensor_parallel/random.py``: checkpoints are reentrant autograd functions; documents fill
    --seq-length.
    """
    base = torch(stack)
    fused = Default(OptimizerImplementation.FUSED, "Megatron-LM default (FusedAdam)")
    return replace(
        base,
        name="megatron",
        method=replace(base.method, task=Default(Task.PRETRAIN, "Megatron-LM")),
        precision=one_precision(PrecisionPreset.BF16_MASTER, "vramgate: Megatron-LM with --bf16"),
        optimizer=replace(base.optimizer, implementation=fused),
        batch=replace(base.batch, packing=Default(Packing.PACKED, "Megatron-LM default")),
        checkpointing=replace(
            base.checkpointing,
            mode=Default(CheckpointMode.NONE, "Megatron-LM default (--recompute-granularity)"),
            reentrant=on("Megatron-LM (tensor_parallel.checkpoint)"),
        ),
        kernels=replace(
            base.kernels,
            attention=_megatron_attention(stack),
            fused=Default(("rms_norm", "rope", "swiglu"), "Megatron-LM default (fusions on)"),
        ),
        sharding=replace(
            base.sharding,
            replicas=Default(ShardingImplementation.MEGATRON, "Megatron-LM"),
            shards=Default(ShardingImplementation.MEGATRON, "Megatron-LM"),
            sequence_parallel=off("Megatron-LM default (--sequence-parallel)"),
        ),
    )


def _megatron_attention(stack: Stack) -> Default[AttentionImplementation]:
    """Return Megatron-LM's attention: ``--transformer-impl`` was ``local`` up to core 0.5."""
    version = stack.version("megatron")
    if version is not None and version < (0, 6):
        return Default(
            AttentionImplementation.EAGER,
            "Megatron-LM before core 0.6 default (--transformer-impl local)",
        )
    return Default(
        AttentionImplementation.FLASH_2, "Megatron-LM default (--attention-backend auto)"
    )


def torchtitan(stack: Stack) -> FrameworkDefaults:
    """Return torchtitan's defaults.

    Sources: ``config/configs.py``: dtype float32, mixed_precision_param bfloat16, local_batch_size
    8, seq_len 2048, data_parallel_shard_degree -1 (FSDP2 over all ranks), enable_sequence_parallel
    on, compile off; ``trainer.py``: SelectiveAC; ``components/optimizer``: fused;
    ``models/llama3/config_registry.py`` of 0.3: the loss in chunks, before it over whole logits
    (taken where the version is not named: most pins and published runs are older).
    """
    base = torch(stack)
    version = stack.version("torchtitan") or (0, 2)
    return replace(
        base,
        name="torchtitan",
        method=replace(base.method, task=Default(Task.PRETRAIN, "torchtitan")),
        precision=one_precision(
            PrecisionPreset.BF16_MIXED, "torchtitan default (mixed_precision_param)"
        ),
        optimizer=replace(
            base.optimizer,
            implementation=Default(OptimizerImplementation.FUSED, "torchtitan default"),
        ),
        batch=replace(
            base.batch,
            micro_batch_size=Default(8, "torchtitan default (local_batch_size)"),
            sequence_length=Default(2048, "torchtitan default (seq_len)"),
            packing=Default(Packing.PACKED, "torchtitan default"),
        ),
        checkpointing=replace(
            base.checkpointing, mode=Default(CheckpointMode.SELECTIVE, "torchtitan default")
        ),
        kernels=replace(
            base.kernels,
            attention=Default(AttentionImplementation.SDPA, "torchtitan default"),
            loss=(
                Default(Loss.CHUNKED, "torchtitan default (ChunkedLossWrapper)")
                if version >= (0, 3)
                else Default(Loss.STANDARD, "torchtitan before 0.3 default")
            ),
        ),
        sharding=replace(
            base.sharding,
            replicas=Default(
                ShardingImplementation.FSDP2, "torchtitan default (data_parallel_shard_degree -1)"
            ),
            sequence_parallel=on("torchtitan default (enable_sequence_parallel)"),
        ),
    )


def torchtune(stack: Stack) -> FrameworkDefaults:
    """Return the defaults of torchtune's recipes.

    Sources: ``recipes/configs/llama3_1/*.yaml``: batch_size 2, dtype bf16 (weights, gradients and
    states), CEWithChunkedOutputLoss, fused AdamW, packed False, lora_rank 8, no dropout, attention
    q, v and output with the MLP, checkpointing on (non-reentrant ``checkpoint_wrapper``);
    distributed recipes shard with FSDP2; torchao's NF4 tensor quantises its scales.
    """
    base = torch(stack)
    return replace(
        base,
        name="torchtune",
        precision=one_precision(PrecisionPreset.BF16_TRUE, "torchtune recipes (dtype bf16)"),
        adapters=_torchtune_adapters(base.adapters),
        optimizer=replace(
            base.optimizer,
            implementation=Default(OptimizerImplementation.FUSED, "torchtune recipes (fused)"),
        ),
        batch=replace(
            base.batch,
            micro_batch_size=Default(2, "torchtune recipes (batch_size)"),
            packing=Default(Packing.PADDED, "torchtune recipes (packed False)"),
            accumulation=Default(1, "torchtune full recipes (8 in the LoRA ones)"),
        ),
        checkpointing=replace(
            base.checkpointing, mode=Default(CheckpointMode.FULL, "torchtune recipes")
        ),
        kernels=replace(
            base.kernels,
            attention=Default(AttentionImplementation.SDPA, "torchtune default"),
            loss=Default(Loss.CHUNKED, "torchtune recipes (CEWithChunkedOutputLoss)"),
        ),
        sharding=replace(
            base.sharding,
            replicas=Default(ShardingImplementation.FSDP2, "torchtune distributed recipes"),
        ),
    )


def _torchtune_adapters(base: AdapterDefaults) -> AdapterDefaults:
    in_dtype = "torchtune: adapters in dtype"
    return replace(
        base,
        rank=Default(8, "torchtune recipes (lora_rank)"),
        target_modules=Default(
            ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
            "torchtune recipes (lora_attn_modules, apply_lora_to_mlp)",
        ),
        dtype=Default(None, in_dtype),
        kbit_dtype=Default(None, in_dtype),
        double_quant=on("torchao NF4Tensor (quantised scales)"),
        prepare_for_kbit_training=off("torchtune (none)"),
    )
