"""Defaults of what wraps the Trainer: LLaMA-Factory, axolotl, ms-swift and Unsloth.

Read in llamafactory 0.9.5, axolotl 0.19.0, ms-swift 1.3 to 4.6.0 and unsloth 2026.10.9.
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
)
from vramgate.jobs.frameworks.defaults import (
    AdapterDefaults,
    BatchDefaults,
    CheckpointingDefaults,
    FrameworkDefaults,
    KernelDefaults,
    OptimizerDefaults,
    PrecisionDefaults,
)
from vramgate.jobs.frameworks.hugging_face import transformers
from vramgate.jobs.ledger import Default, off, on
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.stack import Stack
from vramgate.jobs.vocabulary import OptimizerImplementation, Quantization


def llama_factory(stack: Stack) -> FrameworkDefaults:
    """Return LLaMA-Factory's defaults.

    Sources: ``hparams/finetuning_args.py``: finetuning_type lora, lora_rank 8, lora_dropout 0.0,
    lora_target all, freeze_trainable_layers 2, pure_bf16 off; ``hparams/model_args.py``:
    quantization_type nf4, double_quantization on, disable_gradient_checkpointing off,
    use_reentrant_gc on, upcast_layernorm off; ``hparams/data_args.py``: cutoff_len 2048, packing
    None; ``model/adapter.py``: what trains is cast to fp32. bf16 itself is off, but every YAML
    under ``examples/`` turns it on.
    """
    base = transformers(stack)
    half = Default(PrecisionPreset.BF16_TRUE, "LLaMA-Factory examples (bf16: true)")
    return replace(
        base,
        name="llama_factory",
        method=replace(
            base.method,
            kind=Default(MethodKind.LORA, "LLaMA-Factory default (finetuning_type)"),
            trainable_layers=Default(2, "LLaMA-Factory default (freeze_trainable_layers)"),
        ),
        precision=PrecisionDefaults(
            full=Default(
                PrecisionPreset.BF16_MIXED, "LLaMA-Factory examples (bf16: true, fp32 weights)"
            ),
            adapters=half,
            quantized=half,
            autocast_16bit_weights=on("LLaMA-Factory examples (bf16: true)"),
        ),
        adapters=_llama_factory_adapters(),
        batch=replace(
            base.batch,
            sequence_length=_cutoff_length(stack),
            packing=Default(Packing.PADDED, "LLaMA-Factory default (packing off)"),
        ),
        checkpointing=CheckpointingDefaults(
            mode=Default(CheckpointMode.FULL, "LLaMA-Factory default"),
            reentrant=on("LLaMA-Factory default (use_reentrant_gc)"),
            offload=off("LLaMA-Factory default (use_unsloth_gc off)"),
        ),
    )


def _llama_factory_adapters() -> AdapterDefaults:
    fp32 = Default(Dtype.FP32, "LLaMA-Factory default (what trains is cast to fp32)")
    return AdapterDefaults(
        rank=Default(8, "LLaMA-Factory default (lora_rank)"),
        target_modules=Default("all-linear", "LLaMA-Factory default (lora_target all)"),
        dropout=Default(0.0, "LLaMA-Factory default (lora_dropout)"),
        dtype=fp32,
        kbit_dtype=fp32,
        quantization=Default(Quantization.NF4, "LLaMA-Factory default (quantization_type)"),
        double_quant=on("LLaMA-Factory default (double_quantization)"),
        prepare_for_kbit_training=off("LLaMA-Factory default (upcast_layernorm off)"),
    )


def _cutoff_length(stack: Stack) -> Default[int]:
    """Return LLaMA-Factory's ``cutoff_len``: 1024 before 0.9.1 (``hparams/data_args.py``)."""
    version = stack.version("llamafactory")
    # A version is read as major and minor: all of 0.9 counts as its newest.
    if version is not None and version < (0, 9):
        return Default(1024, "LLaMA-Factory before 0.9 default (cutoff_len)")
    return Default(2048, "LLaMA-Factory default (cutoff_len)")


