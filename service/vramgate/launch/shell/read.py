"""read_shell: the simple commands of a script or a line, every word expanded; nothing is run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vramgate.launch.documents import unreadable
from vramgate.launch.shell.parse import parse_script
from vramgate.launch.shell.values import pieces_of
from vramgate.launch.shell.variables import Budget, Variables
from vramgate.launch.shell.walk import Walker
from vramgate.launch.words import Command, Word

LONGEST = 1024 * 1024
"""Characters of a script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellReading:
    """What a script runs, and the files it writes itself."""

    commands: tuple[Command, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    """By the path as written after expansion; what has no value stays as it was written."""


def read_shell(
    text: str,
    *,
    environment: Mapping[str, Word],
    name: str | None = None,
    arguments: tuple[Word, ...] = (),
    prefix: str = "",
) -> ShellReading:
    r"""Return the commands of a script, or of a line where it has no name.

    Places are ``args[i]`` in a line and ``line N, args[i]`` in a script, behind ``prefix``. Without
    arguments ``$1`` and its like have no value; ``${1:-x}`` is ``x`` then.

    Raises:
        UnreadableLaunchError: bash would refuse it (``bash -n``), or it expands to too much.

    >>> [w.text for w in read_shell("X='a b'; echo $X \"$X\"", environment={}).commands[0].words]
    ['echo', 'a', 'b', 'a b']
    """
    shown = name or "command"
    if len(text) > LONGEST:
        raise unreadable(shown, f"it has more than {LONGEST} characters")
    budget = Budget(shown)
    variables = Variables(environment, tuple(map(pieces_of, arguments)) or None)
    walker = Walker(variables, budget, prefix=prefix, numbers_lines=name is not None)
    try:
        # bash leaves NUL characters out.
        walker.run(parse_script(text.replace("\0", ""), shown))
    except RecursionError:
        raise unreadable(shown, "it is nested too deeply") from None
    commands = tuple(walker.commands)
    # The walker's parts refer to each other: what it holds stays until the collector comes.
    walker.commands.clear()
    return ShellReading(commands=commands, files=walker.outputs.files)
