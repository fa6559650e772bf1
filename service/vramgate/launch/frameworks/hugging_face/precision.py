"""Number formats of a run of transformers' Trainer: the dtype it loads, and bf16 or fp16 over it.

``--bf16`` alone runs products under autocast over whatever dtype the weights were loaded in: fp32
before transformers 5.0, from there on the checkpoint's own. Under DeepSpeed the engine casts the
module; under FSDP accelerate casts what trains to fp32.

Sources: transformers 5.24.0 ``training_args.py`` (mixed_precision), ``modeling_utils.py`` (dtype);
accelerate 1.15.0 ``accelerator.py`` (``prepare_model``, the FSDP upcast), ``utils/dataclasses.py``
(``DeepSpeedPlugin.set_mixed_precision``); torch ``amp/grad_scaler.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from vramgate.catalog.models import builtin_models
from vramgate.costmodel.job import Dtype, MethodKind, ShardingImplementation
from vramgate.errors import UnknownNameError
from vramgate.jobs.checkpoints import checkpoint_dtype
from vramgate.jobs.frameworks.defaults import PrecisionDefaults
from vramgate.jobs.frameworks.registry import framework_defaults
from vramgate.jobs.ledger import Default
from vramgate.jobs.precision import PrecisionPreset, preset_description
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.tuners import check_halves, is_on
from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.settings import Settings

_AUTO = "auto"
_LONGEST_NAME = 400
_DTYPES: Mapping[str, Dtype] = {
    "bfloat16": Dtype.BF16,
    "bf16": Dtype.BF16,
    "float16": Dtype.FP16,
    "fp16": Dtype.FP16,
    "half": Dtype.FP16,
    "float32": Dtype.FP32,
    "fp32": Dtype.FP32,
    "float": Dtype.FP32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What is known of a run when its number formats are read."""

    framework: str
    stack: str | None
    kind: MethodKind
    engine: ShardingImplementation | None = None
    """DeepSpeed or FSDP, where one of them shards."""
    dtype: Reading[str] = None
    """What the model is loaded in, as it is written."""

    @property
    def defaults(self) -> PrecisionDefaults:
        """Return the framework's formats at these versions."""
        return framework_defaults(self.framework, self.stack).precision

    @property
    def loaded(self) -> Default[PrecisionPreset]:
        """Return the framework's formats for what trains."""
        defaults = self.defaults
        return {
            MethodKind.LORA: defaults.adapters,
            MethodKind.QLORA: defaults.quantized,
        }.get(self.kind, defaults.full)


def say_precision(settings: Settings, draft: Draft, run: Trained) -> None:
    """Keep the number formats that dtype, bf16 and fp16 come to."""
    check_halves(settings, draft)
    compute = _compute(settings)
    if isinstance(compute, Unseen | Misread):
        draft.say("precision.compute", compute)
        return
    weights = dtype_of(run.dtype)
    if run.engine is ShardingImplementation.DEEPSPEED:
        _say_under_deepspeed(compute, weights, draft, run)
        return
    if compute is None and run.defaults.autocast_16bit_weights.value:
        compute = _default_compute(settings, weights, draft, run)
    if compute is not None:
        draft.say("precision.compute", compute)
        draft.say("precision.autocast", Found(value=True, source=compute.source))
    autocast = draft.said("precision.autocast")
    if autocast is None or not autocast.value:
        _say_weights(weights, draft, run)
        return
    _say_under_autocast(weights, draft, run)
    _check_scaler(settings, weights, draft, run)


def dtype_of(reading: Reading[str]) -> Reading[Dtype]:
    """Return the dtype that a word of torch's names; ``auto`` is the checkpoint's, most often bf16.

    >>> dtype_of(Found("torch.bfloat16", "args[3] --torch_dtype"))
    Found(value=<Dtype.BF16: 'bf16'>, source='args[3] --torch_dtype')
    """
    if not isinstance(reading, Found):
        return reading
    word = reading.value.strip().lower().removeprefix("torch.")
    if word == _AUTO:
        return Found(Dtype.BF16, f"{reading.source}: the checkpoint's dtype, most often bfloat16")
    if word not in _DTYPES:
        return Misread(reading.source, reading.value, "auto, bfloat16, float16 or float32")
    return Found(_DTYPES[word], reading.source)


def _compute(settings: Settings) -> Reading[Dtype]:
    for name, dtype in (("bf16", Dtype.BF16), ("fp16", Dtype.FP16)):
        reading = settings.flag(name)
        if isinstance(reading, Unseen | Misread):
            return reading
        if isinstance(reading, Found) and reading.value:
            return Found(dtype, reading.source)
    return None


