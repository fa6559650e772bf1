"""read_commands: from commands to the one that trains, and what its launchers and its words say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vramgate.launch.commands.containers import CONTAINERS, in_container
from vramgate.launch.commands.launchers import LAUNCHERS, is_python, python
from vramgate.launch.commands.process_managers import of_sbatch
from vramgate.launch.commands.program_names import Confidence, dotted_ends
from vramgate.launch.commands.programs import Program, find_reader
from vramgate.launch.commands.scripts import (
    SHELLS,
    Budget,
    is_sent_script,
    of_file,
    of_shell,
    of_typescript,
)
from vramgate.launch.commands.wrappers import WRAPPERS
from vramgate.launch.frameworks.accelerate.reader import say_accelerate
from vramgate.launch.frameworks.accelerate.settings import of_environment
from vramgate.launch.frameworks.deepspeed.reader import settle_precision
from vramgate.launch.launch import Context, Invocation
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.step import Step, first_step
from vramgate.launch.words import Command
from vramgate.launch.world import (
    DEVICES,
    PER_NODE,
    World,
    say_world,
    visible_devices,
    world_of_environment,
)

_LAYERS = 24
_NAMED = 5
_TRAINER_FAMILY = frozenset({"transformers", "trl", "llama_factory", "axolotl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Training:
    """A command that trains, everything before it taken off."""

    step: Step
    invocation: Invocation
    program: Program


def read_commands(commands: Sequence[Command], context: Context) -> None:
    """Find the command that trains among commands, and say what it, and what starts it, says.

    Raises:
        UnreadableLaunchError: a script or file that a command names was sent and cannot be read.
    """
    steps = ends(commands, context)
    trainings = [training for step in steps if (training := _training(step, context)) is not None]
    chosen = _chosen(trainings)
    if chosen is None:
        _say_none(commands, context)
        return
    _say_others(chosen, trainings, context)
    _say(chosen, context)


def ends(commands: Sequence[Command], context: Context) -> list[Step]:
    """Return the programs that commands start in the end, wrappers and launchers taken off.

    Raises:
        UnreadableLaunchError: a script or file that a command names was sent and cannot be read.
    """
    budget = Budget()
    return [step for command in commands for step in _ends(first_step(command), context, budget)]


def _ends(step: Step, context: Context, budget: Budget, layer: int = 0) -> Iterator[Step]:
    """Yield the programs that a command starts in the end."""
    if not step.words or layer > _LAYERS:
        return
    inner = _inside(step, context, budget)
    if inner is None:
        yield step
        return
    for one in inner:
        yield from _ends(one, context, budget, layer + 1)


def _inside(step: Step, context: Context, budget: Budget) -> Iterator[Step] | None:
    """Return what a wrapper, launcher or shell starts; None for a program that is none of them."""
    name = step.name
    if name in SHELLS:
        return of_shell(step, context, budget)
    if name == "script":
        return of_typescript(step, context, budget)
    if name == "sbatch":
        return of_sbatch(step, context, budget)
    if name in WRAPPERS:
        return _one(WRAPPERS[name](step))
    if name in CONTAINERS:
        return _one(in_container(step))
    if is_python(name):
        return _one(python(step))
    for launcher in (name, *dotted_ends(step.words[0].text)):
        if launcher in LAUNCHERS:
            return _one(LAUNCHERS[launcher](step, context))
    if is_sent_script(step, context) and isinstance(context.files.find(step.words[0]), Found):
        return of_file(step, step.words[0], step.words[1:], context, budget)
    return None


def _one(step: Step | None) -> Iterator[Step]:
    if step is not None:
        yield step


def _training(step: Step, context: Context) -> _Training | None:
    program, *words = step.words
    invocation = Invocation(
        program=program.text,
        words=tuple(words),
        environment=step.environment,
        source=program.source,
    )
    found = find_reader(invocation, context, is_python=step.is_python)
    if found is None:
        return None
    return _Training(step=step, invocation=invocation, program=found)


def _chosen(trainings: Sequence[_Training]) -> _Training | None:
    """Return the first command that surely trains, else the first that may."""
    for confidence in (Confidence.SURELY, Confidence.PERHAPS):
        for one in trainings:
            if _confidence(one) >= confidence:
                return one
    return None


def _confidence(training: _Training) -> Confidence:
    world = training.step.world
    if world is not None and not world.of_tasks:
        return Confidence.SURELY  # nobody prepares data under torchrun
    return training.program.recognised.confidence


def _say(training: _Training, context: Context) -> None:
    step, draft = training.step, context.draft
    for says in step.first:
        says(context)
    _say_devices(training, context)
    _say_variables(training, context)
    training.program.read(training.invocation, context)
    settle_precision(draft)
    for says in step.last:
        says(context)


def _say_devices(training: _Training, context: Context) -> None:
    """Say the devices: of the launcher, else of the process's own environment, else those it sees."""
    step, draft = training.step, context.draft
    world = step.world or world_of_environment(step.environment)
    if world is not None and not (world.of_tasks and training.program.recognised.starts_processes):
        say_world(world, draft, step.environment)
        return
    visible = visible_devices(step.environment)
    if isinstance(visible, Found):
        devices, per_node = draft.said(DEVICES), draft.said(PER_NODE)
        nodes = 1 if devices is None or per_node is None else devices.value // per_node.value
        world = World(per_node=visible, nodes=Found(max(1, nodes), visible.source))
        say_world(world, draft, step.environment)
    asked = draft.said(DEVICES)
    if asked is not None and asked.value > 1 and not training.program.recognised.starts_processes:
        draft.warn(
            "one_process_many_devices",
            f"{training.invocation.program} is started once, with {asked.value} devices in sight; the"
            " estimate takes one process for each.",
        )


def _say_variables(training: _Training, context: Context) -> None:
    """Say what accelerate's variables say where no ``accelerate launch``, which leaves a last word, read them."""
    if training.program.recognised.framework in _TRAINER_FAMILY and not training.step.last:
        settings = of_environment(training.step.environment)
        if settings:
            say_accelerate(settings, context)


def _say_others(chosen: _Training, trainings: Sequence[_Training], context: Context) -> None:
    others = [
        one for one in trainings if one is not chosen and _confidence(one) is Confidence.SURELY
    ]
    if others and _confidence(chosen) is Confidence.SURELY:
        names = ", ".join(_words(one) for one in others[:_NAMED])
        context.draft.warn(
            "several_trainings",
            f"Only the first training was read, {_words(chosen)}; left out: {names}.",
        )


def _words(training: _Training) -> str:
    return f"{training.invocation.program} ({training.invocation.source})"


def _say_none(commands: Sequence[Command], context: Context) -> None:
    firsts = [command.words[0] for command in commands if command.words]
    names = ", ".join(word.text[:40] for word in firsts[:_NAMED]) or "no command"
    context.draft.unknown(
        "model",
        Unseen(
            firsts[0].source if firsts else "launch.command",
            f"no command that trains is recognised ({names})",
            "send the scripts it runs in launch.files, or the command that trains",
        ),
    )
