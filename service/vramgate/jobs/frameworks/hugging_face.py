"""Defaults of transformers' Trainer, of accelerate, of TRL, and of peft under them.

Read in transformers 4.32.1 to 5.24.0, accelerate 1.15.0, peft 0.4 to 0.21.2 and TRL 0.2 to 1.16.0;
each function names the files.
"""

from dataclasses import replace

from vramgate.costmodel.job import (
    CheckpointMode,
    Dtype,
    Loss,
    MethodKind,
    OptimizerName,
    Packing,
    ShardingImplementation,
    Task,
)
from vramgate.jobs.frameworks.defaults import (
    AdapterDefaults,
    BatchDefaults,
    CheckpointingDefaults,
    FrameworkDefaults,
    KernelDefaults,
    MethodDefaults,
    OptimizerDefaults,
    PrecisionDefaults,
    ShardingDefaults,
)
from vramgate.jobs.ledger import Default, off, on
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.stack import Stack, Version
from vramgate.jobs.vocabulary import OptimizerImplementation, Quantization

DEEPSPEED_BUCKET = Default(500_000_000, "DeepSpeed default (5e8 elements)")
"""DeepSpeed ``runtime/zero/config.py``: reduce_bucket_size and allgather_bucket_size."""


def transformers(stack: Stack) -> FrameworkDefaults:
    """Return the defaults of transformers' Trainer."""
    return FrameworkDefaults(
        name="transformers",
        method=MethodDefaults(
            kind=Default(MethodKind.FULL, "transformers default"),
            task=Default(Task.SFT, "transformers: labels of a causal language model"),
            trainable_layers=Default(2, "vramgate: as LLaMA-Factory's freeze_trainable_layers"),
        ),
        precision=trainer_precision(stack),
        adapters=peft_adapters(stack),
        optimizer=trainer_optimizer(stack),
        batch=BatchDefaults(
            # training_args.py: per_device_train_batch_size 8, gradient_accumulation_steps 1.
            micro_batch_size=Default(8, "transformers default (per_device_train_batch_size)"),
            sequence_length=None,
            packing=Default(Packing.PADDED, "transformers default (padding collator)"),
            accumulation=Default(1, "transformers default"),
        ),
        checkpointing=trainer_checkpointing(stack),
        kernels=KernelDefaults(
            attention=None,
            loss=Default(Loss.STANDARD, "transformers default"),
            fused=Default((), "transformers default (use_liger_kernel off)"),
            compile=off("transformers default"),
        ),
        sharding=ShardingDefaults(
            replicas=Default(ShardingImplementation.DDP, "transformers default under torchrun"),
            shards=Default(ShardingImplementation.DEEPSPEED, "transformers: ZeRO means DeepSpeed"),
            stage=Default(0, "DeepSpeed default (zero_optimization.stage)"),
            # accelerate accelerator.py, accumulate: no_sync unless sync_each_batch.
            sync_each_micro_batch=off("accelerate default (sync_each_batch off)"),
            sequence_parallel=off("torch default (no SequenceParallel plan)"),
            bucket=DEEPSPEED_BUCKET,
            auto_buckets=True,
        ),
    )


def trainer_precision(stack: Stack) -> PrecisionDefaults:
    """Return the number formats of a model loaded and trained without a word about them.

    Sources: ``training_args.py``: bf16 and fp16 off; ``modeling_utils.py``: weights load in fp32
    before 5.0, from 5.0 in the checkpoint's dtype (``dtype="auto"``, nearly always bf16);
    ``quantizers/quantizer_bnb_4bit.py`` of 4.x: what is not quantised loads in fp16.
    """
    autocast = off("transformers default (bf16 off)")
    if stack.transformers >= (5, 0):
        auto = Default(PrecisionPreset.BF16_TRUE, 'transformers default (dtype="auto", bf16 off)')
        return PrecisionDefaults(
            full=auto,
            adapters=auto,
            quantized=auto,
            autocast_16bit_weights=autocast,
            follows_checkpoint=True,
        )
    fp32 = Default(PrecisionPreset.FP32, "transformers before 5.0 default (bf16 off)")
    return PrecisionDefaults(
        full=fp32,
        adapters=fp32,
        quantized=Default(PrecisionPreset.FP16_TRUE, "transformers before 5.0 with bitsandbytes"),
        autocast_16bit_weights=autocast,
    )


