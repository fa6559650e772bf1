"""torchtitan's settings to fields of the job: model, formats, optimizer, checkpointing, loss.

Sources: ``config/job_config.py`` of 0.2.2, ``config/configs.py`` of 0.3.0, ``components/optimizer``,
``components/quantization``, ``distributed/activation_checkpoint.py``.
"""

from collections.abc import Iterator, Mapping

from vramgate.costmodel.job import CheckpointMode, Dtype, Loss, MethodKind
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import LinearFormat, OptimizerImplementation
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.optimizers import say_optimizer
from vramgate.launch.frameworks.torchtitan.models import ALWAYS_FLEX, CLASSES, MODELS, split_flavor
from vramgate.launch.frameworks.torchtitan.parallel import degree
from vramgate.launch.reading import Found, Misread, Unseen, value_or
from vramgate.launch.settings import Settings

_DTYPES = {"float32": Dtype.FP32, "bfloat16": Dtype.BF16}
_PRESETS = {
    (Dtype.FP32, Dtype.BF16): PrecisionPreset.BF16_MIXED,
    (Dtype.FP32, Dtype.FP32): PrecisionPreset.FP32,
    (Dtype.BF16, Dtype.BF16): PrecisionPreset.BF16_TRUE,
}


def say_model(settings: Settings, draft: Draft) -> None:
    """Keep the model by its name and flavor; a flavor may name the attention too."""
    name, flavor = settings.text("model.name"), settings.text("model.flavor")
    for reading in (name, flavor):
        if isinstance(reading, Unseen | Misread):
            draft.say("model.name", reading)
            return
    if not isinstance(flavor, Found):
        return
    family = value_or(name, "llama3")
    size, attention = split_flavor(flavor.value)
    known = MODELS.get(family, {}).get(size)
    if known is None:
        reason = f"torchtitan's {family[:40]} {flavor.value[:40]} is no model of the catalog"
        hint = "give its config.json, or its parameters, in model"
        draft.unknown("model.name", Unseen(flavor.source, reason, hint))
    else:
        draft.say("model.name", Found(known, flavor.source))
    classes = value_or(settings.texts("attention"), ())
    found = [kind for one, kind in CLASSES.items() if one in classes]
    if found:
        draft.say("attention", Found(found[0], settings["attention"].source))
    elif attention is not None or (family in ALWAYS_FLEX and known is not None):
        said = attention or CLASSES["FlexAttention"]
        draft.say("attention", Found(said, flavor.source))


def say_job(settings: Settings, draft: Draft, *, is_toml: bool, sees_all: bool) -> None:
    """Keep what is neither the model nor a parallel size."""
    _say_precision(settings, draft)
    _say_linear(settings, draft)
    _say_optimizer(settings, draft)
    _say_checkpointing(settings, draft, layers_by_default=is_toml and sees_all)
    _say_compile(settings, draft)
    _say_loss(settings, draft)
    _say_adapters(settings, draft)
    for problem in _problems(settings):
        draft.problem(problem)


def _say_precision(settings: Settings, draft: Draft) -> None:
    """Keep the formats: FSDP's mixed precision gathers fp32 weights in mixed_precision_param."""
    weights, compute = (
        settings.text("training.dtype"),
        settings.text("training.mixed_precision_param"),
    )
    if weights is None and compute is None:
        return
    for reading in (weights, compute):
        if isinstance(reading, Unseen | Misread):
            draft.say_preset(reading)
            return
        if isinstance(reading, Found) and reading.value not in _DTYPES:
            draft.say_preset(Misread(reading.source, reading.value, "float32 or bfloat16"))
            return
    pair = (_DTYPES[value_or(weights, "float32")], _DTYPES[value_or(compute, "bfloat16")])
    source = ", ".join(
        dict.fromkeys(one.source for one in (weights, compute) if isinstance(one, Found))
    )
    preset = _PRESETS.get(pair)
    if preset is not None:
        draft.say_preset(Found(preset, source))
    else:
        draft.say("precision.weights", Found(pair[0], source))
        draft.say("precision.compute", Found(pair[1], source))


_CLASSES_OF: Mapping[str, LinearFormat] = {
    "Float8Linear": LinearFormat.FP8_ROWWISE,
    "MXFP8Linear": LinearFormat.MXFP8,
    "NVFP4Linear": LinearFormat.NVFP4,
}
_RECIPES: Mapping[str, LinearFormat] = {
    "tensorwise": LinearFormat.FP8_TENSORWISE,
    "rowwise": LinearFormat.FP8_ROWWISE,
    "rowwise_with_gw_hp": LinearFormat.FP8_ROWWISE,
}


