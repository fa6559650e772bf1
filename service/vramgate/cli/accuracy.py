"""``vramgate accuracy``: how near estimates come to traces and measured runs, and peers beside."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.cli.estimate import UnreadableFileError
from vramgate.cli.progress import progress_bar

if TYPE_CHECKING:
    from vramgate.accuracy.cases import Cases
    from vramgate.accuracy.report import AccuracyReport

NO_ROWS = "No rows are left to measure accuracy on."


def accuracy(
    *,
    cases: Annotated[
        Path | None,
        typer.Option(help="JSON lines of traces, measured runs or peers' figures to take instead."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Only measured runs whose source, traces whose family, contains this."),
    ] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle/--no-oracle", help="With or without the exact traces.")
    ] = True,
    calibrated: Annotated[
        bool,
        typer.Option(
            "--calibrated", help="Also by fits that have not seen the row; takes some seconds."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything, row by row.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables as the README holds them.")
    ] = False,
) -> None:
    """Compare estimates with exact traces, measured runs and other estimators."""
    from vramgate.accuracy.report import as_json

    chosen = _chosen(_cases(cases), source, with_oracle=oracle)
    report = _report(chosen, source, calibrated=calibrated)
    if json:
        typer.echo(as_json(report))
    else:
        _show(report, markdown=markdown)


def _report(cases: "Cases", source: str | None, *, calibrated: bool) -> "AccuracyReport":
    from vramgate.accuracy.report import accuracy_report
    from vramgate.workflows.load_catalogs import load_catalogs

    catalogs = load_catalogs()
    report = accuracy_report(cases, catalogs, source=source)
    if not calibrated:
        return report

    from vramgate.accuracy.calibrated import calibrated_report

    with progress_bar("Fitting") as progress:
        found = calibrated_report(cases.measured, catalogs, progress=progress)
    return replace(report, calibrated=found)


def _show(report: "AccuracyReport", *, markdown: bool) -> None:
    from vramgate.accuracy.calibrated_tables import calibrated_tables
    from vramgate.accuracy.markdown import as_markdown
    from vramgate.accuracy.tables import accuracy_tables

    tables = accuracy_tables(report)
    if report.calibrated is not None:
        tables += calibrated_tables(report.calibrated)
    if markdown:
        typer.echo(as_markdown(tables), nl=False)
        return

    from vramgate.cli.accuracy_tables import print_tables

    print_tables(tables)


def _cases(file: Path | None) -> "Cases":
    from vramgate.accuracy.cases import bundled_cases, read_cases

    if file is None:
        return bundled_cases()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFileError(f"{file} cannot be read: {error}.") from error
    return read_cases(text, name=str(file))


def _chosen(cases: "Cases", source: str | None, *, with_oracle: bool) -> "Cases":
    """Return the rows asked for.

    Raises:
        UnreadableFileError: none are left.
    """
    from vramgate.accuracy.report import from_source, without_oracle

    chosen = cases if with_oracle else without_oracle(cases)
    chosen = chosen if source is None else from_source(chosen, source)
    if not chosen.measured and not chosen.oracle:
        raise UnreadableFileError(NO_ROWS, hint="Look at --cases, --source and --no-oracle.")
    return chosen
