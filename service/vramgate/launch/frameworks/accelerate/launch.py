"""The ``accelerate launch`` launcher: its options, and where the script begins.

Source: accelerate 1.15.0 ``commands/launch.py``: ``launch_command_parser``.
"""

from functools import partial

from vramgate.launch.frameworks.accelerate.reader import (
    accelerate_world,
    note_default_file,
    note_unseen_precision,
    say_accelerate,
)
from vramgate.launch.frameworks.accelerate.settings import of_environment, with_config_file
from vramgate.launch.launch import Context
from vramgate.launch.option_words import Syntax, split_options, switches, valued
from vramgate.launch.reading import Found
from vramgate.launch.settings import Settings
from vramgate.launch.step import Step
from vramgate.launch.world import World, unseen_options

# Options that take no word; every other takes one. The last three are of older versions.
_FLAGS = switches(
    "h help q quiet cpu multi_gpu tpu enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic"
    " dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config use_megatron_lm"
    " same_network m module no_python tpu_cluster no_tpu_cluster tpu_use_sudo downcast_bf16"
    " fp8_use_autocast_during_eval debug use_xpu use_mps_device ipex"
)
_SYNTAX = Syntax(values=valued("t tee"), flags=_FLAGS, unlisted=1)
_WITH_SUBCOMMAND = frozenset({"accelerate", "accelerate.commands.accelerate_cli"})


def accelerate(step: Step, context: Context) -> Step | None:
    """Return the script behind ``accelerate launch``; None for its other commands.

    Raises:
        UnreadableLaunchError: the configuration file was sent and is not YAML or JSON.
    """
    words = step.words[1:]
    if step.name in _WITH_SUBCOMMAND:
        if not words or words[0].text != "launch":
            return None
        words = words[1:]
    split = split_options(words, _SYNTAX)
    if not split.command:
        return None
    settings = split.settings().over(of_environment(step.environment))
    world = accelerate_world(with_config_file(settings, context.files), step.words[0].source)
    unseen = unseen_options(split.hidden)
    if unseen is not None and "num_processes" not in settings:
        world = World(total=unseen)
    return step.inner(
        split.command,
        world=world,
        is_python="no_python" not in settings,
        first=partial(_say, settings),
        last=partial(note_unseen_precision, settings),
    )


def _say(settings: Settings, context: Context) -> None:
    context.draft.say("software.framework", Found("accelerate", "accelerate launch"))
    note_default_file(settings, context)
    say_accelerate(settings, context)
