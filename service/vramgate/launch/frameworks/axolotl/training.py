"""How axolotl trains: sizes, number formats, optimizer, checkpointing, attention, loss and kernels.

Sources: axolotl 0.19.0 ``utils/config/__init__.py`` (``resolve_dtype``, ``normalize_config``),
``core/builders/base.py``, ``core/builders/causal.py``, ``loaders/model.py``,
``utils/schemas/enums.py``, ``integrations/liger``, ``integrations/cut_cross_entropy``.
"""

from vramgate.costmodel.job import (
    AttentionImplementation,
    Dtype,
    Loss,
    Packing,
)
from vramgate.jobs.vocabulary import FusedKernel, LinearFormat
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.axolotl.checkpointing import say_checkpointing
from vramgate.launch.frameworks.optimizers import say_optimizer
from vramgate.launch.frameworks.tuners import (
    at_least_one,
    chosen,
    held,
    is_on,
    nested,
    say_formats,
    say_mixed,
    say_sizes,
    say_trainer_rest,
    say_unknown,
)
from vramgate.launch.reading import Found, Reading
from vramgate.launch.settings import Settings

_ATTENTION = {
    "eager": AttentionImplementation.EAGER,
    "sdpa": AttentionImplementation.SDPA,
    "flash_attention_2": AttentionImplementation.FLASH_2,
    "flash_attention_3": AttentionImplementation.FLASH_3,
    "flash_attention_torch": AttentionImplementation.FLASH_2,
    "flex_attention": AttentionImplementation.FLEX,
    "kernels-community/flash-attn2": AttentionImplementation.FLASH_2,
    "kernels-community/flash-attn3": AttentionImplementation.FLASH_3,
    "kernels-community/vllm-flash-attn3": AttentionImplementation.FLASH_3,
}
FLAGS = {
    "xformers_attention": "xformers",
    "sage_attention": "sage",
    "flex_attention": "flex_attention",
    "flash_attention": "flash_attention_2",
    "sdp_attention": "sdpa",
    "eager_attention": "eager",
}
"""Switches of before 0.16, in the order in which the first one that is on counts."""

VARIABLE_LENGTH = frozenset(
    {
        AttentionImplementation.FLASH_2,
        AttentionImplementation.FLASH_3,
        AttentionImplementation.FLEX,
    }
)
_FP8 = {
    "tensorwise": LinearFormat.FP8_TENSORWISE,
    "rowwise": LinearFormat.FP8_ROWWISE,
    "rowwise_with_gw_hp": LinearFormat.FP8_ROWWISE,
}
_LIGER_KERNELS = {
    "liger_rms_norm": FusedKernel.RMS_NORM,
    "liger_rope": FusedKernel.ROPE,
    "liger_glu_activation": FusedKernel.SWIGLU,
    "liger_swiglu": FusedKernel.SWIGLU,
}
LOSSES = {
    "cut_cross_entropy": Loss.FUSED_LINEAR,
    "liger_fused_linear_cross_entropy": Loss.FUSED_LINEAR,
    "liger_cross_entropy": Loss.FUSED,
    "chunked_cross_entropy": Loss.CHUNKED,
    "flash_attn_cross_entropy": Loss.FUSED,
}
_QGALORE_RANK = 256  # utils/schemas/training.py: qgalore_rank
_LORA_KERNELS = ("lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel")


def say_training(settings: Settings, draft: Draft, *, is_whole: bool) -> None:
    """Say how the model trains; ``is_whole``: whether everything that decides it is in sight."""
    _say_sizes(settings, draft)
    _say_packing(settings, draft)
    _say_fp8(settings, draft)
    _say_optimizer(settings, draft)
    say_checkpointing(settings, draft, is_whole=is_whole)
    _say_attention(settings, draft)
    _say_kernels(settings, draft)
    _say_compile(settings, draft)


def _say_sizes(settings: Settings, draft: Draft) -> None:
    say_sizes(settings, draft, "micro_batch_size", sequence_length="sequence_len")
    micro = settings.whole("micro_batch_size")
    evaluated = settings.whole("eval_batch_size")
    if isinstance(evaluated, Found) and evaluated.value > (
        micro.value if isinstance(micro, Found) else 1
    ):
        draft.warn(
            "larger_evaluation_batch",
            f"{evaluated.source} {evaluated.value} is more than a training micro-batch: evaluation"
            " may peak above the estimate.",
        )
    whole = settings.whole("batch_size")
    if isinstance(whole, Found) and settings.whole("gradient_accumulation_steps") is None:
        # utils/schemas/training.py: gradient_accumulation_steps 1, so normalize_config divides nothing.
        draft.warn(
            "batch_size_ignored",
            f"{whole.source} {whole.value} has no effect: gradient_accumulation_steps stays 1. Older"
            " releases divided it by micro_batch_size.",
        )