def _say_linear(settings: Settings, draft: Draft) -> None:
    """Keep the format of matrix products: converters of files, classes in configurations of 0.3.

    ``components/quantization/float8.py`` of 0.2.2: without a recipe scaling is dynamic and
    tensorwise; Float8LinearConverter of 0.3 is rowwise.
    """
    field = "precision.linear"
    converters = settings.texts("model.converters")
    if not isinstance(converters, Found):
        draft.say(field, converters)
        for name in value_or(settings.texts("quantized"), ()):
            if name in _CLASSES_OF:
                draft.say(field, Found(_CLASSES_OF[name], settings["quantized"].source))
        return
    for name in converters.value:
        *_, kind = name.strip("[]'\" ").split(".")
        if kind == "mx" and "grouped_mm" not in name:
            draft.say(field, Found(LinearFormat.MXFP8, converters.source))
        elif kind == "float8" and "grouped_mm" not in name:
            recipe = settings.text("quantize.linear.float8.recipe_name", "float8.recipe_name")
            if isinstance(recipe, Found) and recipe.value in _RECIPES:
                draft.say(field, Found(_RECIPES[recipe.value], recipe.source))
            else:
                draft.say(field, recipe or Found(LinearFormat.FP8_TENSORWISE, converters.source))
        elif "grouped_mm" in name:
            draft.warn(
                "low_precision_experts",
                f"{name[:80]} ({converters.source}): the experts' products are estimated in the"
                " compute dtype.",
            )


_IMPLEMENTATIONS: Mapping[str, OptimizerImplementation] = {
    "fused": OptimizerImplementation.FUSED,
    "foreach": OptimizerImplementation.FOREACH,
    "for-loop": OptimizerImplementation.FOR_LOOP,
    "fused_opt_states_bf16": OptimizerImplementation.FUSED,
}


def _say_optimizer(settings: Settings, draft: Draft) -> None:
    names = settings.texts("optimizer.name")
    if isinstance(names, Found) and len(names.value) > 1:
        draft.warn(
            "several_optimizers",
            f"{', '.join(names.value)} ({names.source}) each step some of the parameters; the"
            f" estimate has {names.value[-1]} for all.",
        )
    if isinstance(names, Found) and names.value:
        say_optimizer(Found(names.value[-1], names.source), draft)
    implementation = settings.text("optimizer.implementation")
    if isinstance(implementation, Found):
        way = _IMPLEMENTATIONS.get(implementation.value)
        field = "optimizer.implementation"
        if way is None:
            said, words = implementation.value, ", ".join(_IMPLEMENTATIONS)
            draft.say(field, Misread(implementation.source, said, f"of {words}"))
        else:
            draft.say(field, Found(way, implementation.source))
        if implementation.value == "fused_opt_states_bf16":
            draft.say("precision.optimizer_states", Found(Dtype.BF16, implementation.source))
    else:
        draft.say("optimizer.implementation", implementation)
    draft.say("optimizer.in_backward", settings.flag("optimizer.early_step_in_backward"))


def _say_checkpointing(settings: Settings, draft: Draft, *, layers_by_default: bool) -> None:
    """Keep activation checkpointing.

    ``layers_by_default``: up to 0.2 selective means every second layer where no option says "op".
    """
    field = "activation_checkpointing.mode"
    mode = settings.text("activation_checkpoint.mode")
    if "activation_checkpoint.mode" in settings and mode is None:
        mode = Found("none", settings["activation_checkpoint.mode"].source)
    option = settings.text("activation_checkpoint.selective_ac_option")
    if mode is None and (layers_by_default or isinstance(option, Found)):
        mode = Found("selective", "torchtitan default (activation_checkpoint.mode)")
    if not isinstance(mode, Found):
        draft.say(field, mode)
        return
    if mode.value == "memory_budget":
        reason = "memory_budget lets the compiler choose what is kept"
        draft.unknown(field, Unseen(mode.source, reason, "estimate selective and full beside it"))
    elif mode.value not in set(CheckpointMode):
        draft.say(field, Misread(mode.source, mode.value, "none, selective or full"))
    elif mode.value == CheckpointMode.SELECTIVE and (option or layers_by_default):
        option = option or Found("2", "torchtitan default (selective_ac_option)")
        _say_option(mode, option, draft)
    else:
        draft.say(field, Found(CheckpointMode(mode.value), mode.source))


