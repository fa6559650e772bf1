"""torchtune's settings to fields of the job: batch, precision, optimizer, checkpointing, loss, sharding.

Sources, torchtune 0.6.1 ``recipes/*.py`` (named with each rule) and ``training/activations.py``.
What trains is in ``torchtune_method.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vramgate.costmodel.job import (
    AttentionImplementation,
    CheckpointMode,
    Loss,
    Packing,
    ShardingImplementation,
    Task,
)
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import Offload, OptimizerImplementation
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.optimizers import say_optimizer
from vramgate.launch.reading import Found, Misread, Reading, Unseen, converted, value_or
from vramgate.launch.settings import Settings

FULL_SHARD = 3

_FULL_DISTRIBUTED = "full_finetune_distributed"
_DATASET_DECIDES = Unseen(
    "tokenizer.max_seq_len",
    "tokenizer.max_seq_len is null: the longest row of the dataset decides",
    "set tokenizer.max_seq_len, or name the length with VRAMGATE_SEQ_LEN",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What runs the configuration, as far as its name says."""

    name: str = ""
    """Without folder and ending; empty where a configuration came alone."""
    packaged: bool = False

    @property
    def is_distributed(self) -> bool:
        """Whether it shards with FSDP2."""
        return self.packaged and "distributed" in self.name

    @property
    def is_single_device(self) -> bool:
        """Whether it runs on one device, whatever the machine has."""
        return self.packaged and self.name.endswith("_single_device")

    @property
    def task(self) -> Task | None:
        """What its loss needs, where that is not fine-tuning."""
        return Task.DPO if "_dpo_" in self.name else None


def say_job(recipe: Recipe, settings: Settings, draft: Draft, *, sees_all: bool) -> None:
    """Keep what the settings say; ``sees_all``: what is missing there is missing in the file too."""
    draft.say("micro_batch_size", settings.whole("batch_size"))
    draft.say("gradient_accumulation_steps", settings.whole("gradient_accumulation_steps"))
    _say_precision(settings, draft)
    _say_rows(settings, draft, sees_all=sees_all)
    _say_optimizer(recipe, settings, draft)
    _say_checkpointing(recipe, settings, draft, sees_all=sees_all)
    _say_loss(recipe, settings, draft)
    compiles = settings.flag("compile", "compile.model")
    draft.say("compile", compiles)
    _say_sharding(recipe, settings, draft)
    _warn(settings, draft)


_DTYPES = {"bf16": PrecisionPreset.BF16_TRUE, "fp32": PrecisionPreset.FP32}


def _say_precision(settings: Settings, draft: Draft) -> None:
    """``training/precision.py``: weights, gradients and states are in ``dtype``; null is fp32."""
    reading = settings.text("dtype")
    if reading is None and "dtype" in settings:
        reading = Found("fp32", settings["dtype"].source)
    if isinstance(reading, Found) and reading.value not in {*_DTYPES, "fp16"}:
        draft.say_preset(Misread(reading.source, reading.value, "bf16 or fp32"))
        return
    if isinstance(reading, Found) and reading.value == "fp16":
        draft.say_preset(Found(PrecisionPreset.FP16_TRUE, reading.source))
        return
    draft.say_preset(converted(reading, lambda name: _DTYPES[name]))


def _say_rows(settings: Settings, draft: Draft, *, sees_all: bool) -> None:
    """``tokenizer.max_seq_len`` bounds rows; packed ones have it, under a block mask (flex attention)."""
    length = settings.whole("tokenizer.max_seq_len")
    draft.say("sequence_length", length)
    if length is None and (sees_all or "tokenizer.max_seq_len" in settings):
        source = (
            settings["tokenizer.max_seq_len"].source
            if "tokenizer.max_seq_len" in settings
            else _DATASET_DECIDES.source
        )
        draft.unknown(
            "sequence_length", Unseen(source, _DATASET_DECIDES.reason, _DATASET_DECIDES.hint)
        )
    packed = packs(settings)
    if isinstance(packed, Found):
        if packed.value:
            draft.say("packing", Found(Packing.PACKED, packed.source))
            draft.say("attention", Found(AttentionImplementation.FLEX, packed.source))
    else:
        draft.say("packing", packed)


