"""``vramgate openapi``: the description of the HTTP interface, as a file."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_PATH = Path("openapi/openapi.json")


def openapi(
    path: Annotated[Path, typer.Argument(help="Where to write it; - is standard output.")] = (
        DEFAULT_PATH
    ),
) -> None:
    """Write the OpenAPI 3.1 document of the HTTP interface."""
    from vramgate.app import openapi_text

    text = openapi_text()
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    typer.echo(f"Wrote {path}.")
