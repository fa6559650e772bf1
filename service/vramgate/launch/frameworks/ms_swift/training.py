"""How ms-swift trains: sizes, number formats, optimizer, checkpointing, attention, loss and kernels.

Sources: ms-swift 4.6.0 ``trainers/arguments.py``, ``arguments/base_args/model_args.py``
(``_init_mixed_precision``), ``arguments/sft_args.py``, ``model/utils.py``, ``optimizers/mapping.py``;
2.6.1 ``llm/utils/argument.py`` (``select_dtype``).
"""

from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Dtype,
    Loss,
    OptimizerName,
    Packing,
)
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.optimizers import say_optimizer
from vramgate.launch.frameworks.tuners import (
    at_least_one,
    check_halves,
    chosen,
    held,
    nested,
    say_checkpointing_mode,
    say_formats,
    say_liger,
    say_mixed,
    say_sizes,
    say_trainer_rest,
    say_unknown,
)
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings

_ATTENTION = {
    "flash_attn": AttentionImplementation.FLASH_2,
    "flash_attention_2": AttentionImplementation.FLASH_2,
    "flash_attention_3": AttentionImplementation.FLASH_3,
    "sdpa": AttentionImplementation.SDPA,
    "eager": AttentionImplementation.EAGER,
    "flex_attention": AttentionImplementation.FLEX,
}
_DTYPES = {
    "bfloat16": Dtype.BF16,
    "float16": Dtype.FP16,
    "float32": Dtype.FP32,
}
_OLD_DTYPES = {"bf16": Dtype.BF16, "fp16": Dtype.FP16, "fp32": Dtype.FP32}
_MUON = frozenset({"muon", "muonclip"})
_UNLIMITED = -1


def say_training(settings: Settings, command: str, draft: Draft, *, is_whole: bool) -> None:
    """Say how the model trains; ``is_whole``: whether everything that decides it is in sight."""
    _say_sizes(settings, draft)
    _say_packing(settings, draft)
    _say_optimizer(settings, draft)
    _say_checkpointing(settings, draft)
    _say_attention(settings, draft)
    _say_kernels(settings, command, draft)
    if is_whole:
        _warn_of_evaluation(settings, draft)
    say_trainer_rest(settings, draft)


def _say_sizes(settings: Settings, draft: Draft) -> None:
    length = settings.whole("max_length")
    if isinstance(length, Found) and length.value == _UNLIMITED:
        settings = Settings({name: one for name, one in settings.items() if name != "max_length"})
    say_sizes(
        settings, draft, "per_device_train_batch_size", "batch_size", sequence_length="max_length"
    )


def _say_packing(settings: Settings, draft: Draft) -> None:
    """Say packed rows of packing_length (max_length), or rows joined without padding."""
    packing, free = settings.flag("packing"), settings.flag("padding_free")
    if isinstance(packing, Found) and packing.value:
        draft.say("packing", Found(Packing.PACKED, packing.source))
        draft.say("sequence_length", at_least_one(settings.whole("packing_length")))
    elif isinstance(free, Found) and free.value:
        draft.say("packing", Found(Packing.PADDING_FREE, free.source))
    else:
        for reading in (packing, free):
            if not isinstance(reading, Found):
                draft.say("packing", reading)


def loaded_dtype(settings: Settings, kind: str) -> Reading[Dtype]:
    """Return the format that weights are loaded in, where it is said."""
    new = chosen(settings.text("torch_dtype"), tuple(_DTYPES))
    if isinstance(new, Found):
        return Found(_DTYPES[new.value], new.source)
    if new is not None:
        return new
    old = chosen(settings.text("dtype"), (*_OLD_DTYPES, "auto"))
    if not isinstance(old, Found):
        return old
    if old.value == "auto":
        return None
    dtype = _OLD_DTYPES[old.value]
    if dtype is Dtype.FP16 and kind == "full":
        dtype = Dtype.FP32  # select_dtype: fp32 weights under fp16 autocast
    return Found(dtype, old.source)


def autocast_dtype(settings: Settings) -> Found[Dtype | None] | None:
    """Return the format of products under autocast, None in it where it is off; None: not said."""
    bf16, fp16 = settings.flag("bf16"), settings.flag("fp16")
    for flag, dtype in ((bf16, Dtype.BF16), (fp16, Dtype.FP16)):
        if isinstance(flag, Found) and flag.value:
            return Found(dtype, flag.source)
    if isinstance(bf16, Found) and isinstance(fp16, Found):
        return Found(None, f"{bf16.source}, {fp16.source}")
    new, old = settings.text("torch_dtype"), settings.text("dtype")
    if isinstance(new, Found) and new.value.lower() in _DTYPES:
        # _init_mixed_precision: fp16 for float16 and float32, bf16 for bfloat16.
        half = Dtype.BF16 if new.value.lower() == "bfloat16" else Dtype.FP16
        return Found(half, new.source)
    if isinstance(old, Found) and old.value.lower() in _OLD_DTYPES:
        named = _OLD_DTYPES[old.value.lower()]
        return Found(None if named is Dtype.FP32 else named, old.source)
    return None


