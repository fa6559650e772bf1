"""Shells inside commands: ``bash -c "…"``, ``bash train.sh``, a script called by its path."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vramgate.launch.launch import Context
from vramgate.launch.option_words import Syntax, split_options, valued
from vramgate.launch.reading import Found
from vramgate.launch.shell.read import read_shell
from vramgate.launch.step import Step
from vramgate.launch.words import Command, Word

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh", "source", "."})
_BASH = Syntax(values=valued("o O rcfile init-file"))
_SCRIPT = Syntax(
    values=valued("c command e return f flush I log-in O log-out B log-io T log-timing E echo o m")
)
_HEAD = 64


@dataclass(slots=True)
class Budget:
    """How much may still come out of scripts, so that nothing grows without end."""

    commands: int = 4096
    characters: int = 4_000_000

    def takes(self, text: str) -> bool:
        """Return whether a text may still be read."""
        self.characters -= len(text)
        return self.characters >= 0 and self.commands > 0

    def some(self, commands: Sequence[Command]) -> Sequence[Command]:
        """Return the commands that may come."""
        taken = commands[: self.commands]
        self.commands -= len(taken)
        return taken


def of_shell(step: Step, context: Context, budget: Budget) -> Iterator[Step]:
    """Yield the commands of ``bash -c "…" name arguments`` and of ``bash script arguments``."""
    split = split_options(step.words[1:], _BASH)
    options = {name for name, _ in split.options}
    if not split.command:
        return
    first, *behind = split.command
    if "c" in options:
        yield from _commands(step, first, first.text, None, tuple(behind[1:]), context, budget)
    else:
        yield from of_file(step, first, behind, context, budget)


def of_file(
    step: Step, path: Word, arguments: Sequence[Word], context: Context, budget: Budget
) -> Iterator[Step]:
    """Yield the commands of a script, where it was sent; none where it is open already."""
    found = context.files.find(path)
    if not isinstance(found, Found) or found.value.name in step.opened:
        return
    name = found.value.name
    inside = replace(step, opened=step.opened | {name})
    yield from _commands(inside, path, found.value.text, name, tuple(arguments), context, budget)


def is_sent_script(step: Step, context: Context) -> bool:
    """Return whether a command is a shell script called by its path: ``./train.sh``."""
    if not step.words or not step.words[0].is_known:
        return False
    text = step.words[0].text
    if text.endswith(".sh"):
        return True
    if "/" not in text or text.endswith(".py"):
        return False
    found = context.files.find(step.words[0])
    if not isinstance(found, Found):
        return False
    head = found.value.text[:_HEAD].partition("\n")[0]
    return head.startswith("#!") and head.rstrip().endswith("sh")


def of_typescript(step: Step, context: Context, budget: Budget) -> Iterator[Step]:
    """Yield the commands of ``script -c "…" file``."""
    split = split_options(step.words[1:], _SCRIPT)
    for word in split.every("c", "command"):
        yield from of_text(step, word, context, budget)


def of_text(step: Step, text: Word, context: Context, budget: Budget) -> Iterator[Step]:
    """Yield the commands of a line that is one word of another."""
    yield from _commands(step, text, text.text, None, (), context, budget)


def _commands(
    step: Step,
    place: Word,
    text: str,
    name: str | None,
    arguments: tuple[Word, ...],
    context: Context,
    budget: Budget,
) -> Iterator[Step]:
    if name is None and not place.is_known and not _is_readable(place):
        return
    if not budget.takes(text):
        return
    reading = read_shell(text, environment=step.environment, name=name, arguments=arguments)
    for file, content in reading.files.items():
        context.files.add(file, content)
    for command in budget.some(reading.commands):
        yield replace(step, words=command.words, environment=command.environment)


def _is_readable(word: Word) -> bool:
    """Return whether a text is more than one reference: ``$COMMAND`` alone is out of sight."""
    return word.text not in word.unresolved