def trainer_optimizer(stack: Stack) -> OptimizerDefaults:
    """Return the Trainer's optimizer.

    Source: ``training_args.py``: adamw_torch, and adamw_torch_fused from 4.54 on with torch 2.8 or
    newer. torch ``optim/adamw.py`` takes foreach for CUDA parameters.
    """
    fused = stack.transformers >= (4, 54) and stack.torch >= (2, 8)
    return OptimizerDefaults(
        name=Default(OptimizerName.ADAMW, "transformers default"),
        implementation=(
            Default(OptimizerImplementation.FUSED, "transformers default (adamw_torch_fused)")
            if fused
            else Default(OptimizerImplementation.FOREACH, "torch default (adamw_torch)")
        ),
    )


def trainer_checkpointing(stack: Stack) -> CheckpointingDefaults:
    """Return the Trainer's activation checkpointing.

    Sources: ``training_args.py``: off; ``modeling_utils.py`` ``gradient_checkpointing_enable``:
    use_reentrant True before 5.0, False from 5.0 on.
    """
    return CheckpointingDefaults(
        mode=Default(CheckpointMode.NONE, "transformers default"),
        reentrant=(
            off("transformers default (use_reentrant)")
            if stack.transformers >= (5, 0)
            else on("transformers before 5.0 default (use_reentrant)")
        ),
        offload=off("transformers default"),
    )


def peft_adapters(stack: Stack) -> AdapterDefaults:
    """Return peft's adapters.

    Sources: peft ``tuners/lora/config.py``: r 8, lora_dropout 0.0, target_modules by model type.
    Dtype: before 0.6 ``tuners/lora.py`` leaves adapters in fp32; 0.6 to 0.11
    ``tuners/lora/layer.py`` gives them the base weight's floating dtype (quantised weights have
    none); from 0.12 ``get_peft_model(autocast_adapter_dtype=True)`` casts 16-bit adapters to fp32.
    transformers ``BitsAndBytesConfig``: fp4 without double quantisation; NF4 is taken, as in the
    QLoRA paper and every peft guide, which all call ``prepare_model_for_kbit_training`` (equal
    bytes).
    """
    follows_base = (0, 6) <= stack.peft < (0, 12)
    dtype: Default[Dtype | None] = (
        Default(None, "peft 0.6 to 0.11: the base weight's dtype")
        if follows_base
        else Default(Dtype.FP32, "peft default (autocast_adapter_dtype)")
    )
    return AdapterDefaults(
        rank=Default(8, "peft default"),
        target_modules=None,
        dropout=Default(0.0, "peft default"),
        dtype=dtype,
        kbit_dtype=Default(Dtype.FP32, "peft default"),
        quantization=Default(Quantization.NF4, "QLoRA's format (Dettmers et al. 2023)"),
        double_quant=off("transformers default (bnb_4bit_use_double_quant)"),
        prepare_for_kbit_training=on("peft guide (prepare_model_for_kbit_training)"),
    )


def accelerate(stack: Stack) -> FrameworkDefaults:
    """Return the defaults of a loop of one's own under accelerate.

    Source: accelerate ``utils/dataclasses.py``: mixed_precision "no", DeepSpeedPlugin zero_stage 2.
    Batch and optimizer are the script's: torch's AdamW.
    """
    base = transformers(stack)
    return replace(
        base,
        name="accelerate",
        optimizer=replace(
            base.optimizer,
            implementation=Default(OptimizerImplementation.FOREACH, "torch default"),
        ),
        batch=replace(
            base.batch,
            micro_batch_size=Default(1, "vramgate: accelerate has no batch of its own"),
        ),
        sharding=replace(
            base.sharding,
            replicas=Default(ShardingImplementation.DDP, "accelerate default (MULTI_GPU)"),
            stage=Default(2, "accelerate default (DeepSpeedPlugin.zero_stage)"),
        ),
    )


