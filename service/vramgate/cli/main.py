"""The command line: ``vramgate COMMAND``."""

import io
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from vramgate import __version__
from vramgate.cli.accuracy import accuracy
from vramgate.cli.annotate import annotate
from vramgate.cli.calibrate import calibrate
from vramgate.cli.check import check
from vramgate.cli.estimate import estimate
from vramgate.cli.migrate import migrate
from vramgate.cli.openapi import openapi
from vramgate.cli.parse import parse
from vramgate.cli.policy import policy
from vramgate.cli.purge import purge
from vramgate.cli.report import report
from vramgate.cli.serve import serve
from vramgate.cli.token import token
from vramgate.errors import DomainError

REFUSED = 2
"""The exit code where the input, not the service, is at fault."""

_COMMANDS: tuple[Callable[..., Any], ...] = (
    serve,
    estimate,
    parse,
    annotate,
    check,
    accuracy,
    calibrate,
    openapi,
    report,
    migrate,
    purge,
)

cli = typer.Typer(
    name="vramgate",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for _command in _COMMANDS:
    cli.command()(_command)
cli.add_typer(token)
cli.add_typer(policy)


def _show_version(asked: bool) -> None:  # noqa: FBT001 as Typer calls it
    if asked:
        typer.echo(f"vramgate {__version__}")
        raise typer.Exit


@cli.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Will a training job fit into GPU memory, and if not, what would?"""


def main() -> None:
    """Run the command line; expected failures are sentences, and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character shows another in its place.
        sys.stdout.reconfigure(errors="replace")
    try:
        cli()
    except DomainError as error:
        typer.echo(in_words(error), err=True)
        sys.exit(REFUSED)
    except ModuleNotFoundError as error:
        if error.name in {"vramgate", None} or str(error.name).startswith("vramgate."):
            raise
        typer.echo(
            f"This command needs {error.name}, which the light install leaves out; "
            "install vramgate[server].",
            err=True,
        )
        sys.exit(REFUSED)


def in_words(error: DomainError) -> str:
    """Return the failure as lines for the terminal.

    >>> print(in_words(DomainError("The job has no model.", hint="Name one.")))
    The job has no model.
    Name one.
    """
    lines = [error.message]
    lines += [f"  {field.pointer or '/'}: {field.detail}" for field in error.other_fields]
    if error.hint:
        lines.append(error.hint)
    return "\n".join(lines)
