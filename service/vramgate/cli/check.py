"""``vramgate check``: may these jobs start, without a server."""

import time
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.admission.decision import Channel, Mode
from vramgate.errors import DomainError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramgate.cli.checks.outcome import CheckedFile


class Format(StrEnum):
    """How answers are told."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    JUNIT = "junit"


class UnwritableFileError(DomainError):
    """The answers cannot be written where they should be."""

    code = "unwritable_file"


def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            # One that cannot be read is an answer, and the others are checked all the same.
            readable=False,
            help="Jobs and requests (JSON, YAML), manifests, batch scripts, one job a file; with "
            "--framework its configurations; - is standard input.",
        ),
    ],
    *,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="A policy as YAML or JSON, as `vramgate policy show` prints it; else the default."
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(help="Allow what runs out of memory at most this often: 0.01 is 1 %."),
    ] = None,
    deny_probability: Annotated[
        float | None, typer.Option(help="Deny what runs out of memory at least this often.")
    ] = None,
    mode: Annotated[Mode | None, typer.Option(help="The mode, whatever the policy says.")] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="The card, whatever the files say: h100, a100-sxm4-80gb, …")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(help="The number of cards, whatever the files say.", min=1)
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(help="The partition or queue, for the policy's rules and cards."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The cluster, for the policy's rules.")
    ] = None,
    submitter: Annotated[
        str | None, typer.Option(help="Who would submit the jobs, for the policy's rules.")
    ] = None,
    channel: Annotated[
        Channel | None,
        typer.Option(help="How they would be submitted, for the policy's rules; else cli."),
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(help="Whose configurations the files are: axolotl, torchtune, …"),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            help="A variable launches refer to: NAME=VALUE, or NAME as it is here; may be repeated."
        ),
    ] = None,
    site_catalog: Annotated[
        Path | None,
        typer.Option(envvar="VRAMGATE_SITE_CATALOG", help="The site's own models and cards."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="A warn counts as deny, in reports too."),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds for all files; those left then are unchecked.", min=0),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How answers are told.")] = (
        Format.TEXT
    ),
    output: Annotated[
        Path | None,
        typer.Option(help="A file for the answers; standard output still has them as text."),
    ] = None,
) -> None:
    """Say of each file whether its job may start: the answer of POST /admit, without a server.

    Files that a launch names are read from beside it or from here; nothing is run, nothing is sent.

    The exit code is that of the worst file: 2 invalid (not readable, of another shape, or a job that no
    card would run), 1 deny, 3 unchecked (no time left), 0 allow or warn (with --strict warn is 1).

    It goes by the verdict, which is what the evidence says. The decision, which the policy's mode
    makes of it, is in the JSON beside it: under the default policy (mode warn) the service would let
    a job start that is denied here.
    """
    from vramgate.cli.checks.files import Check
    from vramgate.cli.checks.options import check_options
    from vramgate.cli.checks.outcome import Outcome, exit_code
    from vramgate.cli.checks.policy_file import policy_in
    from vramgate.cli.checks.question import Said
    from vramgate.cli.launch_sources import variables
    from vramgate.workflows.check_job import Overrides
    from vramgate.workflows.load_catalogs import load_catalogs

    until = None if timeout is None else time.monotonic() + timeout
    catalogs = load_catalogs(site_catalog)
    terms = policy_in(policy, catalogs.accelerators)
    overrides = Overrides(risk=risk, deny_probability=deny_probability, mode=mode)
    said = Said(
        framework=framework,
        env=variables(env or []),
        hardware=_said(accelerator=accelerator, devices=devices),
        question=_said(queue=queue, cluster=cluster, submitter=submitter, channel=channel),
    )
    check_options(said, overrides, terms, catalogs.accelerators)
    one_by_one = Check(
        said=said,
        policy=terms,
        overrides=overrides,
        catalogs=catalogs,
        warn_counts_as=Outcome.DENY if strict else Outcome.WARN,
        has_time=lambda: until is None or time.monotonic() < until,
    )
    checked = [one_by_one.file(path) for path in files]
    _tell(checked, output_format, output)
    raise typer.Exit(exit_code(one.counts_as for one in checked))


def _said(**given: object) -> dict[str, object]:
    return {name: value for name, value in given.items() if value is not None}


def _tell(checked: "Sequence[CheckedFile]", output_format: Format, output: Path | None) -> None:
    """Write the answers where they are wanted.

    Raises:
        UnwritableFileError: they cannot be written there.
    """
    from vramgate.cli.checks.text import print_text

    if output is not None:
        with _writing(str(output)):
            output.write_text(_formatted(checked, output_format), encoding="utf-8")
    with _writing("Standard output"):
        if output is not None or output_format is Format.TEXT:
            print_text(checked)
        else:
            # As bytes: these formats are UTF-8, whatever the terminal's words are written in.
            typer.echo(_formatted(checked, output_format).encode(), nl=False)


def _formatted(checked: "Sequence[CheckedFile]", output_format: Format) -> str:
    from vramgate.cli.checks.json import as_json
    from vramgate.cli.checks.junit import as_junit
    from vramgate.cli.checks.sarif import as_sarif
    from vramgate.cli.checks.text import as_text

    writers = {
        Format.TEXT: as_text,
        Format.JSON: as_json,
        Format.SARIF: as_sarif,
        Format.JUNIT: as_junit,
    }
    return writers[output_format](checked)


@contextmanager
def _writing(name: str) -> "Iterator[None]":
    try:
        yield
    except OSError as error:
        raise UnwritableFileError(f"{name} cannot be written: {error.strerror}.") from error
