"""``vramgate report``: measured peaks from a file, or those that wait on disk, to the service."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.errors import DomainError

if TYPE_CHECKING:
    from vramgate.reporter.filed import Handled

_LARGEST_FILE_BYTES = 4 * 2**20


class UnusableReportFileError(DomainError):
    """The file cannot be read or holds no reports, or the service refused them."""

    code = "unusable_report"


def report(
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", help='One report or {"reports": […]} as JSON; - is standard input.'),
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Send what waits on disk, and nothing new.")
    ] = False,
    url: Annotated[str | None, typer.Option(help="Overrides VRAMGATE_URL.")] = None,
    token: Annotated[str | None, typer.Option(help="Overrides VRAMGATE_TOKEN.")] = None,
    spool: Annotated[Path | None, typer.Option(help="Overrides VRAMGATE_SPOOL.")] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=600.0, help="The longest it takes, in seconds.")
    ] = 5.0,
) -> None:
    """Send measured peaks; what the service cannot take now waits on disk, and that is no failure."""
    from vramgate.reporter.filed import deliver, reports_of
    from vramgate.reporter.notices import log
    from vramgate.reporter.settings import destination, spool_folder
    from vramgate.reporter.spool import Spool

    # One line is what an epilog's log has room for; who configured logging still gets the rest.
    log.addHandler(logging.NullHandler())
    if (file is None) != drain:
        raise UnusableReportFileError("Give either --file or --drain.")
    try:
        to = destination(url, token)
        decision_id = None if to is None else to.decision_id
        reports = [] if file is None else reports_of(_read(file), decision_id)
        handled = deliver(reports, Spool(spool_folder(spool)), to, within_seconds=timeout)
    except ValueError as error:
        raise UnusableReportFileError(f"{file or 'The spool'} cannot be sent: {error}.") from error
    except OSError as error:
        raise UnusableReportFileError(
            f"The spool cannot be written: {error.strerror}.", hint="Name another with --spool."
        ) from error
    _tell(handled)


def _read(file: Path) -> object:
    from vramgate.json_text import parse_json

    if str(file) == "-":
        raw = typer.get_binary_stream("stdin").read(_LARGEST_FILE_BYTES + 1)
    else:
        try:
            with file.open("rb") as opened:
                raw = opened.read(_LARGEST_FILE_BYTES + 1)
        except OSError as error:
            raise UnusableReportFileError(f"{file} cannot be read: {error.strerror}.") from error
    if len(raw) > _LARGEST_FILE_BYTES:
        raise UnusableReportFileError(f"{file} is larger than {_LARGEST_FILE_BYTES} bytes.")
    return parse_json(raw)


def _tell(handled: "Handled") -> None:
    """Say in one line what became of them; refused reports are a failure of their writer."""
    if handled.rejected:
        detail = ""
        if isinstance(handled.problem, dict):
            detail = str(handled.problem.get("detail") or handled.problem.get("title") or "")
        raise UnusableReportFileError(
            f"The service refused {handled.rejected} report(s), {handled.sent} sent: {detail}".rstrip(
                ": "
            )
        )
    trouble = f" ({handled.trouble})" if handled.trouble else ""
    typer.echo(f"{handled.sent} sent, {handled.waiting} wait on disk{trouble}")
