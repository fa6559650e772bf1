"""Number formats of Megatron-LM.

Sources, Megatron-LM d98e8a64: ``training/arguments.py: validate_args`` (bf16 accumulates in fp32
unless told otherwise, fp16 does not), ``core/optimizer/optimizer_config.py`` (precision-aware
optimizer), ``core/distributed/distributed_data_parallel_config.py``;
``docs/user-guide/features/dist_optimizer.md`` (bytes a parameter).
"""

from collections.abc import Mapping
from dataclasses import fields

from vramgate.costmodel.job import Dtype
from vramgate.jobs.precision import PrecisionPreset, preset_description
from vramgate.jobs.vocabulary import LinearFormat
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.megatron.arguments import Arguments, flag
from vramgate.launch.reading import Found, Reading, Unseen, value_or

_FORMATS: Mapping[str, LinearFormat] = {
    "delayed": LinearFormat.FP8_DELAYED,
    "tensorwise": LinearFormat.FP8_CURRENT,
    "blockwise": LinearFormat.FP8_BLOCK,
    "mxfp8": LinearFormat.MXFP8,
}
_DTYPES = {"fp32": Dtype.FP32, "bf16": Dtype.BF16, "fp16": Dtype.FP16, "fp8": Dtype.FP8}
_HALVES: Mapping[str, PrecisionPreset] = {
    "bf16": PrecisionPreset.BF16_MASTER,
    "fp16": PrecisionPreset.FP16_MASTER,
}
_FSDP_GRADIENTS_FROM = (0, 17)


def say_precision(arguments: Arguments, draft: Draft) -> None:
    """Say the formats of weights, products, gradients and states."""
    hidden = arguments.unseen("bf16", "fp16", "mixed_precision", "params_dtype")
    if hidden is not None:
        draft.unknown("precision", hidden)
        return
    half = _half(arguments, draft)
    if half is not None:
        draft.say_preset(Found(_HALVES[half.value], half.source))
        _say_gradients(arguments, half, draft)
    elif not arguments.on("bf16", "fp16") and (arguments.is_whole or _says_neither(arguments)):
        _assume_fp32(draft)
    _say_linear(arguments, draft)
    _say_aware_optimizer(arguments, draft)


def _says_neither(arguments: Arguments) -> bool:
    """Return whether both 16-bit formats are said to be off."""
    return all(isinstance(arguments.switch(name), Found) for name in _HALVES)


def _half(arguments: Arguments, draft: Draft) -> Found[str] | None:
    bf16, fp16 = arguments.on("bf16"), arguments.on("fp16")
    if bf16 and fp16:
        draft.problem(
            Problem(
                rule="fp16_with_bf16",
                detail="fp16 and bf16 exclude each other",
                fix="leave one of them out",
                values={fp16.source: True, bf16.source: True},
                field="precision",
            )
        )
        return None
    if bf16 or fp16:
        found = bf16 or fp16
        return Found("bf16" if bf16 else "fp16", found.source) if found else None
    for name in ("mixed_precision", "params_dtype"):
        named = arguments.settings.text(name)
        if isinstance(named, Found):
            word = named.value.lower().replace("bfloat16", "bf16").replace("float16", "fp16")
            half = next((one for one in _HALVES if one in word), None)
            if half is not None:
                return Found(half, named.source)
    return None


def _assume_fp32(draft: Draft) -> None:
    preset = preset_description(PrecisionPreset.FP32)
    for one in fields(preset):
        value = getattr(preset, one.name)
        if value is not None:
            draft.assume(
                f"precision.{one.name}", value, "Megatron-LM default (neither --bf16 nor --fp16)"
            )


def _say_gradients(arguments: Arguments, half: Found[str], draft: Draft) -> None:
    """Say the format that gradients are accumulated in."""
    field, own = "precision.gradients", Dtype(half.value)
    hidden = arguments.unseen("main_grads_dtype", "megatron_fsdp_main_grads_dtype")
    if hidden is not None:
        draft.say(field, hidden)
        return
    if arguments.on("use_megatron_fsdp"):
        fsdp = _fsdp_gradients(arguments, own)
        if fsdp is not None:
            draft.say(field, fsdp)
            return
    lowered = arguments.on("grad_reduce_in_bf16")
    raised = arguments.on("accumulate_allreduce_grads_in_fp32")
    if half.value == "bf16":
        main = arguments.settings.text("main_grads_dtype")
        low = isinstance(main, Found) and main.value == "bf16"
        if lowered is not None:
            draft.say(field, Found(own, lowered.source))
        elif low and isinstance(main, Found):
            draft.say(field, Found(own, main.source))
            _check_raised(raised, main, draft)
        else:
            source = raised.source if raised else half.source
            draft.say(field, Found(Dtype.FP32, source))
    elif raised is not None:
        draft.say(field, Found(Dtype.FP32, raised.source))
    else:
        draft.say(field, Found(own, half.source))


def _check_raised(raised: Found[bool] | None, main: Found[str], draft: Draft) -> None:
    if raised is not None:
        draft.problem(
            Problem(
                rule="bf16_gradients_accumulated_in_fp32",
                detail="main-grads-dtype bf16 and accumulate-allreduce-grads-in-fp32 exclude each"
                " other",
                fix="leave one of them out",
                values={main.source: main.value, raised.source: True},
                field="precision.gradients",
            )
        )


