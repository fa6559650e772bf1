"""The precision of a job: what was said, completed by what the framework does."""

from dataclasses import replace

from vramgate.costmodel.job import (
    Dtype,
    MethodKind,
    OptimizerName,
    Precision,
    Sharding,
    ShardingImplementation,
)
from vramgate.jobs.checkpoints import checkpoint_dtype
from vramgate.jobs.description import PrecisionDescription
from vramgate.jobs.ledger import Default, off, on
from vramgate.jobs.precision import PrecisionPreset, preset_description
from vramgate.jobs.setting import Setting

HALVES = frozenset({Dtype.BF16, Dtype.FP16})
KEEPS_MASTER = frozenset({ShardingImplementation.DEEPSPEED, ShardingImplementation.MEGATRON})
_ADAPTERS = frozenset({MethodKind.LORA, MethodKind.QLORA})


def find_formats(setting: Setting, kind: MethodKind, sharding: Sharding) -> PrecisionDescription:
    """Return the precision with weights, compute, autocast and master copy decided.

    Gradients and states follow later, once the adapters' dtype is known (``find_precision``).
    """
    said = setting.said.precision
    if (said.weights, said.compute, said.autocast, said.master_weights) == (None,) * 4:
        formats = _framework_preset(setting, kind, sharding)
        return replace(
            formats,
            gradients=said.gradients,
            optimizer_states=said.optimizer_states,
            linear=said.linear,
        )
    ledger = setting.ledger
    compute = said.compute
    weights = said.weights or ledger.take("precision.weights", _weights(said))
    if compute is None:
        compute = ledger.take("precision.compute", _compute(weights, autocast=said.autocast))
    master = said.master_weights
    if master is None:
        master = ledger.take("precision.master_weights", _master(weights, compute, said, sharding))
    autocast = said.autocast
    if autocast is None:
        autocast = ledger.take(
            "precision.autocast", _autocast(setting, weights, compute, master=master)
        )
    return PrecisionDescription(
        weights=weights,
        compute=compute,
        autocast=autocast,
        gradients=said.gradients,
        master_weights=master,
        optimizer_states=said.optimizer_states,
        linear=said.linear,
    )


def find_precision(
    setting: Setting,
    formats: PrecisionDescription,
    sharding: Sharding,
    *,
    trainable: Dtype,
    optimizer: OptimizerName,
) -> Precision:
    """Return the precision complete. ``trainable`` is the dtype of what trains: weights or adapters."""
    master = formats.master_weights is True
    gradients = formats.gradients or setting.ledger.take(
        "precision.gradients", _gradients(setting, sharding, trainable, master=master)
    )
    states = formats.optimizer_states or setting.ledger.take(
        "precision.optimizer_states", _states(setting, trainable, optimizer, master=master)
    )
    return Precision(
        weights=formats.weights or Dtype.FP32,
        compute=formats.compute or Dtype.FP32,
        autocast=formats.autocast is True,
        gradients=gradients,
        master_weights=master,
        optimizer_states=states,
        linear=formats.linear,
    )


def _framework_preset(
    setting: Setting, kind: MethodKind, sharding: Sharding
) -> PrecisionDescription:
    """Return the framework's formats as its engine applies them.

    DeepSpeed and Megatron turn 16-bit compute into 16-bit weights with an fp32 master copy, whether
    the framework asked for autocast or for 16-bit weights.
    """
    defaults = setting.defaults.precision
    default = {
        MethodKind.LORA: defaults.adapters,
        MethodKind.QLORA: defaults.quantized,
    }.get(kind, defaults.full)
    if defaults.fp16_without_bf16 and not setting.bf16 and default.value in _FP16_INSTEAD:
        default = Default(_FP16_INSTEAD[default.value], f"{default.source}; the card lacks bf16")
    if defaults.follows_checkpoint and kind is not MethodKind.QLORA:
        default = _as_stored(setting, default)
    formats = preset_description(default.value)
    if sharding.implementation in KEEPS_MASTER and formats.compute in HALVES:
        default = Default(_MASTER[formats.compute], f"{default.source} under its engine")
        formats = preset_description(default.value)
    setting.ledger.take("precision", default)
    autocast = formats.autocast
    if formats.weights in HALVES and not formats.master_weights:
        autocast = defaults.autocast_16bit_weights.value
    return PrecisionDescription(
        weights=formats.weights,
        compute=formats.compute,
        autocast=autocast,
        master_weights=formats.master_weights,
    )


def _as_stored(setting: Setting, default: Default[PrecisionPreset]) -> Default[PrecisionPreset]:
    """Return the formats of weights that are not stored in bf16."""
    model_type = setting.model.architecture.model_type
    stored = checkpoint_dtype(model_type, setting.said.model.config)
    if stored is Dtype.BF16:
        return default
    return Default(_STORED[stored], f"{default.source}; the checkpoint is {stored.value}")