def trl(stack: Stack) -> FrameworkDefaults:
    """Return the defaults of TRL's trainers.

    Sources: ``trainer/base_config.py`` (``sft_config.py`` before 0.29): max_length 1024, packing
    off, gradient_checkpointing on from 0.22, bf16 on from 0.19; ``trainer/sft_trainer.py``:
    use_reentrant off from 0.28; ``sft_config.py``: from 1.7 loss_type "chunked_nll", and from 1.15 a
    fused head that never holds the whole logits (``kernels/chunked_logprob.py``).
    """
    base = transformers(stack)
    version = trl_version(stack)
    return replace(
        base,
        name="trl",
        precision=_trl_precision(base.precision, version),
        adapters=_trl_adapters(base.adapters, version),
        batch=replace(
            base.batch,
            sequence_length=Default(1024, "TRL default (max_length)"),
            packing=Default(Packing.PADDED, "TRL default (packing off)"),
        ),
        checkpointing=replace(
            base.checkpointing,
            mode=(
                Default(CheckpointMode.FULL, "TRL default (gradient_checkpointing)")
                if version >= (0, 22)
                else Default(CheckpointMode.NONE, "TRL before 0.22 default")
            ),
            reentrant=(
                off("TRL default (use_reentrant)")
                if version >= (0, 28)
                else base.checkpointing.reentrant
            ),
        ),
        kernels=replace(base.kernels, loss=_trl_loss(version)),
    )


def _trl_loss(version: Version) -> Default[Loss]:
    if version >= (1, 15):
        return Default(Loss.FUSED_LINEAR, "TRL default (fused head)")
    if version >= (1, 7):
        return Default(Loss.CHUNKED, "TRL 1.7 to 1.14 default (loss_type chunked_nll)")
    return Default(Loss.STANDARD, "TRL before 1.7 default (nll over whole logits)")


def trl_version(stack: Stack) -> Version:
    """Return TRL's version: as named, else the one of the time of transformers'."""
    named = stack.version("trl")
    if named is not None:
        return named
    # Dates of TRL's tags beside those of transformers' packages.
    for transformers_version, trl_release in (
        ((5, 20), (1, 15)),
        ((5, 0), (0, 28)),
        ((4, 57), (0, 26)),
        ((4, 55), (0, 22)),
        ((4, 52), (0, 19)),
        ((4, 48), (0, 14)),
        ((4, 44), (0, 11)),
    ):
        if stack.transformers >= transformers_version:
            return trl_release
    return (0, 8)


def _trl_precision(base: PrecisionDefaults, version: Version) -> PrecisionDefaults:
    """Return TRL's number formats.

    Sources: ``base_config.py``: bf16 on unless fp16 (0.19 on); ``model_config.py``: dtype float32
    (0.27 on; before, as transformers loads).
    """
    if version < (0, 19):
        return base
    mixed = Default(PrecisionPreset.BF16_MIXED, "TRL default (bf16 on, dtype float32)")
    return PrecisionDefaults(
        full=mixed,
        adapters=mixed,
        quantized=Default(PrecisionPreset.BF16_TRUE, "TRL default (bf16 on)"),
        autocast_16bit_weights=on("TRL default (bf16 on)"),
    )


def _trl_adapters(base: AdapterDefaults, version: Version) -> AdapterDefaults:
    """Return TRL's adapters.

    Sources: ``model_config.py``: lora_r 16, lora_dropout 0.05, nf4, use_bnb_nested_quant off;
    ``sft_trainer.py``: from 0.26 adapters over a quantised base are cast to bf16; k-bit preparation
    before 0.27, whose casts ``peft_module_casting_to_bf16`` undoes for embeddings and head where
    bf16 is on, the default since 0.19.
    """
    if version >= (0, 27):
        prepare = off("TRL default (none since 0.27)")
    elif version >= (0, 19):
        prepare = off("TRL default (peft_module_casting_to_bf16 undoes it)")
    else:
        prepare = on("TRL before 0.19 default (prepare_model_for_kbit_training)")
    return replace(
        base,
        rank=Default(16, "TRL default (lora_r)"),
        dropout=Default(0.05, "TRL default (lora_dropout)"),
        kbit_dtype=(
            Default(Dtype.BF16, "TRL default (adapters over a quantised base in bf16)")
            if version >= (0, 26)
            else base.kbit_dtype
        ),
        quantization=Default(Quantization.NF4, "TRL default (bnb_4bit_quant_type)"),
        double_quant=off("TRL default (use_bnb_nested_quant)"),
        prepare_for_kbit_training=prepare,
    )
