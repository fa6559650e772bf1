"""``vramgate parse``: the job that a launch starts, without a server."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vramgate.launch.launch import Launch
    from vramgate.wire.launches import ParseResponse

NOT_WHOLE = 2
"""The exit code where the job is not whole: something is unknown, or the launch would not run."""
_LONGEST_VALUE = 40


def parse(
    file: Annotated[
        Path | None,
        typer.Argument(help="A script, a manifest, or with --framework its configuration."),
    ] = None,
    *,
    command: Annotated[str | None, typer.Option(help="A command line instead of a file.")] = None,
    framework: Annotated[
        str | None, typer.Option(help="Whose configuration the file is: axolotl, torchtune, …")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="A variable the launch refers to: NAME=VALUE, or NAME as it is here."),
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="The card, whatever the launch says of it.")
    ] = None,
    devices: Annotated[int | None, typer.Option(help="The number of cards.", min=1)] = None,
    site_catalog: Annotated[
        Path | None,
        typer.Option(envvar="VRAMGATE_SITE_CATALOG", help="The site's own models and cards."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print each field with the place it was read at.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as the API gives it.")] = (
        False
    ),
) -> None:
    """Print the job that a launch starts, as `vramgate estimate -` takes it.

    Files that the launch names are read where they are; nothing is run. What is unknown, and why the
    launch would not run, is told on standard error; the exit code is then 2.
    """
    hardware = {"accelerator": accelerator, "devices": devices}
    answer = answer_for_file(
        _launch(file, command, framework, env or []),
        folder=file.parent if file is not None else Path(),
        hardware={name: value for name, value in hardware.items() if value is not None},
        site_catalog=site_catalog,
    )
    if json:
        typer.echo(answer.model_dump_json(indent=2))
    elif explain:
        _print_places(answer)
    else:
        typer.echo(json_module.dumps(job_of(answer), indent=2))
    tell(answer)
    if answer.problems or answer.unknown:
        raise typer.Exit(NOT_WHOLE)


def answer_for_file(
    launch: "Launch",
    *,
    folder: Path,
    hardware: dict[str, object],
    site_catalog: Path | None,
) -> "ParseResponse":
    """Return what a launch says, with the files it names as the user may read them."""
    from vramgate.cli.launch_sources import read_with_local_files
    from vramgate.workflows.load_catalogs import load_catalogs
    from vramgate.workflows.read_launch import parsed

    _, launched = read_with_local_files(launch, folders=(folder, Path()), hardware=hardware)
    return parsed(launched, load_catalogs(site_catalog))


def job_of(answer: "ParseResponse") -> dict[str, Any]:
    """Return the job of an answer, without what it leaves open."""
    job: dict[str, Any] = json_module.loads(answer.job.model_dump_json(exclude_none=True))
    return job


def tell(answer: "ParseResponse") -> None:
    """Say on standard error what is unknown, wrong or misleading."""
    for one in answer.problems:
        typer.echo(f"invalid job: {one.detail}; {one.fix}", err=True)
    for unknown in answer.unknown:
        way = f"; {unknown.hint}" if unknown.hint else ""
        typer.echo(f"unknown {unknown.field}: {unknown.reason} ({unknown.source}){way}", err=True)
    for warning in answer.warnings:
        typer.echo(f"note: {warning.message}", err=True)


def _launch(
    file: Path | None, command: str | None, framework: str | None, env: list[str]
) -> "Launch":
    from dataclasses import replace

    from vramgate.cli.launch_sources import UnclearLaunchError, launch_of_file, variables
    from vramgate.launch.launch import Launch

    if (file is None) == (command is None):
        raise UnclearLaunchError("Give a file, or a line with --command.")
    launch = (
        launch_of_file(file, framework=framework) if file is not None else Launch(command=command)
    )
    return replace(launch, env=variables(env))


def _print_places(answer: "ParseResponse") -> None:
    """Print a line a field: its value, and where it stands."""
    rows = [
        (field, _short(json_module.dumps(found.value, ensure_ascii=False)), found.source)
        for field, found in answer.provenance.items()
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for field, value, source in rows:
        typer.echo(f"{field:<{widths[0]}}  {value:<{widths[1]}}  {source}")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