def _fsdp_gradients(arguments: Arguments, own: Dtype) -> Found[Dtype] | None:
    """Return what Megatron-FSDP accumulates in: its own option from core 0.17 on, by default as it is."""
    named = arguments.settings.text("megatron_fsdp_main_grads_dtype")
    if isinstance(named, Found) and named.value in _DTYPES:
        return Found(_DTYPES[named.value], named.source)
    fsdp, version = arguments.on("use_megatron_fsdp"), arguments.version
    older = version is not None and version < _FSDP_GRADIENTS_FROM
    return Found(own, fsdp.source) if fsdp is not None and not older else None


def _say_linear(arguments: Arguments, draft: Draft) -> None:
    """Say the format of the matrix products where it is lower."""
    settings, field = arguments.settings, "precision.linear"
    fp8, fp4 = settings.text("fp8_format"), settings.text("fp4_format")
    if isinstance(fp8, Found) and isinstance(fp4, Found):
        draft.problem(
            Problem(
                rule="fp8_with_fp4",
                detail="fp8-format and fp4-format exclude each other",
                fix="leave one of them out",
                values={fp8.source: fp8.value, fp4.source: fp4.value},
                field=field,
            )
        )
        return
    if fp4 is not None:
        draft.say(field, _format_of(fp4, Found(LinearFormat.NVFP4, "")))
    if fp8 is not None:
        recipe = settings.text("fp8_recipe")
        draft.say(field, _recipe(fp8, recipe))
    if fp8 is None and fp4 is None:
        _say_named_linear(arguments, draft)
    kept = arguments.on("fp8_param_gather", "fp4_param_gather")
    if kept is not None and (fp8 is not None or fp4 is not None):
        draft.warn(
            "low_precision_weights",
            f"{kept.source}: weights are kept in the products' format; with their transposes they"
            " are counted as 16-bit ones.",
        )


def _format_of(said: Reading[str], value: Found[LinearFormat]) -> Reading[LinearFormat]:
    return Found(value.value, said.source) if isinstance(said, Found) else said


def _recipe(fp8: Reading[str], recipe: Reading[str]) -> Reading[LinearFormat]:
    if not isinstance(fp8, Found):
        return fp8
    if isinstance(recipe, Unseen):
        return recipe
    name = value_or(recipe, "delayed")
    known = _FORMATS.get(name)
    if known is None:
        return Unseen(fp8.source, f"the recipe {name} is not known here", "name the format")
    source = recipe.source if isinstance(recipe, Found) else fp8.source
    return Found(known, source)


_NAMED: Mapping[str, LinearFormat] = {
    "mxfp8": LinearFormat.MXFP8,
    "nvfp4": LinearFormat.NVFP4,
    "delayed": LinearFormat.FP8_DELAYED,
    "subchannel": LinearFormat.FP8_BLOCK,
    "current": LinearFormat.FP8_CURRENT,
    "fp8": LinearFormat.FP8_DELAYED,
}
"""Words of Megatron-Bridge's ``mixed_precision`` recipes (``bf16_with_mxfp8_mixed``)."""


def _say_named_linear(arguments: Arguments, draft: Draft) -> None:
    named = arguments.settings.text("mixed_precision")
    if isinstance(named, Found):
        word = next((one for one in _NAMED if one in named.value.lower()), None)
        if word is not None:
            draft.say("precision.linear", Found(_NAMED[word], named.source))


def _say_aware_optimizer(arguments: Arguments, draft: Draft) -> None:
    """Say what the precision-aware optimizer keeps its states in."""
    settings = arguments.settings
    moments = [settings.text(name) for name in ("exp_avg_dtype", "exp_avg_sq_dtype")]
    aware = arguments.on("use_precision_aware_optimizer")
    if aware is None:
        _check_unaware(arguments, draft)
        return
    hidden = next((one for one in moments if isinstance(one, Unseen)), None)
    if hidden is not None:
        draft.say("precision.optimizer_states", hidden)
        return
    dtypes = [_DTYPES.get(one.value, Dtype.FP32) for one in moments if isinstance(one, Found)]
    sources = [one.source for one in moments if isinstance(one, Found)]
    if len(dtypes) < len(moments):
        dtypes.append(Dtype.FP32)
    widest = max(dtypes, key=lambda dtype: dtype.bytes)
    if sources:
        draft.say("precision.optimizer_states", Found(widest, sources[0]))
    if len(set(dtypes)) > 1:
        draft.warn(
            "moments_differ",
            f"{sources[0]}: the two moments have different formats; both are counted as"
            f" {widest.value}.",
        )
    _warn_of_master(arguments, aware, draft)


def _warn_of_master(arguments: Arguments, aware: Found[bool], draft: Draft) -> None:
    master = arguments.settings.text("main_params_dtype")
    if isinstance(master, Found) and master.value == "fp16":
        draft.warn(
            "master_weights_in_fp16",
            f"{master.source} fp16: the master copy is counted in fp32, 2 bytes a parameter more.",
        )
    elif arguments.on("bf16"):
        # optimizer_config.py: store_param_remainders, from Transformer Engine 2.1 on.
        draft.warn(
            "master_weight_remainders",
            f"{aware.source}: beside bf16 weights the master copy keeps the lower 16 bits only;"
            " it is counted in fp32, 2 bytes a parameter more.",
        )


def _check_unaware(arguments: Arguments, draft: Draft) -> None:
    for name in ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"):
        said = arguments.settings.text(name)
        if arguments.is_whole and isinstance(said, Found) and said.value not in {"fp32", "float32"}:
            draft.problem(
                Problem(
                    rule="dtype_without_precision_aware_optimizer",
                    detail=f"{flag(name)} {said.value} needs use-precision-aware-optimizer",
                    fix="add --use-precision-aware-optimizer",
                    values={said.source: said.value},
                    field="precision.optimizer_states",
                )
            )
