"""What is probably not meant by a policy, as the command line prints it."""

from collections.abc import Sequence

import typer

from vramgate.admission.lint import Finding


def print_findings(found: Sequence[Finding]) -> None:
    """Print what is probably not meant, on standard error."""
    for one in found:
        typer.echo(f"warning: {one.pointer or '/'}: {one.message} [{one.code}]", err=True)
