"""What torchtune's recipes refuse before they train, as far as the settings show it."""

from collections.abc import Iterator

from vramgate.launch.draft import Problem
from vramgate.launch.frameworks.torchtune.job import Recipe, packs
from vramgate.launch.frameworks.torchtune.method import method_problems
from vramgate.launch.reading import Found
from vramgate.launch.settings import Settings

_NO_FUSED = ("bitsandbytes.", "torchao.")


def problems(recipe: Recipe, settings: Settings, *, sees_all: bool) -> Iterator[Problem]:
    """Yield why the recipe would stop; ``sees_all``: what is missing here is missing for it too."""
    yield from _precision(settings)
    yield from _offloading(settings, sees_all=sees_all)
    yield from _in_backward(recipe, settings)
    yield from _packing(settings, sees_all=sees_all)
    yield from _tensor_parallel(recipe, settings, sees_all=sees_all)
    yield from _others(recipe, settings)
    yield from method_problems(recipe, settings)


def _is_on(settings: Settings, name: str) -> Found[bool] | None:
    reading = settings.flag(name)
    return reading if isinstance(reading, Found) and reading.value else None


def _precision(settings: Settings) -> Iterator[Problem]:
    """Every recipe: "full fp16 training is not supported with this recipe"."""
    dtype = settings.text("dtype")
    if isinstance(dtype, Found) and dtype.value == "fp16":
        yield Problem(
            rule="fp16_not_supported",
            detail="torchtune's recipes do not train in fp16",
            fix="write dtype=bf16 or dtype=fp32",
            values={dtype.source: "fp16"},
            field="precision",
        )


def _offloading(settings: Settings, *, sees_all: bool) -> Iterator[Problem]:
    """Every recipe: offloading "should only be True when enable_activation_checkpointing is True"."""
    offloads = _is_on(settings, "enable_activation_offloading")
    checkpoints = settings.flag("enable_activation_checkpointing")
    checkpoints = checkpoints or (Found(value=False, source="") if sees_all else None)
    off = isinstance(checkpoints, Found) and not checkpoints.value
    if offloads and off:
        yield Problem(
            rule="offloading_without_checkpointing",
            detail="enable_activation_offloading needs enable_activation_checkpointing",
            fix="write enable_activation_checkpointing=True",
            values={offloads.source: True},
            field="activation_checkpointing.offload",
        )


def _in_backward(recipe: Recipe, settings: Settings) -> Iterator[Problem]:
    """``full_finetune_*``, ``full_dpo_distributed``, ``qat_distributed``: no clipping in backward.

    Accumulation with it is refused for every framework, in ``jobs.rules.sharding``.
    """
    in_backward = _is_on(settings, "optimizer_in_bwd")
    clips = settings.text("clip_grad_norm")
    if in_backward and isinstance(clips, Found) and not recipe.name.startswith("lora_"):
        yield Problem(
            rule="clipping_in_backward",
            detail="optimizer_in_bwd steps before all gradients are there to be clipped",
            fix="write clip_grad_norm=null, or optimizer_in_bwd=False",
            values={in_backward.source: True, clips.source: clips.value},
            field="optimizer.in_backward",
        )


def _packing(settings: Settings, *, sees_all: bool) -> Iterator[Problem]:
    """``datasets/*.py``: "PackedDataset requires a max_seq_len to be set on the tokenizer"."""
    packed = packs(settings)
    length = settings.value("tokenizer.max_seq_len")
    missing = (length is None and sees_all) or (isinstance(length, Found) and length.value is None)
    if isinstance(packed, Found) and packed.value and missing:
        yield Problem(
            rule="packing_without_length",
            detail="packed rows need tokenizer.max_seq_len",
            fix="write tokenizer.max_seq_len=N",
            values={packed.source: True},
            field="sequence_length",
        )


def _tensor_parallel(recipe: Recipe, settings: Settings, *, sees_all: bool) -> Iterator[Problem]:
    """``full_finetune_distributed.py``: a plan is needed, and no fused optimizer."""
    size = settings.whole("tensor_parallel_dim")
    if recipe.name != "full_finetune_distributed" or not isinstance(size, Found) or size.value <= 1:
        return
    plan = "tensor_parallel_plan._component_" in settings or "tensor_parallel_plan" in settings
    if sees_all and not plan:
        yield Problem(
            rule="tensor_parallel_without_plan",
            detail=f"tensor_parallel_dim {size.value} needs tensor_parallel_plan",
            fix="add tensor_parallel_plan._component_=torchtune.models.llama3.base_llama_tp_plan",
            values={size.source: size.value},
            field="parallelism.tensor_parallel_size",
        )
    fused = _is_on(settings, "optimizer.fused")
    if fused:
        yield Problem(
            rule="tensor_parallel_with_fused",
            detail="tensor parallelism does not run with a fused optimizer in torchtune",
            fix="write optimizer.fused=False",
            values={size.source: size.value, fused.source: True},
            field="optimizer.implementation",
        )


def _others(recipe: Recipe, settings: Settings) -> Iterator[Problem]:
    compiles = _is_on(settings, "compile")
    if compiles and recipe.name.startswith("qat_"):
        # qat_distributed.py, qat_lora_finetune_distributed.py: ValueError.
        yield Problem(
            rule="compile_with_qat",
            detail="torchtune does not compile under quantisation-aware training",
            fix="write compile=False",
            values={compiles.source: True},
            field="compile",
        )
    optimizer = settings.text("optimizer._component_")
    if isinstance(optimizer, Found) and optimizer.value.startswith(_NO_FUSED):
        fused = settings.value("optimizer.fused")
        if isinstance(fused, Found):
            # Their __init__ has no such argument: TypeError.
            yield Problem(
                rule="optimizer_without_fused",
                detail=f"{optimizer.value[:80]} takes no argument fused",
                fix="add ~optimizer.fused",
                values={fused.source: fused.value},
                field="optimizer.implementation",
            )
    collates = settings.text("collate_fn")
    if isinstance(collates, Found) and "left_pad_sequence" in collates.value:
        yield Problem(
            rule="collator_for_inference",
            detail="left_pad_sequence is a collator for inference only",
            fix="leave collate_fn out",
            values={collates.source: collates.value},
        )
