"""torchtune: ``tune run [torchrun's options] RECIPE --config NAME|FILE key=value ~key``.

Source: torchtune 0.6.1 ``_cli/run.py``. Also recipes started as files, and a configuration alone.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.frameworks.dotted import assume_packaged
from vramgate.launch.frameworks.torchtune.config import (
    PACKAGED,
    Configuration,
    of_command,
    of_object,
    packaged_recipes,
)
from vramgate.launch.frameworks.torchtune.job import Recipe, say_job
from vramgate.launch.frameworks.torchtune.method import say_method, say_model
from vramgate.launch.frameworks.torchtune.rules import problems
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.option_words import split_options
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Settings
from vramgate.launch.words import Word
from vramgate.launch.world import TORCHRUN, say_world, torchrun_world

_CONFIG = "--config"
_NOT_TRAINING = ("generate", "eleuther_eval", "quantize", "dev/generate")
_OF_CONFIG = (
    "model.name",
    "micro_batch_size",
    "gradient_accumulation_steps",
    "sequence_length",
    "precision",
    "optimizer.name",
    "activation_checkpointing.mode",
    "packing",
    "loss",
    "compile",
)
"""What a configuration decides."""
_OF_ADAPTERS = ("method.rank", "method.target_modules")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The words of ``tune run``, taken apart."""

    launcher: Settings
    recipe: Word
    config: Word | None
    overrides: tuple[Word, ...]


def read(invocation: Invocation, context: Context) -> None:
    """Keep what a torchtune command says; commands that start no recipe say nothing."""
    words = invocation.words
    if invocation.program.rpartition("/")[2].removesuffix(".py").rpartition(".")[2] == "tune":
        if not words or words[0].text != "run":
            return
        run = _taken_apart(words[1:])
        if run is None or run.recipe.text.startswith(_NOT_TRAINING):
            return
        recipe = _recipe(run.recipe.text)
        if run.launcher:
            world = torchrun_world(run.launcher, invocation.environment)
            say_world(world, context.draft, invocation.environment)
        _check_launcher(run, recipe, invocation, context.draft)
    else:
        # Under torchrun a copied recipe keeps its name, not its registration.
        config, overrides = _config(words)
        program = Word(text=invocation.program, source=invocation.source)
        run = _Run(launcher=Settings(), recipe=program, config=config, overrides=overrides)
        recipe = _recipe(posixpath.splitext(posixpath.basename(invocation.program))[0])
    context.draft.say("software.framework", Found("torchtune", invocation.source))
    if run.config is None:
        context.draft.problem(_no_config(invocation.source))
        return
    _say(recipe, of_command(run.config, run.overrides, context), context.draft)


def read_config(config: Mapping[str, Any], name: str, context: Context) -> None:
    """Keep what a configuration says by itself."""
    context.draft.say("software.framework", Found("torchtune", "launch.framework"))
    _say(Recipe(), of_object(config, name), context.draft)


def _say(recipe: Recipe, configuration: Configuration, draft: Draft) -> None:
    settings, sees_all = configuration.settings, configuration.unseen is None
    for problem in configuration.problems:
        draft.problem(problem)
    if configuration.unseen is not None:
        _say_unseen(configuration.unseen, recipe, draft)
    if "dtype" in settings:
        draft.forget("precision")
    say_model(settings, draft)
    say_method(recipe, settings, draft)
    say_job(recipe, settings, draft, sees_all=sees_all)
    if recipe.name.startswith("ppo_"):
        _say_ppo(recipe, settings, draft)
    for problem in problems(recipe, settings, sees_all=sees_all):
        draft.problem(problem)
    assume_packaged(draft, PACKAGED)


def _say_unseen(unseen: Unseen, recipe: Recipe, draft: Draft) -> None:
    """Name what the file would have said; what the command line says of it comes after."""
    for field in _OF_CONFIG + (_OF_ADAPTERS if "lora" in recipe.name else ()):
        draft.unknown(field, unseen)


def _say_ppo(recipe: Recipe, settings: Settings, draft: Draft) -> None:
    """PPO holds more models than the job can name, and ``batch_size`` counts what it generates."""
    policy = "policy_model._component_"
    source = settings[policy].source if policy in settings else recipe.name
    reason = "PPO holds a policy, its reference, a value and a reward model"
    draft.forget("micro_batch_size")
    for field in ("task", "micro_batch_size"):
        draft.unknown(field, Unseen(source, reason, "estimate the policy alone as task sft"))


def _taken_apart(words: Sequence[Word]) -> _Run | None:
    """Return the parts: what stands before the first bare word is torchrun's."""
    split = split_options(words, TORCHRUN)
    if not split.command:
        return None
    config, overrides = _config(split.command[1:])
    return _Run(
        launcher=split.settings(), recipe=split.command[0], config=config, overrides=overrides
    )


def _config(words: Sequence[Word]) -> tuple[Word | None, tuple[Word, ...]]:
    """Return the word behind ``--config``, and the overrides."""
    config, rest, index = None, list[Word](), 0
    while index < len(words):
        text = words[index].text
        if text == _CONFIG and index + 1 < len(words):
            config, index = words[index + 1], index + 1
        elif text.startswith(f"{_CONFIG}="):
            value = text.partition("=")[2]
            hidden = tuple(one for one in words[index].unresolved if one in value)
            config = Word(text=value, source=words[index].source, unresolved=hidden)
        else:
            rest.append(words[index])
        index += 1
    return config, tuple(rest)


def _recipe(said: str) -> Recipe:
    """Return the recipe; only the registered names are torchtune's own code."""
    known = packaged_recipes()
    name = said.removesuffix(".py")
    last = posixpath.basename(name)
    return Recipe(name=last, packaged=name in known or last in known)


def _check_launcher(run: _Run, recipe: Recipe, invocation: Invocation, draft: Draft) -> None:
    for problem in _launcher_problems(run, recipe, invocation, draft):
        draft.problem(problem)


def _launcher_problems(
    run: _Run, recipe: Recipe, invocation: Invocation, draft: Draft
) -> Iterator[Problem]:
    """``_cli/run.py``, ``main`` of the distributed recipes: launchers and recipes that do not go together."""
    if run.launcher and recipe.packaged and "distributed" not in recipe.name:
        yield Problem(
            rule="recipe_not_distributed",
            detail=f"{recipe.name} does not run under torchrun's options",
            fix="leave them out, or name the distributed recipe",
            values={run.recipe.source: run.recipe.text},
            field="hardware.devices",
        )
    started = run.launcher or "RANK" in invocation.environment or draft.said("hardware.devices")
    if recipe.is_distributed and not started:
        yield Problem(
            rule="recipe_needs_launcher",
            detail=f"{recipe.name} runs under a distributed launcher only",
            fix="write tune run --nproc_per_node N …",
            values={run.recipe.source: run.recipe.text},
            field="hardware.devices",
        )


def _no_config(source: str) -> Problem:
    return Problem(
        rule="config_missing",
        detail="tune run needs --config NAME or --config FILE",
        fix="name a configuration of `tune ls`, or a file",
        values={source: None},
    )
