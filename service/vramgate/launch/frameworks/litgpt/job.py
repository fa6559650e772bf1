"""litgpt's options to fields of the job.

Sources: litgpt 0.5.13 ``finetune/{full,lora,adapter}.py``, ``pretrain.py`` (signatures of ``setup``,
strategies), ``args.py`` (accumulation), ``utils.py`` (optimizers, precision); 0.2.0 for older defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from vramgate.costmodel.job import (
    CheckpointMode,
    MethodKind,
    OptimizerName,
    ShardingImplementation,
    Task,
)
from vramgate.jobs.precision import PrecisionPreset
from vramgate.jobs.vocabulary import OptimizerImplementation, Quantization
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.optimizers import say_momentum, say_optimizer
from vramgate.launch.reading import Found, Misread, Reading, Unseen, converted, value_or
from vramgate.launch.settings import Settings

FULL_SHARD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcommand:
    """One of litgpt's trainers."""

    name: str
    micro_batch_size: int = 1
    global_batch_size: int = 16
    sharding: ShardingImplementation = ShardingImplementation.FSDP
    """What it runs on several devices."""
    is_known: bool = True
    """False: a configuration alone, of nobody knows which trainer."""

    @property
    def pretrains(self) -> bool:
        """Whether it trains from scratch."""
        return self.name == "pretrain"

    @property
    def source(self) -> str:
        """The place of its defaults."""
        return f"litgpt {self.name} default" if self.is_known else "litgpt default"


_LORA = Subcommand(name="finetune_lora", sharding=ShardingImplementation.FSDP2)

SUBCOMMANDS: Mapping[str, Subcommand] = {
    "finetune": _LORA,
    "finetune_lora": _LORA,
    "finetune_full": Subcommand(name="finetune_full"),
    "finetune_adapter": Subcommand(name="finetune_adapter"),
    "finetune_adapter_v2": Subcommand(name="finetune_adapter_v2"),
    "pretrain": Subcommand(name="pretrain", micro_batch_size=4, global_batch_size=512),
}
OLD_SUBCOMMANDS: Mapping[str, Subcommand] = {
    "finetune_lora": Subcommand(name="finetune_lora", micro_batch_size=4, global_batch_size=128),
    "finetune_full": Subcommand(name="finetune_full", micro_batch_size=1, global_batch_size=64),
    "finetune_adapter": Subcommand(
        name="finetune_adapter", micro_batch_size=4, global_batch_size=128
    ),
    "finetune_adapter_v2": Subcommand(
        name="finetune_adapter_v2", micro_batch_size=4, global_batch_size=128
    ),
}
"""``litgpt finetune lora``, as it was up to 0.3 (0.2.0)."""


def say_job(
    command: Subcommand, settings: Settings, draft: Draft, *, world: int | None, sees_all: bool
) -> None:
    """Keep what the options say.

    ``world``: the devices, where they are known; ``sees_all``: what is missing here has its default.
    """
    by_default = sees_all and command.is_known
    _say_method(command, settings, draft)
    _say_precision(settings, draft)
    _say_optimizer(command, settings, draft, by_default=by_default)
    _say_batch(command, settings, draft, world=world, by_default=by_default)
    _say_length(command, settings, draft, by_default=by_default)
    if command.pretrains:
        draft.assume("task", Task.PRETRAIN, "litgpt pretrain")
        draft.assume("compile", True, "litgpt pretrain (torch.compile)")  # noqa: FBT003 a value
    _say_strategy(command, draft, world=world)


_TARGETS: Mapping[str, tuple[str, bool, tuple[str, ...]]] = {
    "lora_query": ("query", True, ("q_proj",)),
    "lora_key": ("key", False, ("k_proj",)),
    "lora_value": ("value", True, ("v_proj",)),
    "lora_projection": ("projection", False, ("o_proj",)),
    "lora_mlp": ("mlp", False, ("gate_proj", "up_proj", "down_proj")),
    "lora_head": ("head", False, ("lm_head",)),
}
"""What a switch adapts in Llama's names, and its default."""