def packs(settings: Settings) -> Reading[bool]:
    """Return whether rows are packed: of several datasets, whether any is (``ConcatDataset``)."""
    datasets = settings.value("dataset")
    if isinstance(datasets, Found) and isinstance(datasets.value, list):
        packed = [one for one in datasets.value if isinstance(one, dict) and one.get("packed")]
        return Found(bool(packed), datasets.source)
    return settings.flag("dataset.packed")


_STEPS = {"fused": OptimizerImplementation.FUSED, "foreach": OptimizerImplementation.FOREACH}


def _say_optimizer(recipe: Recipe, settings: Settings, draft: Draft) -> None:
    """Keep the optimizer. Torch ``optim/adam.py``: where one is said to be off and none on, a loop runs."""
    say_optimizer(settings.text("optimizer._component_"), draft)
    off = None
    for name, way in _STEPS.items():
        reading = settings.flag(f"optimizer.{name}")
        if not isinstance(reading, Found):
            draft.say("optimizer.implementation", converted(reading, str))
        elif reading.value:
            draft.say("optimizer.implementation", Found(way, reading.source))
            off = None
            break
        else:
            off = reading
    if off is not None:
        draft.say("optimizer.implementation", Found(OptimizerImplementation.FOR_LOOP, off.source))
    if not recipe.name.startswith(("lora_", "qat_lora", "knowledge_")):
        draft.say("optimizer.in_backward", settings.flag("optimizer_in_bwd"))


def _say_checkpointing(recipe: Recipe, settings: Settings, draft: Draft, *, sees_all: bool) -> None:
    """Keep activation checkpointing.

    ``full_finetune_distributed.py``: enable_activation_checkpointing without ac_mode is full, ac_mode
    without it is what it says, both together are neither. Other recipes know the switch only.
    """
    switch = settings.flag("enable_activation_checkpointing")
    if switch is None and sees_all:
        switch = Found(value=False, source="torchtune default (enable_activation_checkpointing)")
    mode = settings.text("ac_mode") if _knows_modes(recipe) else None
    if not isinstance(switch, Found) or not isinstance(mode, Found):
        draft.say("activation_checkpointing.mode", converted(switch, _mode))
    elif switch.value:
        draft.say("activation_checkpointing.mode", Found(CheckpointMode.NONE, mode.source))
        draft.warn(
            "checkpointing_twice",
            f"enable_activation_checkpointing with ac_mode {mode.value[:40]}: {recipe.name} then"
            " checkpoints nothing.",
        )
    else:
        _say_selective(mode, settings, draft)
    offloads = settings.flag("enable_activation_offloading")
    if not isinstance(offloads, Found) or offloads.value:
        draft.say("activation_checkpointing.offload", offloads)


def _knows_modes(recipe: Recipe) -> bool:
    return recipe.name == _FULL_DISTRIBUTED or not recipe.packaged


def _mode(on: bool) -> CheckpointMode:  # noqa: FBT001 converts a reading
    return CheckpointMode.FULL if on else CheckpointMode.NONE


def _say_selective(mode: Found[str], settings: Settings, draft: Draft) -> None:
    """``training/activations.py``: a number as ac_option checkpoints every n-th layer whole."""
    field = "activation_checkpointing.mode"
    option = settings.text("ac_option")
    if mode.value != "selective":
        known = {"full": CheckpointMode.FULL, "none": CheckpointMode.NONE}
        if mode.value in known:
            draft.say(field, Found(known[mode.value], mode.source))
        else:
            draft.say(field, Misread(mode.source, mode.value, "full or selective"))
    elif isinstance(option, Found) and option.value == "op":
        draft.say(field, Found(CheckpointMode.SELECTIVE, mode.source))
    else:
        draft.say(field, Found(CheckpointMode.FULL, mode.source))
        layers = settings.whole("ac_option")
        if not (isinstance(layers, Found) and layers.value == 0):
            draft.say("activation_checkpointing.every_n_layers", layers)