def _say_packing(settings: Settings, draft: Draft) -> None:
    """Say packed or flattened rows; padded ones are the default."""
    packing, flattening = settings.flag("sample_packing"), settings.text("batch_flattening")
    if isinstance(packing, Found) and packing.value:
        draft.say("packing", Found(Packing.PACKED, packing.source))
    elif isinstance(flattening, Found) and flattening.value.lower() in {"true", "1", "yes"}:
        draft.say("packing", Found(Packing.PADDING_FREE, flattening.source))
    elif isinstance(flattening, Found) and flattening.value.lower() == "auto":
        # check_batch_flattening_fa: on with a variable-length attention and more than one row.
        attention, rows = attention_said(settings), settings.whole("micro_batch_size")
        varies = isinstance(attention, Found) and _ATTENTION.get(attention.value) in VARIABLE_LENGTH
        if varies and isinstance(rows, Found) and rows.value > 1:
            draft.say("packing", Found(Packing.PADDING_FREE, flattening.source))
    elif packing is not None and not isinstance(packing, Found):
        draft.say("packing", packing)


def say_precision(settings: Settings, draft: Draft) -> None:
    """Say the number formats where they do not hang on the card, as ``bf16: auto`` does.

    Said after the sharding: DeepSpeed's engine has formats of its own, and under FSDP accelerate
    holds what trains in fp32.
    """
    bf16 = settings.text("bf16")
    if settings.text("deepspeed") is not None:
        if isinstance(bf16, Found) and bf16.value.lower() in {"true", "yes", "1"}:
            draft.say("precision.compute", Found(Dtype.BF16, bf16.source))
        return
    word = bf16.value.lower() if isinstance(bf16, Found) else "auto"
    fp16, halves = settings.flag("fp16"), settings.flag("bfloat16")
    if isinstance(bf16, Found) and word in {"true", "yes", "1"}:
        _say_amp(Dtype.BF16, bf16.source, settings, draft)
    elif isinstance(bf16, Found) and word == "full":
        say_formats(Found(Dtype.BF16, bf16.source), draft, compute=Dtype.BF16, autocast=False)
    elif isinstance(fp16, Found) and fp16.value:
        _say_amp(Dtype.FP16, fp16.source, settings, draft)
    elif isinstance(halves, Found) and halves.value:
        _say_amp(Dtype.BF16, halves.source, settings, draft)
    elif isinstance(bf16, Found) and word in {"false", "no", "0"}:
        _say_without_amp(bf16.source, settings, draft)
    elif bf16 is not None and not isinstance(bf16, Found):
        draft.say("precision.compute", bf16)


def _say_amp(dtype: Dtype, source: str, settings: Settings, draft: Draft) -> None:
    weights = held(dtype, draft, trains_whole=settings.text("adapter") is None)
    say_mixed(Found(dtype, source), draft, weights=weights)


def _say_without_amp(source: str, settings: Settings, draft: Draft) -> None:
    in_fp16 = is_on(settings.flag("float16")) or is_on(settings.flag("load_in_8bit"))
    dtype = Dtype.FP16 if in_fp16 else Dtype.FP32
    say_formats(Found(dtype, source), draft, compute=dtype, autocast=False)


def _say_fp8(settings: Settings, draft: Draft) -> None:
    fp8 = settings.flag("fp8")
    if not (isinstance(fp8, Found) and fp8.value):
        return
    recipe = chosen(nested(settings, "fp8_config").text("recipe"), tuple(_FP8))
    if isinstance(recipe, Found):
        draft.say("precision.linear", Found(_FP8[recipe.value], recipe.source))
    elif recipe is None:
        draft.assume(
            "precision.linear", LinearFormat.FP8_TENSORWISE, "axolotl default (fp8_config)"
        )
    else:
        draft.say("precision.linear", recipe)


def _say_optimizer(settings: Settings, draft: Draft) -> None:
    optimizer = settings.text("optimizer")
    say_optimizer(optimizer, draft)
    if isinstance(optimizer, Found) and optimizer.value.lower() == "q_galore_adamw8bit":
        rank = at_least_one(settings.whole("qgalore_rank"))
        if rank is None:
            draft.assume("optimizer.rank", _QGALORE_RANK, "axolotl default (qgalore_rank)")
        else:
            draft.say("optimizer.rank", rank)