_QUANTIZATIONS: Mapping[str, tuple[Quantization, bool]] = {
    "bnb.nf4": (Quantization.NF4, False),
    "bnb.nf4-dq": (Quantization.NF4, True),
    "bnb.fp4": (Quantization.FP4, False),
    "bnb.fp4-dq": (Quantization.FP4, True),
    "bnb.int8-training": (Quantization.INT8, False),
}


def _say_method(command: Subcommand, settings: Settings, draft: Draft) -> None:
    adapts = command.name == "finetune_lora" or (not command.is_known and "lora_r" in settings)
    if command.name.startswith("finetune_adapter"):
        reason = f"{command.name} trains adapters of litgpt's own, of few parameters"
        hint = "estimate finetune_lora with lora_r 1 instead"
        draft.unknown("method", Unseen(f"litgpt {command.name}", reason, hint))
        return
    if not adapts:
        if command.is_known:
            draft.assume("method.kind", MethodKind.FULL, f"litgpt {command.name}")
        return
    _say_kind(command, settings, draft)
    draft.say("method.rank", settings.whole("lora_r"))
    draft.say("method.dropout", settings.number("lora_dropout"))
    targets = target_modules(settings)
    if not isinstance(targets, Found) or targets.value:
        draft.say("method.target_modules", targets)


def _say_kind(command: Subcommand, settings: Settings, draft: Draft) -> None:
    quantize = settings.text("quantize")
    if isinstance(quantize, Found) and quantize.value in _QUANTIZATIONS:
        storage, twice = _QUANTIZATIONS[quantize.value]
        draft.say("method.kind", Found(MethodKind.QLORA, quantize.source))
        draft.say("method.quantization", Found(storage, quantize.source))
        if storage is not Quantization.INT8:
            draft.say("method.double_quant", Found(twice, quantize.source))
    elif isinstance(quantize, Found):
        expected = f"of {', '.join(_QUANTIZATIONS)}"
        draft.say("method.quantization", Misread(quantize.source, quantize.value, expected))
    elif quantize is not None:
        draft.say("method.kind", quantize)
    else:
        draft.assume("method.kind", MethodKind.LORA, f"litgpt {command.name}")


def target_modules(settings: Settings) -> Reading[tuple[str, ...]]:
    """Return the adapted modules in Llama's names; None where no switch is said."""
    said = [name for name in _TARGETS if name in settings]
    if not said:
        return None
    names: list[str] = []
    for switch, (_, default, modules) in _TARGETS.items():
        reading = settings.flag(switch)
        if isinstance(reading, Unseen | Misread):
            return reading
        if value_or(reading, default):
            names += modules
    return Found(tuple(names), settings[said[0]].source)


_PRESETS: Mapping[str, PrecisionPreset] = {
    "bf16-true": PrecisionPreset.BF16_TRUE,
    "16-true": PrecisionPreset.FP16_TRUE,
    "bf16-mixed": PrecisionPreset.BF16_MIXED,
    "bf16": PrecisionPreset.BF16_MIXED,
    "16-mixed": PrecisionPreset.FP16_MIXED,
    "16": PrecisionPreset.FP16_MIXED,
    "32-true": PrecisionPreset.FP32,
    "32": PrecisionPreset.FP32,
}
"""Lightning Fabric's precisions (lightning 2.6 ``fabric/plugins/precision``)."""


def _say_precision(settings: Settings, draft: Draft) -> None:
    reading = settings.text("precision")
    if isinstance(reading, Found) and reading.value not in _PRESETS:
        expected = f"of {', '.join(_PRESETS)}"
        draft.say_preset(Misread(reading.source, reading.value, expected))
        return
    draft.say_preset(converted(reading, lambda name: _PRESETS[name]))


def optimizer_name(settings: Settings) -> Reading[str]:
    """Return the optimizer's class; a bare name is torch's (``utils.py``)."""
    reading = settings.text("optimizer.class_path", "optimizer")
    return converted(reading, lambda name: name if "." in name else f"torch.optim.{name}")