_STORED = {Dtype.FP32: PrecisionPreset.FP32, Dtype.FP16: PrecisionPreset.FP16_TRUE}
_FP16_INSTEAD = {
    PrecisionPreset.BF16_TRUE: PrecisionPreset.FP16_TRUE,
    PrecisionPreset.BF16_MIXED: PrecisionPreset.FP16_MIXED,
    PrecisionPreset.BF16_MASTER: PrecisionPreset.FP16_MASTER,
}
_MASTER = {
    Dtype.BF16: PrecisionPreset.BF16_MASTER,
    Dtype.FP16: PrecisionPreset.FP16_MASTER,
}


def _weights(said: PrecisionDescription) -> Default[Dtype]:
    if said.compute is None or said.compute is Dtype.FP32:
        return Default(Dtype.FP32, "torch default")
    if said.autocast and not said.master_weights:
        return Default(Dtype.FP32, "vramgate: autocast is for fp32 weights")
    return Default(said.compute, "vramgate: the compute dtype")


def _compute(weights: Dtype, *, autocast: bool | None) -> Default[Dtype]:
    if weights in HALVES:
        return Default(weights, "vramgate: the dtype of the weights")
    if autocast:
        return Default(Dtype.BF16, "vramgate: autocast to bf16")
    return Default(Dtype.FP32, "vramgate: the dtype of the weights")


def _master(
    weights: Dtype, compute: Dtype, said: PrecisionDescription, sharding: Sharding
) -> Default[bool]:
    if (
        weights in HALVES
        and compute is weights
        and not said.autocast
        and sharding.implementation in KEEPS_MASTER
    ):
        return on(f"{sharding.implementation.value}: 16-bit weights keep an fp32 copy")
    return off("vramgate: no engine that keeps one")


def _autocast(setting: Setting, weights: Dtype, compute: Dtype, *, master: bool) -> Default[bool]:
    if master:
        return off("the engine casts the module")
    if compute is Dtype.FP32:
        return off("fp32 products are not cast")
    if weights is compute:
        return setting.defaults.precision.autocast_16bit_weights
    return on("weights and compute differ")


def _gradients(
    setting: Setting, sharding: Sharding, trainable: Dtype, *, master: bool
) -> Default[Dtype]:
    """Return the dtype gradients are kept in.

    Sources: Megatron-LM ``arguments.py`` sets accumulate_allreduce_grads_in_fp32 with --bf16;
    DeepSpeed ``runtime/engine.py`` ``get_data_types``: the model's dtype, but fp32 for bf16 without
    ZeRO up to 0.17 (commit 889f0ead, 2025-08); autograd gives a gradient its parameter's dtype.
    """
    if not master:
        return Default(trainable, "torch: the dtype of what trains")
    if sharding.implementation is ShardingImplementation.MEGATRON and trainable is Dtype.BF16:
        return Default(Dtype.FP32, "Megatron-LM default (gradients accumulate in fp32 with bf16)")
    if sharding.implementation is not ShardingImplementation.DEEPSPEED:
        return Default(trainable, "torch: the dtype of what trains")
    version = setting.stack.version("deepspeed")
    is_old = version < (0, 18) if version is not None else setting.stack.torch < (2, 9)
    if sharding.zero_stage == 0 and trainable is Dtype.BF16 and is_old:
        return Default(Dtype.FP32, "DeepSpeed before 0.18 default (bf16 without ZeRO)")
    return Default(trainable, "DeepSpeed default (grad_accum_dtype)")


def _states(
    setting: Setting, trainable: Dtype, optimizer: OptimizerName, *, master: bool
) -> Default[Dtype]:
    if master:
        full = setting.said.method.kind in {None, MethodKind.FULL}
        trained_with = (setting.framework, setting.model.architecture.model_type)
        if full and trained_with in _BF16_MOMENTS:
            return Default(Dtype.BF16, _BF16_MOMENTS[trained_with])
        return Default(Dtype.FP32, "the states follow the fp32 master copy")
    if optimizer in _FP32_STATES:
        return Default(Dtype.FP32, f"{optimizer.value}: unquantised states are fp32")
    return Default(trainable, "torch: states take the dtype of what trains")


_BF16_MOMENTS = {
    (
        "megatron",
        "deepseek_v3",
    ): "DeepSeek-V3's recipes (arXiv 2412.19437; Megatron-Bridge exp_avg_dtype bfloat16)"
}
"""Framework and family whose published recipes keep both moments in bf16 beside an fp32 copy."""
_FP32_STATES = frozenset(
    {
        # bitsandbytes optim/optimizer.py: get_state_buffer makes fp32 or uint8 whatever the
        # parameter's dtype.
        OptimizerName.ADAMW_8BIT,
        OptimizerName.PAGED_ADAMW,
        OptimizerName.PAGED_ADAMW_8BIT,
        OptimizerName.LION_8BIT,
        OptimizerName.PAGED_LION_8BIT,
        OptimizerName.GALORE_ADAMW_8BIT,
        # transformers optimization.py Adafactor and torch's keep fp32 factors.
        OptimizerName.ADAFACTOR,
    }
)