_LOSSES = {
    "CEWithChunkedOutputLoss": Loss.CHUNKED,
    "LinearCrossEntropyLoss": Loss.CHUNKED,
    "CrossEntropyLoss": Loss.STANDARD,
    "DPOLoss": Loss.STANDARD,
    "RSOLoss": Loss.STANDARD,
    "SimPOLoss": Loss.STANDARD,
}


def _say_loss(recipe: Recipe, settings: Settings, draft: Draft) -> None:
    if recipe.task is not None:
        draft.assume("task", recipe.task, f"torchtune {recipe.name}")
    reading = settings.text("loss._component_")
    if not isinstance(reading, Found):
        draft.say("loss", reading)
        return
    name = reading.value.rpartition(".")[2]
    if name in _LOSSES:
        draft.say("loss", Found(_LOSSES[name], reading.source))
    else:
        draft.unknown(
            "loss",
            Unseen(reading.source, f"what {name[:80]} holds is not known", "name a known loss"),
        )


def _say_sharding(recipe: Recipe, settings: Settings, draft: Draft) -> None:
    """Keep how ranks share the model: distributed recipes call ``training.shard_model`` (FSDP2)."""
    tensor = settings.whole("tensor_parallel_dim")
    draft.say("parallelism.tensor_parallel_size", tensor)
    if recipe.is_single_device:
        source = f"torchtune {recipe.name}"
        draft.assume("hardware.devices", 1, source)
        draft.assume("hardware.devices_per_node", 1, source)
        draft.assume("sharding.implementation", ShardingImplementation.NONE, source)
        return
    if recipe.is_distributed:
        source = f"torchtune {recipe.name}"
        draft.assume("sharding.implementation", ShardingImplementation.FSDP2, source)
        draft.assume("sharding.zero_stage", FULL_SHARD, source)
    reshards = settings.flag("fsdp_reshard_after_forward")
    draft.say("sharding.reshard_after_forward", reshards)
    offloads = settings.flag("fsdp_cpu_offload")
    if not isinstance(offloads, Found) or offloads.value:
        draft.say("sharding.offload_parameters", converted(offloads, _offload))
    shards = settings.whole("data_parallel_shard_dim")
    if isinstance(shards, Found) and shards.value > 0:
        draft.say("sharding.shard_group_size", shards)


def _offload(on: bool) -> Offload:  # noqa: FBT001 converts a reading
    return Offload.CPU if on else Offload.NONE


def _warn(settings: Settings, draft: Draft) -> None:
    for code, message in _notes(settings):
        draft.warn(code, message)


def _notes(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield what changes memory and has no field of the job."""
    if value_or(settings.texts("custom_sharded_layers"), ()):
        yield (
            "custom_sharded_layers",
            "custom_sharded_layers shards embedding and head as units of their own; the estimate"
            " gathers them with the root.",
        )
    evaluated = settings.whole("batch_size_val")
    trained = settings.whole("batch_size")
    if isinstance(evaluated, Found) and evaluated.value > value_or(trained, evaluated.value):
        yield (
            "larger_evaluation_batch",
            f"batch_size_val {evaluated.value} is larger than batch_size; its forward is not"
            " estimated.",
        )
    if "quantizer._component_" in settings:
        yield (
            "fake_quantization",
            "Quantisation-aware training keeps fake-quantised copies of weights and activations,"
            " which are not estimated.",
        )
    if "teacher_model._component_" in settings:
        yield (
            "teacher_model",
            "Distillation holds the teacher's weights and logits too; the estimate holds the"
            " student's only.",
        )