def _say_optimizer(
    command: Subcommand, settings: Settings, draft: Draft, *, by_default: bool
) -> None:
    """``utils.py``: over quantised weights the AdamW of any package is bitsandbytes' paged one."""
    name, quantize = optimizer_name(settings), settings.text("quantize")
    if isinstance(quantize, Found) and not isinstance(name, Unseen):
        source = f"{quantize.source} (instantiate_bnb_optimizer)"
        draft.say("optimizer.name", Found(OptimizerName.PAGED_ADAMW, source))
        return
    if name is None and by_default:
        name = Found("torch.optim.AdamW", f"{command.source} (optimizer)")
    say_optimizer(name, draft)
    momentum = settings.number("optimizer.init_args.momentum")
    if momentum is not None:
        say_momentum(momentum, draft)
    if command.pretrains and isinstance(name, Found) and name.value.startswith("torch."):
        draft.assume(
            "optimizer.implementation", OptimizerImplementation.FUSED, "litgpt pretrain (fused)"
        )


def _say_batch(
    command: Subcommand, settings: Settings, draft: Draft, *, world: int | None, by_default: bool
) -> None:
    """Keep the batch; ``args.py``: global // devices // micro, rounded down twice."""
    field = "gradient_accumulation_steps"
    micro = settings.whole("train.micro_batch_size")
    whole = settings.whole("train.global_batch_size")
    if by_default and micro is None:
        micro = Found(command.micro_batch_size, f"{command.source} (micro_batch_size)")
        draft.assume("micro_batch_size", micro.value, micro.source)
    else:
        draft.say("micro_batch_size", micro)
    if by_default and whole is None:
        whole = Found(command.global_batch_size, f"{command.source} (global_batch_size)")
    if not isinstance(micro, Found):
        draft.say(field, converted(micro, int))
    elif not isinstance(whole, Found):
        draft.say(field, whole)
    elif world is None:
        reason = f"global_batch_size {whole.value} is shared by devices whose number is not known"
        draft.unknown(field, Unseen(whole.source, reason, "give hardware.devices"))
    elif whole.value // world // max(1, micro.value) > 0:
        steps = whole.value // world // max(1, micro.value)
        draft.say(field, Found(steps, whole.source))


def _say_length(command: Subcommand, settings: Settings, draft: Draft, *, by_default: bool) -> None:
    """``fit``: rows are as long as the longest of the dataset, at most max_seq_length."""
    length = settings.whole("train.max_seq_length")
    said = "train.max_seq_length"
    if length is not None or not (by_default or (said in settings and command.is_known)):
        draft.say("sequence_length", length)
        return
    source = settings[said].source if said in settings else f"{command.source} (max_seq_length)"
    reason = (
        "train.max_seq_length is null: the model's block_size"
        if command.pretrains
        else "train.max_seq_length is null: the longest row of the dataset decides"
    )
    draft.unknown("sequence_length", Unseen(source, reason, "set train.max_seq_length"))


def _say_strategy(command: Subcommand, draft: Draft, *, world: int | None) -> None:
    """Keep how several devices share the model; one device takes no strategy and keeps activations.

    ``finetune/lora.py`` of 0.5: FSDP2 through ModelParallelStrategy; the others FSDP with every block
    checkpointed; ``pretrain.py``: HYBRID_SHARD, shards within a node, nothing checkpointed.
    """
    if not command.is_known or world is None:
        return
    source = f"litgpt {command.name}, {'several devices' if world > 1 else 'one device'}"
    checkpoints = world > 1 and not command.pretrains
    mode = CheckpointMode.FULL if checkpoints else CheckpointMode.NONE
    draft.assume("activation_checkpointing.mode", mode, source)
    if world == 1:
        draft.assume("sharding.implementation", ShardingImplementation.NONE, source)
        return
    draft.assume("sharding.implementation", command.sharding, source)
    draft.assume("sharding.zero_stage", FULL_SHARD, source)
    per_node = draft.said("hardware.devices_per_node")
    if command.pretrains and per_node is not None:
        draft.assume("sharding.shard_group_size", per_node.value, f"{source} (HYBRID_SHARD)")
