"""The answers as lines for people: one a file, what explains it below."""

from collections.abc import Iterable, Iterator

import typer
from rich.console import Console
from rich.text import Text

from vramgate.cli.checks.details import cautions_of, details_of
from vramgate.cli.checks.outcome import CheckedFile, Outcome, printable

_INDENT = "  "
_STYLES = {
    Outcome.ALLOW: "bold green",
    Outcome.WARN: "bold yellow",
    Outcome.DENY: "bold red",
    Outcome.INVALID: "bold red",
    Outcome.UNCHECKED: "bold cyan",
}


def print_text(checked: Iterable[CheckedFile]) -> None:
    """Print the answers, coloured where a terminal shows them; lines are never folded.

    Raises:
        OSError: standard output takes no more.
    """
    console = Console(highlight=False)
    # The console itself would end the process where nobody reads on, with an exit code of its own.
    with console.capture() as printed:
        for line in _lines(checked):
            console.print(line, soft_wrap=True)
    typer.echo(printed.get(), nl=False)


def as_text(checked: Iterable[CheckedFile]) -> str:
    """Return the answers without colour."""
    return "".join(f"{line.plain}\n" for line in _lines(checked))


def _lines(checked: Iterable[CheckedFile]) -> Iterator[Text]:
    for one in checked:
        outcome = (one.outcome.value, _STYLES[one.outcome])
        yield Text.assemble((one.shown_path, "bold"), ": ", outcome, f": {printable(one.message)}")
        below = (*details_of(one), *cautions_of(one))
        yield from (Text(f"{_INDENT}{detail}") for detail in below)
