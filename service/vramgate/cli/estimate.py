"""``vramgate estimate``: the bill of one job, without a server."""

from pathlib import Path
from typing import Annotated

import typer

from vramgate.errors import DomainError

_YAML_SUFFIXES = {".yaml", ".yml"}


class UnreadableFileError(DomainError):
    """The file is not there, or not of the kind its name says."""

    code = "unreadable_file"


def estimate(
    file: Annotated[
        Path,
        typer.Argument(
            help="A job as JSON, or as YAML where the name ends so; - is standard input.",
        ),
    ],
    *,
    site_catalog: Annotated[
        Path | None,
        typer.Option(envvar="VRAMGATE_SITE_CATALOG", help="The site's own models and cards."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the answer as the API gives it.")] = (
        False
    ),
) -> None:
    """Estimate the memory of one job: its peak, its bill, its timeline, and whether it fits."""
    from vramgate.wire.estimates import EstimateRequest
    from vramgate.wire.validation import validated
    from vramgate.workflows.estimate_job import answer_request
    from vramgate.workflows.load_catalogs import load_catalogs

    request = validated(EstimateRequest, _as_request(_read(file)))
    answer = answer_request(request, load_catalogs(site_catalog))
    if json:
        typer.echo(answer.model_dump_json(indent=2))
        return

    from vramgate.cli.bill import print_bill

    print_bill(answer)


def _read(file: Path) -> object:
    from vramgate.json_text import parse_json

    if str(file) == "-":
        return parse_json(typer.get_binary_stream("stdin").read())
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UnreadableFileError(f"{file} cannot be read: {error.strerror}.") from error
    is_yaml = file.suffix.lower() in _YAML_SUFFIXES
    return _parse_yaml(raw, file) if is_yaml else parse_json(raw)


def _parse_yaml(raw: bytes, file: Path) -> object:
    import yaml

    try:
        return yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableFileError(f"{file} is not YAML: {error}") from error


def _as_request(value: object) -> object:
    """Return the request; a job alone is one too."""
    if isinstance(value, dict) and "job" not in value and "launch" not in value:
        return {"job": value}
    return value