def attention_said(settings: Settings) -> Reading[str]:
    """Return the attention in its present name, whether said by that or by an old switch."""
    said = settings.text("attn_implementation")
    if said is not None:
        return said
    for flag, name in FLAGS.items():
        old = settings.flag(flag)
        if isinstance(old, Found) and old.value:
            return Found(name, old.source)
    return None


def _say_attention(settings: Settings, draft: Draft) -> None:
    said = attention_said(settings)
    if not isinstance(said, Found):
        draft.say("attention", said)
        return
    name = said.value.partition(":")[0].partition("@")[0].strip()
    if name in _ATTENTION:
        draft.say("attention", Found(_ATTENTION[name], said.source))
        return
    draft.warn("attention_unknown_to_the_model", f"The attention {said.value} is not estimated.")
    say_unknown(
        "attention",
        said,
        draft,
        reason=f"{said.value} is no attention that is estimated",
        hint="flash_attention_2 keeps what most of them keep: say it with VRAMGATE_ATTENTION",
    )


def plugins(settings: Settings) -> str:
    """Return the plugins as one text in small letters."""
    names = settings.texts("plugins")
    return " ".join(names.value).lower() if isinstance(names, Found) else ""


def effective(settings: Settings, name: str) -> Found[bool] | None:
    """Return a switch of a loss or kernel where it is on, and its plugin is there to see it."""
    flag = settings.flag(name)
    loaded = plugins(settings)
    if name == "cut_cross_entropy":
        if "cutcrossentropyplugin" not in loaded:
            return None
        if flag is None:
            # integrations/cut_cross_entropy/args.py: on with its plugin.
            return Found(value=True, source=settings["plugins"].source)
    elif name.startswith("liger_") and "ligerplugin" not in loaded:
        return None
    return flag if isinstance(flag, Found) and flag.value else None


def _say_kernels(settings: Settings, draft: Draft) -> None:
    found = [(kernel, effective(settings, name)) for name, kernel in _LIGER_KERNELS.items()]
    on = [(kernel, flag) for kernel, flag in found if flag is not None]
    if on:
        kernels = tuple(dict.fromkeys(kernel for kernel, _ in on))
        draft.say("fused_kernels", Found(kernels, ", ".join(flag.source for _, flag in on)))
    for name, loss in LOSSES.items():
        flag = effective(settings, name)
        if flag is not None:
            draft.say("loss", Found(loss, flag.source))
    _warn_of_idle(settings, draft)
    _warn_of_rest(settings, draft)


def _warn_of_rest(settings: Settings, draft: Draft) -> None:
    """Warn of what saves memory that the estimate does not know to be saved."""
    for name in _LORA_KERNELS:
        kernel = settings.flag(name)
        if isinstance(kernel, Found) and kernel.value:
            draft.warn(
                "lora_kernels", f"{kernel.source}: what fused adapters keep less is not estimated."
            )
    for name, what in (
        ("tiled_mlp", "computes the feed-forward in tiles; the estimate computes it whole"),
        ("layer_offloading", "keeps frozen layers in host memory; the estimate keeps them here"),
        ("quantize_moe_experts", "quantises experts on loading; the estimate leaves them"),
        ("ple_cpu_offload", "keeps a table in host memory; the estimate keeps it here"),
    ):
        flag = settings.flag(name)
        if isinstance(flag, Found) and flag.value:
            draft.warn(name, f"{flag.source} {what}.")


def _warn_of_idle(settings: Settings, draft: Draft) -> None:
    """Warn of switches whose plugin is not among the plugins: nobody reads them."""
    for name in (*_LIGER_KERNELS, *LOSSES):
        flag = settings.flag(name)
        if isinstance(flag, Found) and flag.value and effective(settings, name) is None:
            draft.warn("plugin_missing", f"{flag.source} has no effect without its plugin.")


def _say_compile(settings: Settings, draft: Draft) -> None:
    said = settings.text("torch_compile")
    if isinstance(said, Found) and said.value.lower() == "auto":
        # check_torch_compile_auto: on with torch 2.5.1 or newer.
        draft.say("compile", Found(value=True, source=said.source))
        settings = Settings({key: one for key, one in settings.items() if key != "torch_compile"})
    say_trainer_rest(settings, draft)
