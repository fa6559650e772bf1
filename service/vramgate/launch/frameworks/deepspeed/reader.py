"""DeepSpeed: its JSON, alone or under a trainer, and scripts of one's own that take it.

- ``say_deepspeed(setting, context, trainer=…)``: a configuration by name, as text or as an object;
  ``trainer`` has Hugging Face's TrainingArguments by their own names, which fill ``"auto"``; None
  where a script hands the file to DeepSpeed itself.
- ``settle_precision(draft)``: a trainer's mixed precision as DeepSpeed runs it; called once all is said.

Read in DeepSpeed 0.19.8, transformers 5.24.0 and accelerate 1.15.0; the modules beside this one name
the files.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.job import ShardingImplementation
from vramgate.jobs.vocabulary import Offload, OptimizerImplementation
from vramgate.launch.frameworks.deepspeed.batch import (
    check_trainer,
    require_batch,
    say_batch,
    sizes_of,
)
from vramgate.launch.frameworks.deepspeed.file import (
    DeepSpeedFile,
    find_deepspeed,
    read_hjson_file,
    read_json_file,
)
from vramgate.launch.frameworks.deepspeed.precision import say_precision, settle_precision
from vramgate.launch.frameworks.deepspeed.script import say_script
from vramgate.launch.frameworks.deepspeed.zero import say_zero
from vramgate.launch.frameworks.dotted import assume_packaged
from vramgate.launch.frameworks.optimizers import say_optimizer
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen, value_or
from vramgate.launch.settings import Setting, Settings, of_flags

__all__ = ["read", "read_config", "say_deepspeed", "settle_precision"]

_RAW_UNSEEN = ("micro_batch_size", "gradient_accumulation_steps", "precision", "optimizer")
"""What a DeepSpeed file decides beside sharding where no trainer does."""

_CHECKPOINTING = (
    "partition_activations",
    "cpu_checkpointing",
    "contiguous_memory_optimization",
)

# DeepSpeed 0.19.8 runtime/config.py: keys it refuses since the features are gone.
_REMOVED = (
    *("nebula", "compression_training", "amp", "quantize_training", "sparse_gradients"),
    *("eigenvalue", "sparse_attention", "elasticity", "graph_harvesting"),
    *("curriculum_learning", "progressive_layer_drop"),
)


def say_deepspeed(setting: Setting | None, context: Context, *, trainer: Settings | None) -> None:
    """Say what a DeepSpeed configuration decides.

    Raises:
        UnreadableLaunchError: a file was sent that is not JSON.
    """
    if setting is None:
        return
    read_file = read_hjson_file if trainer is None else read_json_file
    found = find_deepspeed(setting, context, read_file=read_file)
    if isinstance(found, Found):
        _say_file(found.value, setting.source, context, trainer)
        return
    draft = context.draft
    draft.forget("sharding")
    draft.say("sharding.implementation", Found(ShardingImplementation.DEEPSPEED, setting.source))
    if isinstance(found, Unseen):
        draft.unknown("sharding", found)
        for field in _RAW_UNSEEN if trainer is None else ():
            draft.unknown(field, found)
    elif found is not None:
        draft.misread("sharding", found)


def _say_file(file: DeepSpeedFile, source: str, context: Context, trainer: Settings | None) -> None:
    draft = context.draft
    say_zero(file, draft, source=source, hugging_face=trainer is not None)
    say_precision(file, draft, trainer)
    _say_optimizer(file, context)
    sizes = sizes_of(file)
    if trainer is None:
        say_batch(sizes, draft)
        require_batch(file, sizes, draft)
    else:
        if "per_device_train_batch_size" not in trainer:
            draft.say("micro_batch_size", sizes.micro)
        if "gradient_accumulation_steps" not in trainer:
            draft.say("gradient_accumulation_steps", sizes.steps)
        check_trainer(file, sizes, trainer, draft)
    _warn(file, context)
    if file.packaged:
        assume_packaged(draft, file.prefix)


def _say_optimizer(file: DeepSpeedFile, context: Context) -> None:
    """Say the optimizer of the file, which goes before the trainer's.

    Source: ``runtime/engine.py``: adam and adamw are FusedAdam, with ``torch_adam`` torch's own, and
    DeepSpeedCPUAdam where the states are offloaded.
    """
    section = file.section("optimizer")
    kind = section.text("type")
    if kind is None:
        return
    draft = context.draft
    say_optimizer(kind, draft)
    offload = draft.said("sharding.offload_optimizer")
    if not isinstance(kind, Found) or kind.value.lower() not in {"adam", "adamw"}:
        return
    on_torch = file.section("optimizer", "params").flag("torch_adam")
    if isinstance(on_torch, Found) and on_torch.value:
        said = Found(OptimizerImplementation.FOREACH, on_torch.source)
        draft.say("optimizer.implementation", said)
    elif offload is None or offload.value == Offload.NONE:
        draft.say("optimizer.implementation", Found(OptimizerImplementation.FUSED, kind.source))


def _warn(file: DeepSpeedFile, context: Context) -> None:
    top = file.settings()
    checkpointing = file.section("activation_checkpointing")
    if any(value_or(checkpointing.flag(name), default=False) for name in _CHECKPOINTING):
        context.draft.warn(
            "deepspeed_activation_checkpointing",
            f"{file.place('activation_checkpointing')} acts only on models that call"
            " deepspeed.checkpointing; it is not counted.",
        )
    for key in _REMOVED:
        if key in top:
            context.draft.warn(
                "deepspeed_key_removed",
                f"{file.place(key)}: DeepSpeed 0.19.8 refuses this key, whose feature is gone.",
            )


def read(invocation: Invocation, context: Context) -> None:
    """Read a script that hands a configuration, or words of its own, to DeepSpeed."""
    flags = of_flags(invocation.words)
    place = f"{invocation.source} {invocation.program}"
    context.draft.say("software.framework", Found("deepspeed", place))
    say_script(flags, invocation, context)
    setting = flags.get("deepspeed_config") or flags.get("deepspeed")
    if setting is not None and setting.said != ():
        say_deepspeed(setting, context, trainer=None)
    elif context.draft.said("sharding.zero_stage") is None:
        source = setting.source if setting is not None else invocation.source
        context.draft.unknown(
            "sharding",
            Unseen(
                source,
                f"{invocation.program} makes its DeepSpeed configuration itself",
                "say its stage with VRAMGATE_ZERO_STAGE",
            ),
        )


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Read DeepSpeed's JSON as it is."""
    context.draft.say("software.framework", Found("deepspeed", name))
    _say_file(DeepSpeedFile(values=config, prefix=f"{name}: "), name, context, None)
