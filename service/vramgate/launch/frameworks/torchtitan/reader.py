"""torchtitan: ``torchrun -m torchtitan.train`` with a TOML file or a packaged configuration, ``run_train.sh``.

Sources: ``config/manager.py`` and ``run_train.sh`` of 0.2.2 and 0.3.0.
"""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.dotted import Tree, assume_packaged
from vramgate.launch.frameworks.torchtitan.batch import say_batch
from vramgate.launch.frameworks.torchtitan.config import PACKAGED, Configuration, of_command
from vramgate.launch.frameworks.torchtitan.job import say_job, say_model
from vramgate.launch.frameworks.torchtitan.parallel import say_parallelism
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word
from vramgate.launch.world import World, say_world

_SCRIPT = "run_train.sh"
_OF_CONFIG = (
    "model.name",
    "micro_batch_size",
    "sequence_length",
    "gradient_accumulation_steps",
    "activation_checkpointing.mode",
    "parallelism.tensor_parallel_size",
    "parallelism.pipeline_parallel_size",
    "compile",
)
"""What a configuration decides."""


def read(invocation: Invocation, context: Context) -> None:
    """Keep what a torchtitan command says."""
    words: Sequence[Word] = invocation.words
    if posixpath.basename(invocation.program) == _SCRIPT:
        words = (*_of_variables(invocation), *words)
        _say_script(invocation, context.draft)
    configuration = of_command(words, context)
    context.draft.say("software.framework", Found("torchtitan", invocation.source))
    _say_version(configuration, invocation.source, context.draft)
    if configuration.unseen is None and not configuration.found:
        _check_named(configuration, invocation, context.draft)
    _say(configuration, context.draft)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Keep what the object of a TOML file says by itself."""
    context.draft.say("software.framework", Found("torchtitan", "launch.framework"))
    settings = Settings(Tree(config, name).flat())
    _say(Configuration(settings=settings, is_toml=True, found=True), context.draft)


def _say(configuration: Configuration, draft: Draft) -> None:
    settings = configuration.settings
    if configuration.unseen is not None:
        for field in _OF_CONFIG:
            draft.unknown(field, configuration.unseen)
    say_model(settings, draft)
    say_job(settings, draft, is_toml=configuration.is_toml, sees_all=configuration.unseen is None)
    degrees = say_parallelism(settings, draft, is_toml=configuration.is_toml)
    say_batch(settings, degrees, draft)
    for packaged in PACKAGED:
        assume_packaged(draft, packaged)


def _say_version(configuration: Configuration, source: str, draft: Draft) -> None:
    """Configurations were files up to 0.2 and are functions since: the form dates the release."""
    if draft.said("software.stack") is None:
        version = "0.2" if configuration.is_toml else "0.3"
        draft.assume(
            "software.stack", f"torchtitan ~{version}", f"{source}: the form of its options"
        )


def _of_variables(invocation: Invocation) -> tuple[Word, ...]:
    """Return the options that ``run_train.sh`` makes of its variables."""
    names = {"CONFIG_FILE": "--job.config_file", "MODULE": "--module", "CONFIG": "--config"}
    words: list[Word] = []
    for name, option in names.items():
        value = invocation.environment.get(name)
        if value is not None:
            words += [Word(text=option, source=value.source), value]
    return tuple(words)


def _say_script(invocation: Invocation, draft: Draft) -> None:
    """``run_train.sh``: NGPU processes on one node, 8 by default; expandable segments."""
    default = Word(text="8", source="run_train.sh default (NGPU)")
    said = Settings(
        {
            "n": Setting(
                said=(word := invocation.environment.get("NGPU", default),), source=word.source
            )
        }
    )
    nodes = Found(1, "run_train.sh")
    say_world(World(nodes=nodes, per_node=said.whole("n")), draft, invocation.environment)
    draft.assume("software.expandable_segments", True, "run_train.sh (PYTORCH_ALLOC_CONF)")  # noqa: FBT003 a value


def _check_named(configuration: Configuration, invocation: Invocation, draft: Draft) -> None:
    """Name what a command without a configuration leaves open: torchtitan's smallest model."""
    if configuration.is_toml:
        if "model.flavor" not in configuration.settings:
            reason = "no configuration is named; torchtitan then trains a model for tests"
            hint = "add --job.config_file FILE, or --module MODULE --config NAME"
            draft.unknown("model.name", Unseen(invocation.source, reason, hint))
        return
    # config/manager.py: ValueError "--module is required", "--config is required".
    draft.problem(
        Problem(
            rule="config_missing",
            detail="torchtitan needs both --module and --config",
            fix="write --module llama3 --config llama3_8b",
            values={invocation.source: None},
            field="model.name",
        )
    )
