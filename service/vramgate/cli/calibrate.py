"""``vramgate calibrate``: make the calibration that ships with the package."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.cli.progress import progress_bar
from vramgate.errors import DomainError

if TYPE_CHECKING:
    from typing import Any

DIFFERS = 1
"""The exit code of `--check` where the calibration that ships is another one."""


class NothingToCalibrateError(DomainError):
    """It was not said what to fit."""

    code = "nothing_to_calibrate"


def calibrate(
    *,
    factory: Annotated[
        bool, typer.Option("--factory", help="Fit the public measurements that ship with vramgate.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the calibration here; without it, to standard output."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit code 1 where another one ships."),
    ] = False,
) -> None:
    """Fit a calibration, and show how far it has come.

    The factory calibration is a file of the package: this command makes it, to the digit.
    """
    if not factory:
        raise NothingToCalibrateError("Say --factory.", hint="Reports are not fitted yet.")
    document = _factory_document()
    if check:
        _check(document)
    else:
        _write(document, output)


def _factory_document() -> dict[str, "Any"]:
    from vramgate.accuracy.cases import bundled_cases
    from vramgate.accuracy.factory import factory_document
    from vramgate.workflows.load_catalogs import load_catalogs

    with progress_bar("Fitting") as progress:
        return factory_document(bundled_cases().measured, load_catalogs(), progress=progress)


def _check(document: dict[str, "Any"]) -> None:
    from vramgate.calibration.versions import factory_calibration, factory_version

    made, shipped = factory_version(document), factory_calibration().version
    typer.echo(f"{made} is made; {shipped} ships.")
    raise typer.Exit(0 if made == shipped else DIFFERS)


def _write(document: dict[str, "Any"], output: Path | None) -> None:
    from vramgate.calibration.versions import factory_text, factory_version

    text = factory_text(document)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"Wrote {factory_version(document)} to {output}.")