def axolotl(stack: Stack) -> FrameworkDefaults:
    """Return axolotl's defaults.

    Sources: ``utils/schemas/*.py``: adapter None, lora_dropout 0.0, sequence_len 512,
    micro_batch_size 1, gradient_accumulation_steps 1, gradient_checkpointing off, sample_packing
    off, optimizer adamw_torch_fused, bf16 "auto" (fp16 where the card has none);
    ``loaders/model.py``: weights in that dtype, nf4 with double quantisation,
    ``prepare_model_for_kbit_training`` except with ZeRO-3 and FSDP.
    """
    base = transformers(stack)
    half = Default(PrecisionPreset.BF16_TRUE, "axolotl default (bf16 auto)")
    return replace(
        base,
        name="axolotl",
        method=replace(base.method, kind=Default(MethodKind.FULL, "axolotl default (no adapter)")),
        precision=PrecisionDefaults(
            full=half,
            adapters=half,
            quantized=half,
            autocast_16bit_weights=on("axolotl default (bf16 auto)"),
            fp16_without_bf16=True,
        ),
        adapters=replace(
            base.adapters,
            dropout=Default(0.0, "axolotl default (lora_dropout)"),
            quantization=Default(Quantization.NF4, "axolotl default (bnb_4bit_quant_type)"),
            double_quant=on("axolotl default (bnb_4bit_use_double_quant)"),
            prepare_for_kbit_training=on("axolotl default"),
        ),
        optimizer=OptimizerDefaults(
            name=Default(OptimizerName.ADAMW, "axolotl default"),
            implementation=Default(
                OptimizerImplementation.FUSED, "axolotl default (adamw_torch_fused)"
            ),
        ),
        batch=BatchDefaults(
            micro_batch_size=Default(1, "axolotl default"),
            sequence_length=Default(512, "axolotl default (sequence_len)"),
            packing=Default(Packing.PADDED, "axolotl default (sample_packing off)"),
            accumulation=Default(1, "axolotl default"),
        ),
        checkpointing=replace(
            base.checkpointing,
            mode=Default(CheckpointMode.NONE, "axolotl default"),
            # utils/config/__init__.py normalize_config: use_reentrant unless somebody says otherwise.
            reentrant=on("axolotl default (use_reentrant)"),
        ),
    )


def ms_swift(stack: Stack) -> FrameworkDefaults:
    """Return ms-swift's defaults.

    Sources: ``swift/arguments/tuner_args.py``: tuner_type lora, lora_rank 8, lora_dropout 0.05,
    target_modules all-linear (before 3.0 DEFAULT: ``LoRATM`` of ``llm/utils/model.py``, query, key
    and value by each model's names); ``base_args/quant_args.py``: nf4, bnb_4bit_use_double_quant
    on; ``trainers/arguments.py``: per_device_train_batch_size 1, gradient_checkpointing on,
    accumulation up to a global batch of 16; ``trainers/mixin.py``: use_reentrant True but under DDP;
    lora_dtype fp32 up to 2.0 (``swift/llm/utils/argument.py``), after it peft's; max_length 2048
    before 3.0, after it the model's; no k-bit preparation in any version; ``config/zero2.json``:
    buckets of 2e8.
    """
    base = transformers(stack)
    version = stack.version("ms-swift") or (4, 6)
    half = Default(PrecisionPreset.BF16_TRUE, "ms-swift default (the checkpoint's dtype)")
    return replace(
        base,
        name="ms-swift",
        method=replace(base.method, kind=Default(MethodKind.LORA, "ms-swift default (tuner_type)")),
        precision=PrecisionDefaults(
            full=half,
            adapters=half,
            quantized=half,
            autocast_16bit_weights=on("ms-swift default (bf16 follows torch_dtype)"),
        ),
        adapters=_swift_adapters(base.adapters, version),
        batch=BatchDefaults(
            micro_batch_size=Default(1, "ms-swift default (per_device_train_batch_size)"),
            sequence_length=(
                Default(2048, "ms-swift before 3.0 default (max_length)")
                if version < (3, 0)
                else None
            ),
            packing=Default(Packing.PADDED, "ms-swift default (packing off)"),
            accumulation=Default(1, "ms-swift default"),
            global_batch_size=Default(16, "ms-swift default (a global batch of 16)"),
            sequence_is_models=True,
        ),
        checkpointing=replace(
            base.checkpointing,
            mode=Default(CheckpointMode.FULL, "ms-swift default (gradient_checkpointing)"),
            reentrant=on("ms-swift default (use_reentrant, but under DDP)"),
        ),
        sharding=replace(
            base.sharding, bucket=Default(200_000_000, "ms-swift default (config/zero2.json)")
        ),
    )


