"""``vramgate check``: may these jobs start, without a server."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vramgate.admission.decision import Channel, Mode
from vramgate.errors import DomainError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
            help="Jobs or requests (JSON, YAML), manifests, batch scripts, and with --framework "
            "configurations; - is standard input.",
        ),
    ],
    *,
    policy: Annotated[
        Path | None, typer.Option(help="A policy document; without it the default one holds.")
    ] = None,
    risk: Annotated[
        float | None, typer.Option(help="Allowed is what runs out of memory at most this often.")
    ] = None,
    deny_probability: Annotated[
        float | None, typer.Option(help="Denied is what runs out of memory at least this often.")
    ] = None,
    mode: Annotated[Mode | None, typer.Option(help="The mode, whatever the policy says.")] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="The card, whatever the files say of it.")
    ] = None,
    devices: Annotated[int | None, typer.Option(help="The number of cards.", min=1)] = None,
    queue: Annotated[str | None, typer.Option(help="The partition or queue.")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="The cluster, for the policy's rules.")
    ] = None,
    submitter: Annotated[str | None, typer.Option(help="Who would send the jobs.")] = None,
    channel: Annotated[
        Channel | None, typer.Option(help="The door they would come through; else cli.")
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(help="Whose configurations the files are: axolotl, torchtune, …"),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="A variable launches refer to: NAME=VALUE, or NAME as it is here."),
    ] = None,
    site_catalog: Annotated[
        Path | None,
        typer.Option(envvar="VRAMGATE_SITE_CATALOG", help="The site's own models and cards."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A warn counts as deny.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds for all files; what is left then is unchecked.", min=0),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="Of the answers.")] = (
        Format.TEXT
    ),
    output: Annotated[
        Path | None,
        typer.Option(help="A file for the answers; standard output has them as text then."),
    ] = None,
) -> None:
    """Say of each file whether its job may start: the answer of POST /admit, without a server.

    Files that a launch names are read where they are; nothing is run.

    The exit code is that of the worst file: 2 invalid (not readable, of another shape, or a job that no
    card would run), 1 deny, 3 unchecked (no time left), 0 allow or warn. It goes by the verdict, what
    the evidence says, not by the decision, which the policy's mode makes of it: under the default
    policy (mode warn) a job that does not fit is denied here as well. With --mode enforce the
    decision is the verdict.
    """
    from vramgate.cli.checks.files import Check
    from vramgate.cli.checks.outcome import Outcome, exit_code
    from vramgate.cli.checks.policy_file import check_overrides, policy_in
    from vramgate.cli.checks.question import Said
    from vramgate.cli.launch_sources import variables
    from vramgate.workflows.check_job import Overrides
    from vramgate.workflows.load_catalogs import load_catalogs

    until = None if timeout is None else time.monotonic() + timeout
    catalogs = load_catalogs(site_catalog)
    terms = policy_in(policy, catalogs.accelerators)
    overrides = Overrides(risk=risk, deny_probability=deny_probability, mode=mode)
    check_overrides(overrides, terms)
    one_by_one = Check(
        said=Said(
            framework=framework,
            env=variables(env or []),
            hardware=_said(accelerator=accelerator, devices=devices),
            question=_said(queue=queue, cluster=cluster, submitter=submitter, channel=channel),
        ),
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
    from vramgate.cli.checks.text import print_text

    if output is not None:
        _write(output, _formatted(checked, output_format))
    if output is not None or output_format is Format.TEXT:
        print_text(checked)
    else:
        typer.echo(_formatted(checked, output_format), nl=False)


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


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnwritableFileError(f"{output} cannot be written: {error.strerror}.") from error
