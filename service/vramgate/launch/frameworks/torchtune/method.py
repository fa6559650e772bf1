"""torchtune's model and what of it trains: builders, adapters, quantised bases.

Sources, torchtune 0.6.1: ``models/*/_model_builders.py``, ``modules/peft/_utils.py``
(LORA_ATTN_MODULES), ``modules/feed_forward.py`` (w1 gate, w2 down, w3 up), recipes.
"""

from collections.abc import Iterator, Mapping

from vramgate.costmodel.job import MethodKind
from vramgate.jobs.vocabulary import Quantization
from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.torchtune.job import Recipe
from vramgate.launch.frameworks.torchtune.models import (
    MODELS,
    TIED,
    builder_of,
    builds_adapters,
    quantizes,
)
from vramgate.launch.reading import Found, Misread, Reading, Unseen, converted, value_or
from vramgate.launch.settings import Settings

_COMPONENT = "model._component_"
_ATTENTION: Mapping[str, str] = {
    "q_proj": "q_proj",
    "k_proj": "k_proj",
    "v_proj": "v_proj",
    "output_proj": "o_proj",
}
_MLP = ("gate_proj", "up_proj", "down_proj")


def say_model(settings: Settings, draft: Draft) -> None:
    """Keep the model: the builder decides its shape, the checkpoint's folder only names its weights."""
    component = settings.text(_COMPONENT, "policy_model._component_")
    if isinstance(component, Found) and builder_of(component.value) in MODELS:
        draft.say("model.name", converted(component, lambda path: MODELS[builder_of(path)]))
        return
    folder = settings.text("checkpointer.checkpoint_dir")
    if isinstance(folder, Found):
        draft.say("model.name", converted(folder, lambda path: path.rstrip("/") or path))
    elif isinstance(component, Found):
        reason = f"{component.value[:80]} is no builder of torchtune's"
        hint = "name the model with VRAMGATE_MODEL"
        draft.unknown("model.name", Unseen(component.source, reason, hint))
    else:
        draft.say("model.name", component)


def say_method(recipe: Recipe, settings: Settings, draft: Draft) -> None:
    """Keep what trains: a recipe's name decides between everything and adapters, the builder the rest."""
    component = settings.text(_COMPONENT)
    adapts = _adapts(recipe, component)
    if adapts is None:
        return
    if not adapts:
        draft.assume("method.kind", MethodKind.FULL, f"torchtune {recipe.name}")
        _warn_of_parts(settings, draft)
        return
    _say_kind(recipe, settings, draft)
    draft.say("method.rank", settings.whole("model.lora_rank"))
    draft.say("method.dropout", settings.number("model.lora_dropout"))
    dora = settings.flag("model.use_dora")
    if not isinstance(dora, Found) or dora.value:
        draft.say("method.dora", dora)
    targets = target_modules(settings)
    if not isinstance(targets, Found) or targets.value:
        draft.say("method.target_modules", targets)
    _warn_of_parts(settings, draft)


def _adapts(recipe: Recipe, component: Reading[str]) -> bool | None:
    """Return whether adapters train; None: nothing visible says so."""
    if recipe.packaged:
        return "lora" in recipe.name or recipe.name.startswith("knowledge_distillation")
    if isinstance(component, Found):
        return True if builds_adapters(component.value) else None
    return None


def _say_kind(recipe: Recipe, settings: Settings, draft: Draft) -> None:
    component = settings.text(_COMPONENT)
    quantized = settings.flag("model.quantize_base")
    if isinstance(component, Found) and quantizes(component.value):
        quantized = Found(value=True, source=component.source)
    if isinstance(quantized, Unseen | Misread):
        draft.say("method.kind", quantized)
    elif quantized is not None and quantized.value:
        draft.say("method.kind", Found(MethodKind.QLORA, quantized.source))
        draft.say("method.quantization", Found(Quantization.NF4, quantized.source))
    elif isinstance(component, Found):
        draft.say("method.kind", Found(MethodKind.LORA, component.source))
    else:
        draft.assume("method.kind", MethodKind.LORA, f"torchtune {recipe.name}")


def target_modules(settings: Settings) -> Reading[tuple[str, ...]]:
    """Return the adapted modules in Llama's names, as the job has them."""
    attention = settings.texts("model.lora_attn_modules")
    mlp = settings.flag("model.apply_lora_to_mlp")
    head = settings.flag("model.apply_lora_to_output")
    for reading in (attention, mlp, head):
        if isinstance(reading, Unseen | Misread):
            return reading
    if not isinstance(attention, Found):
        return None
    names = [name.strip("[]'\" ") for name in attention.value]
    wrong = [name for name in names if name not in _ATTENTION]
    if wrong:
        return Misread(attention.source, wrong, f"of {', '.join(_ATTENTION)}")
    modules = [_ATTENTION[name] for name in names]
    modules += _MLP if value_or(mlp, default=False) else ()
    modules += ("lm_head",) if value_or(head, default=False) else ()
    return Found(tuple(dict.fromkeys(modules)), attention.source)


def method_problems(recipe: Recipe, settings: Settings) -> Iterator[Problem]:
    """Yield why the builders refuse the adapters."""
    component = settings.text(_COMPONENT)
    adapted = settings.texts("model.lora_attn_modules")
    if not isinstance(component, Found):
        return
    builder = builder_of(component.value)
    trains_adapters = recipe.packaged and _adapts(recipe, component)
    if trains_adapters and builder in MODELS and not builds_adapters(component.value):
        yield Problem(
            rule="builder_without_adapters",
            detail=f"{recipe.name} trains adapters; {component.value} builds none",
            fix=f"name lora_{builder}",
            values={component.source: component.value},
            field="method.kind",
        )
    # models/*/_component_builders.py: ValueError "Must pass one or more of …".
    if isinstance(adapted, Found) and not [one for one in adapted.value if one.strip("[] ")]:
        yield Problem(
            rule="no_lora_modules",
            detail="lora_attn_modules is empty; the builder needs one module at least",
            fix=f"name some of {', '.join(_ATTENTION)}",
            values={adapted.source: []},
            field="method.target_modules",
        )
    head = settings.flag("model.apply_lora_to_output")
    if isinstance(head, Found) and head.value and builder in TIED:
        # models/llama3_2/_component_builders.py, models/qwen2/_component_builders.py: ValueError.
        yield Problem(
            rule="lora_on_tied_output",
            detail=f"apply_lora_to_output, but {builder}'s output projection is its embedding",
            fix="leave apply_lora_to_output out",
            values={head.source: True},
            field="method.target_modules",
        )


def _warn_of_parts(settings: Settings, draft: Draft) -> None:
    """The vision models' parts train, adapt or freeze on their own."""
    parts = ("decoder_trainable", "encoder_trainable", "fusion_trainable")
    said = [part for part in parts if f"model.{part}" in settings]
    if said:
        draft.warn(
            "parts_train_apart",
            f"{', '.join(said)} choose what trains part by part; the estimate trains every part"
            " alike.",
        )