def _default_compute(
    settings: Settings, weights: Reading[Dtype], draft: Draft, run: Trained
) -> Found[Dtype] | None:
    """Return what a trainer that is in bf16 unless told otherwise computes in (TRL since 0.19).

    Where nothing of the formats is said, they all stay open for the framework's defaults.
    """
    default, bf16 = run.defaults.autocast_16bit_weights, settings.flag("bf16")
    if isinstance(bf16, Found) and draft.said("precision.compute") is None:
        draft.say("precision.autocast", Found(value=False, source=bf16.source))
        return None
    if not isinstance(weights, Found) or draft.said("precision.compute") is not None:
        return None
    draft.assume("precision.compute", Dtype.BF16, default.source)
    return Found(Dtype.BF16, default.source)


def _say_under_deepspeed(
    compute: Found[Dtype] | None, weights: Reading[Dtype], draft: Draft, run: Trained
) -> None:
    """Say the products alone: the engine casts the module and decides on the rest."""
    if compute is not None:
        draft.say("precision.compute", compute)
    elif draft.said("precision.compute") is None:
        _say_weights(weights, draft, run)


def _say_under_autocast(weights: Reading[Dtype], draft: Draft, run: Trained) -> None:
    upcasts = run.engine is not None and run.kind is MethodKind.FULL
    if upcasts and not (isinstance(weights, Found) and weights.value is Dtype.FP32):
        draft.assume(
            "precision.weights",
            Dtype.FP32,
            "accelerate: with mixed precision FSDP holds what trains in fp32",
        )
    elif weights is not None:
        _say_weights(weights, draft, run)
    elif draft.said("precision.weights") is None:
        loaded = _loaded(draft, run)
        draft.assume("precision.weights", loaded.value, loaded.source)


def _loaded(draft: Draft, run: Trained) -> Default[Dtype]:
    """Return what the weights are loaded in where nobody says it.

    Weights of one half do not train in the other, so fp16 means a checkpoint of fp32, or, under
    adapters, one that is loaded in fp16.
    """
    loaded, source = preset_description(run.loaded.value).weights or Dtype.FP32, run.loaded.source
    if run.defaults.follows_checkpoint:
        loaded = _stored(draft)
    compute = draft.said("precision.compute")
    if compute is not None and {loaded.value, compute.value} == {"bf16", "fp16"}:
        if run.kind is MethodKind.FULL:
            return Default(Dtype.FP32, f"{compute.source}: halves of the other kind do not train")
        return Default(Dtype(compute.value), f"{compute.source}: a base of 16 bits")
    return Default(loaded, source)


def _stored(draft: Draft) -> Dtype:
    """Return the dtype that the model's weights are stored in, as far as it is known here."""
    config, name = draft.said("model.config"), draft.said("model.name")
    if config is not None:
        return checkpoint_dtype(str(config.value.get("model_type")), config.value)
    return _stored_by_name(name.value) if name is not None else Dtype.BF16


@lru_cache(maxsize=1024)
def _stored_by_name(name: str) -> Dtype:
    try:
        entry = builtin_models().resolve(name[:_LONGEST_NAME]).entry
    except UnknownNameError:
        return Dtype.BF16
    return checkpoint_dtype(str((entry.config or {}).get("model_type")))


def _say_weights(weights: Reading[Dtype], draft: Draft, run: Trained) -> None:
    word = run.dtype.value if isinstance(run.dtype, Found) else ""
    if isinstance(weights, Found) and word.strip().lower() == _AUTO:
        draft.assume("precision.weights", weights.value, weights.source)
    else:
        draft.say("precision.weights", weights)


def _check_scaler(settings: Settings, weights: Reading[Dtype], draft: Draft, run: Trained) -> None:
    """Refuse fp16 over weights that are fp16 and train: gradients of fp16 cannot be unscaled."""
    fp16 = settings.flag("fp16")
    if not (is_on(fp16) and isinstance(fp16, Found) and isinstance(weights, Found)):
        return
    if weights.value is Dtype.FP16 and run.kind is MethodKind.FULL and run.engine is None:
        draft.problem(
            Problem(
                rule="fp16_over_fp16_weights",
                detail="fp16 scales gradients, and those of float16 weights cannot be unscaled",
                fix="load the weights in float32, or train in bf16",
                values={fp16.source: True, weights.source: "float16"},
                field="precision.weights",
            )
        )