def _swift_adapters(base: AdapterDefaults, version: tuple[int, int]) -> AdapterDefaults:
    keeps_fp32 = version < (2, 1)
    return replace(
        base,
        rank=Default(8, "ms-swift default (lora_rank)"),
        target_modules=(
            Default(("q_proj", "k_proj", "v_proj"), "ms-swift before 3.0 default (DEFAULT)")
            if version < (3, 0)
            else Default("all-linear", "ms-swift default (target_modules)")
        ),
        dropout=Default(0.05, "ms-swift default (lora_dropout)"),
        dtype=(
            Default(Dtype.FP32, "ms-swift before 2.1 default (lora_dtype)")
            if keeps_fp32
            else base.dtype
        ),
        quantization=Default(Quantization.NF4, "ms-swift default (bnb_4bit_quant_type)"),
        double_quant=on("ms-swift default (bnb_4bit_use_double_quant)"),
        prepare_for_kbit_training=off("ms-swift default (none)"),
    )


_UNSLOTH_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def unsloth(stack: Stack) -> FrameworkDefaults:
    """Return Unsloth's defaults.

    Sources: ``models/loader.py`` ``from_pretrained``: load_in_4bit on, max_seq_length 2048, dtype
    bf16 or, where the card has none, fp16; ``models/llama.py`` ``get_peft_model``: r 16,
    lora_dropout 0, seven modules, adapters in fp32, use_gradient_checkpointing "unsloth"
    (checkpoints in host memory, reentrant); ``models/rl.py``: per_device_train_batch_size 4,
    gradient_accumulation_steps 2, optim adamw_8bit; its kernels replace the model's, and from
    2024.12 on the loss never holds the whole logits (cut cross entropy, then
    ``unsloth_zoo/fused_losses``).
    """
    base = transformers(stack)
    return replace(
        base,
        name="unsloth",
        method=replace(
            base.method, kind=Default(MethodKind.QLORA, "Unsloth default (load_in_4bit)")
        ),
        precision=_unsloth_precision(),
        adapters=_unsloth_adapters(),
        optimizer=OptimizerDefaults(
            name=Default(OptimizerName.ADAMW_8BIT, "Unsloth default (optim)"),
            implementation=base.optimizer.implementation,
        ),
        batch=BatchDefaults(
            micro_batch_size=Default(4, "Unsloth default (per_device_train_batch_size)"),
            sequence_length=Default(2048, "Unsloth default (max_seq_length)"),
            packing=Default(Packing.PADDED, "Unsloth default (packing off)"),
            accumulation=Default(2, "Unsloth default (gradient_accumulation_steps)"),
        ),
        checkpointing=CheckpointingDefaults(
            mode=Default(CheckpointMode.FULL, "Unsloth default"),
            reentrant=on("Unsloth default (use_reentrant)"),
            offload=on('Unsloth default (use_gradient_checkpointing="unsloth")'),
        ),
        kernels=_unsloth_kernels(stack),
    )


def _unsloth_precision() -> PrecisionDefaults:
    half = Default(PrecisionPreset.BF16_TRUE, "Unsloth default (dtype)")
    return PrecisionDefaults(
        full=half,
        adapters=half,
        quantized=half,
        autocast_16bit_weights=on("Unsloth default (bf16 follows dtype)"),
        fp16_without_bf16=True,
    )


def _unsloth_adapters() -> AdapterDefaults:
    fp32 = Default(Dtype.FP32, "Unsloth default (adapters in fp32)")
    return AdapterDefaults(
        rank=Default(16, "Unsloth default (r)"),
        target_modules=Default(_UNSLOTH_TARGETS, "Unsloth default (target_modules)"),
        dropout=Default(0.0, "Unsloth default (lora_dropout)"),
        dtype=fp32,
        kbit_dtype=fp32,
        quantization=Default(Quantization.NF4, "Unsloth default (bnb_4bit_quant_type)"),
        double_quant=on("Unsloth default (bnb_4bit_use_double_quant)"),
        prepare_for_kbit_training=off("Unsloth default (its own preparation)"),
    )


def _unsloth_kernels(stack: Stack) -> KernelDefaults:
    version = stack.version("unsloth")
    holds_logits = version is not None and version < (2024, 12)
    return KernelDefaults(
        attention=Default(
            AttentionImplementation.FLASH_2, "Unsloth default (flash-attn or xformers)"
        ),
        loss=(
            Default(Loss.FUSED, "Unsloth before 2024.12 (cross-entropy kernel)")
            if holds_logits
            else Default(Loss.FUSED_LINEAR, "Unsloth default (fused cross entropy)")
        ),
        fused=Default(
            ("cross_entropy", "rms_norm", "rope", "swiglu"), "Unsloth default (its kernels)"
        ),
        compile=off("Unsloth default"),
    )