def _say_option(mode: Found[str], option: Found[str] | Unseen | Misread, draft: Draft) -> None:
    """Keep "op", or every how many layers are checkpointed whole; 0 is every one."""
    if not isinstance(option, Found):
        draft.say("activation_checkpointing.mode", option)
    elif option.value == "op":
        draft.say("activation_checkpointing.mode", Found(CheckpointMode.SELECTIVE, mode.source))
    elif option.value.isdecimal():
        every = max(1, int(option.value))
        draft.say("activation_checkpointing.mode", Found(CheckpointMode.FULL, mode.source))
        draft.say("activation_checkpointing.every_n_layers", Found(every, option.source))
    else:
        wrong = Misread(option.source, option.value, '"op" or a number of layers')
        draft.say("activation_checkpointing.mode", wrong)


def _say_compile(settings: Settings, draft: Draft) -> None:
    """Keep whether the model is compiled; ``components`` may leave it out."""
    compiles = settings.flag("compile.enable", "training.compile")
    parts = settings.texts("compile.components")
    if isinstance(compiles, Found) and compiles.value and isinstance(parts, Found):
        if "model" not in parts.value:
            draft.warn(
                "loss_compiled_alone",
                f"{parts.source} leaves the model out: the estimate compiles neither it nor the"
                " loss.",
            )
        compiles = Found(value="model" in parts.value, source=compiles.source)
    draft.say("compile", compiles)


_LOSSES = {"ChunkedLossWrapper": Loss.CHUNKED, "CrossEntropyLoss": Loss.STANDARD}


def _say_loss(settings: Settings, draft: Draft) -> None:
    loss = settings.text("loss")
    if not isinstance(loss, Found):
        draft.say("loss", loss)
    elif loss.value in _LOSSES:
        draft.say("loss", Found(_LOSSES[loss.value], loss.source))
    else:
        reason = f"what {loss.value[:60]} holds is not known"
        draft.unknown("loss", Unseen(loss.source, reason, "name a known loss"))


def _say_adapters(settings: Settings, draft: Draft) -> None:
    adapters = value_or(settings.texts("adapters"), ())
    if adapters:
        reason = "the configuration puts adapters on the model"
        source = settings["adapters"].source
        draft.unknown("method", Unseen(source, reason, "name the method and its rank"))
    elif "adapters" in settings:
        draft.say("method.kind", Found(MethodKind.FULL, settings["adapters"].source))


def _problems(settings: Settings) -> Iterator[Problem]:
    """``components/optimizer.py`` of 0.2.2, ``Trainer.Config`` and ``CompileConfig`` of 0.3.0."""
    early = settings.flag("optimizer.early_step_in_backward")
    for name in ("expert_parallel_degree", "pipeline_parallel_degree"):
        size = degree(settings, name)
        if isinstance(early, Found) and early.value and isinstance(size, Found) and size.value > 1:
            yield Problem(
                rule="early_step_with_parallelism",
                detail=f"early_step_in_backward does not run with {name} {size.value}",
                fix="leave early_step_in_backward out",
                values={early.source: True, size.source: size.value},
                field="optimizer.in_backward",
            )
    yield from _graphs(settings)
    compiles = settings.flag("compile.enable", "training.compile")
    parts = value_or(settings.texts("compile.components"), ("model", "loss"))
    is_compiled = isinstance(compiles, Found) and compiles.value and "model" in parts
    mode = settings.text("activation_checkpoint.mode")
    if isinstance(mode, Found) and mode.value == "memory_budget" and not is_compiled:
        yield Problem(
            rule="memory_budget_without_compile",
            detail="memory_budget checkpointing needs a compiled model",
            fix="add --compile.enable",
            values={mode.source: "memory_budget"},
            field="activation_checkpointing.mode",
        )


def _graphs(settings: Settings) -> Iterator[Problem]:
    """``Trainer.Config`` of 0.3.0: "CUDA graphs do not support pipeline parallelism yet"."""
    without = settings.flag("training.disable_cuda_graphs")
    stages = degree(settings, "pipeline_parallel_degree")
    if not isinstance(without, Found) or without.value:
        return
    if isinstance(stages, Found) and stages.value > 1:
        yield Problem(
            rule="cuda_graphs_with_pipeline",
            detail=f"CUDA graphs, on by default, do not run with pipeline_parallel_degree"
            f" {stages.value}",
            fix="add --training.disable_cuda_graphs",
            values={without.source: False, stages.source: stages.value},
            field="parallelism.pipeline_parallel_size",
        )