def say_precision(settings: Settings, kind: str, draft: Draft) -> None:
    """Say the number formats; after the sharding, which has a word in them."""
    check_halves(settings, draft)
    weights, products = loaded_dtype(settings, kind), autocast_dtype(settings)
    if weights is not None and not isinstance(weights, Found):
        draft.say("precision.weights", weights)
    if settings.text("deepspeed", "deepspeed_config_path") is not None:
        if products is not None and products.value is not None:
            draft.say("precision.compute", Found(products.value, products.source))
        return
    if products is None:
        return
    loaded = weights.value if isinstance(weights, Found) else products.value or Dtype.BF16
    if products.value is None:
        say_formats(Found(loaded, products.source), draft, compute=loaded, autocast=False)
    else:
        weights_held = held(loaded, draft, trains_whole=kind == "full")
        say_mixed(Found(products.value, products.source), draft, weights=weights_held)


def _say_optimizer(settings: Settings, draft: Draft) -> None:
    say_optimizer(settings.text("optim"), draft)
    galore, plugin = settings.flag("use_galore"), settings.text("optimizer")
    if isinstance(galore, Found) and galore.value:
        _say_galore(galore, settings, draft)
    elif isinstance(plugin, Found) and plugin.value.lower() in _MUON:
        draft.forget("optimizer")
        draft.say("optimizer.name", Found(OptimizerName.MUON, plugin.source))


def _say_galore(galore: Found[bool], settings: Settings, draft: Draft) -> None:
    draft.forget("optimizer")
    quantized = settings.flag("galore_quantization")
    in_8_bits = isinstance(quantized, Found) and quantized.value
    name = OptimizerName.GALORE_ADAMW_8BIT if in_8_bits else OptimizerName.GALORE_ADAMW
    draft.say("optimizer.name", Found(name, galore.source))
    if in_8_bits:
        draft.say("optimizer.quantized", quantized)
    draft.say("optimizer.rank", at_least_one(settings.whole("galore_rank")))
    each = settings.flag("galore_optim_per_parameter")
    if isinstance(each, Found) and each.value:
        draft.say("optimizer.in_backward", each)


def _say_checkpointing(settings: Settings, draft: Draft) -> None:
    on = settings.flag("gradient_checkpointing")
    if not isinstance(on, Found):
        draft.say("activation_checkpointing.mode", on)
    else:
        mode = CheckpointMode.FULL if on.value else CheckpointMode.NONE
        if not say_checkpointing_mode(Found(mode, on.source), draft) or not on.value:
            return
    kwargs = nested(settings, "gradient_checkpointing_kwargs")
    draft.say("activation_checkpointing.reentrant", kwargs.flag("use_reentrant"))


def _say_attention(settings: Settings, draft: Draft) -> None:
    said, old = settings.text("attn_impl"), settings.flag("use_flash_attn")
    if isinstance(said, Found):
        name = said.value.strip().lower()
        if name in _ATTENTION:
            draft.say("attention", Found(_ATTENTION[name], said.source))
            return
        draft.warn("attention_unknown_to_the_model", f"The attention {name} is not estimated.")
        say_unknown(
            "attention",
            said,
            draft,
            reason=f"{name} is no attention that is estimated",
            hint="flash_attention_2 keeps what most of them keep: say it with VRAMGATE_ATTENTION",
        )
    elif isinstance(old, Found) and old.value:
        draft.say("attention", Found(AttentionImplementation.FLASH_2, old.source))
    else:
        draft.say("attention", said)


def _say_kernels(settings: Settings, command: str, draft: Draft) -> None:
    liger = settings.flag("use_liger_kernel", "use_liger")
    if isinstance(liger, Found) and liger.value:
        task = draft.said("task")
        of_logits = task is None or task.value in {"sft", "pretrain"}
        say_liger(
            liger.source, draft, Loss.FUSED_LINEAR if of_logits and command != "rlhf" else None
        )
    backend = settings.text("tuner_backend")
    if isinstance(backend, Found) and backend.value.lower() == "unsloth":
        draft.warn(
            "unsloth", "tuner_backend unsloth brings kernels of its own, which are not estimated."
        )


def _warn_of_evaluation(settings: Settings, draft: Draft) -> None:
    evaluated = settings.whole("per_device_eval_batch_size", "eval_batch_size")
    micro = draft.said("micro_batch_size")
    if isinstance(evaluated, Found) and evaluated.value > (micro.value if micro else 1):
        draft.warn(
            "larger_evaluation_batch",
            f"{evaluated.source} {evaluated.value} is more than a training micro-batch: evaluation"
            " may peak above the estimate.",
        )
