"""Megatron-DeepSpeed: Megatron's arguments, DeepSpeed's engine.

Source: Megatron-DeepSpeed 4efb479d ``megatron/arguments.py`` and ``megatron/training.py``:
DeepSpeed takes its JSON alone; ``--zero-stage`` (default 1) tells Megatron what it says.
"""

from vramgate.costmodel.job import CheckpointMode, ShardingImplementation
from vramgate.launch.draft import Draft
from vramgate.launch.frameworks.deepspeed.reader import say_deepspeed
from vramgate.launch.frameworks.megatron.arguments import Arguments
from vramgate.launch.frameworks.megatron.precision import say_precision
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found

_CONFIG = "deepspeed_config"


def is_deepspeed(arguments: Arguments) -> bool:
    """Return whether DeepSpeed's engine trains."""
    return arguments.on("deepspeed") is not None


def say_engine(arguments: Arguments, context: Context) -> None:
    """Say what DeepSpeed decides: precision, sharding, its own checkpointing.

    Raises:
        UnreadableLaunchError: its file was sent and is not JSON.
    """
    draft = context.draft
    if _CONFIG in arguments.settings:
        say_deepspeed(arguments.settings[_CONFIG], context, trainer=None)
    else:
        say_precision(arguments, draft)
    engine = arguments.on("deepspeed")
    if draft.said("sharding.implementation") is None and engine is not None:
        draft.say("sharding.implementation", Found(ShardingImplementation.DEEPSPEED, engine.source))
    if draft.said("sharding.zero_stage") is None:
        draft.say("sharding.zero_stage", arguments.settings.whole("zero_stage"))
    _say_checkpointing(arguments, draft)


def _say_checkpointing(arguments: Arguments, draft: Draft) -> None:
    """Say the older checkpointing, which is alive here."""
    whole = arguments.on("checkpoint_activations")
    if whole is None:
        return
    draft.say("activation_checkpointing.mode", Found(CheckpointMode.FULL, whole.source))
    draft.say(
        "activation_checkpointing.every_n_layers",
        arguments.settings.whole("checkpoint_num_layers"),
    )
    in_host = arguments.on("checkpoint_in_cpu")
    if in_host is not None:
        draft.say("activation_checkpointing.offload", Found(value=True, source=in_host.source))
