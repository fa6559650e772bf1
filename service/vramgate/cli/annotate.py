"""``vramgate annotate``: a manifest or a script that says its own job."""

import io
import json as json_module
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vramgate.errors import DomainError

if TYPE_CHECKING:
    from vramgate.launch.launch import Launch

ANNOTATION = "vramgate.dev/spec"
SCRIPT_LINE = "#VRAMGATE spec="
LONGEST_SPEC = 4096
_NEVER_WRAPPED = 2**20
_NOT_WHOLE = 2
_DASH = 2
_LIST = re.compile(r"^(?P<key> *)[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?P<dash> *)- ", re.MULTILINE)
_OBJECT = re.compile(r"^[^\s#-][^\n]*:[ \t]*(?:#[^\n]*)?\n(?P<indent> +)[^\s#-]", re.MULTILINE)


class NotAnnotatedError(DomainError):
    """There is no place to write the job to, or it is too long for it."""

    code = "not_annotated"


def annotate(
    file: Annotated[Path, typer.Argument(help="A Kubernetes manifest, or a batch script.")],
    *,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write the file itself, not standard output.")
    ] = False,
    env: Annotated[
        list[str] | None,
        typer.Option(help="A variable the launch refers to: NAME=VALUE, or NAME as it is here."),
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="The card, whatever the launch says of it.")
    ] = None,
    site_catalog: Annotated[
        Path | None,
        typer.Option(envvar="VRAMGATE_SITE_CATALOG", help="The site's own models and cards."),
    ] = None,
) -> None:
    """Write the job that a manifest or a script starts into it, for a scheduler that sees no files.

    The files that it names are read where they are. Comments and order stay. Nothing is written where
    the job is not whole; what is missing is told, and the exit code is 2.
    """
    from dataclasses import replace

    from vramgate.cli.launch_sources import launch_of_file, variables
    from vramgate.cli.parse import answer_for_file, job_of, tell

    launch = replace(launch_of_file(file, framework=None), env=variables(env or []))
    answer = answer_for_file(
        launch,
        folder=file.parent,
        hardware={} if accelerator is None else {"accelerator": accelerator},
        site_catalog=site_catalog,
    )
    tell(answer)
    if answer.problems or answer.unknown:
        raise typer.Exit(_NOT_WHOLE)
    text = annotated(launch, job_of(answer), is_json=file.suffix.lower() == ".json")
    if in_place:
        file.write_text(text, encoding="utf-8")
    else:
        typer.echo(text, nl=False)


def annotated(launch: "Launch", job: dict[str, Any], *, is_json: bool) -> str:
    """Return the text of a manifest or a script with its job in it.

    Raises:
        NotAnnotatedError: there is nothing to carry it, or it is too long.
        UnreadableLaunchError: none or several of a manifest's objects train.
    """
    spec = json_module.dumps({"job": job}, separators=(",", ":"), ensure_ascii=False)
    if len(spec.encode()) > LONGEST_SPEC:
        raise NotAnnotatedError(
            f"The job takes {len(spec.encode()):,} bytes as JSON, an annotation {LONGEST_SPEC:,}.",
            hint="Add the model to the site's catalog, and name it instead of its config.",
        )
    if launch.script is not None:
        return _annotated_script(launch.script, spec)
    if not isinstance(launch.manifest, str):
        raise NotAnnotatedError("There is no manifest and no script.")
    return (
        _annotated_json(launch.manifest, spec)
        if is_json
        else _annotated_yaml(launch.manifest, spec)
    )


def _annotated_script(script: str, spec: str) -> str:
    """Return the script with the job behind its last line for the scheduler."""
    lines = [line for line in script.splitlines(keepends=True) if not line.startswith(SCRIPT_LINE)]
    places = [
        number
        for number, line in enumerate(lines)
        if line.startswith("#SBATCH") or (number == 0 and line.startswith("#!"))
    ]
    after = places[-1] + 1 if places else 0
    return "".join([*lines[:after], f"{SCRIPT_LINE}{spec}\n", *lines[after:]])


def _annotated_yaml(manifest: str, spec: str) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _NEVER_WRAPPED
    mapping, offset = _indents(manifest)
    yaml.indent(mapping=mapping, sequence=offset + _DASH, offset=offset)
    documents = list(yaml.load_all(manifest))
    _annotate_one(documents, spec)
    written = io.StringIO()
    yaml.dump_all(documents, written)
    return written.getvalue()


def _indents(manifest: str) -> tuple[int, int]:
    r"""Return how far a manifest indents objects, and the dashes of lists, by the first of each.

    >>> _indents("spec:\n  containers:\n    - name: a\n")
    (2, 2)
    """
    of_list = _LIST.search(manifest)
    of_object = _OBJECT.search(manifest)
    mapping = len(of_object["indent"]) if of_object else 2
    offset = len(of_list["dash"]) - len(of_list["key"]) if of_list else 0
    return mapping, max(offset, 0)


def _annotated_json(manifest: str, spec: str) -> str:
    document = json_module.loads(manifest)
    _annotate_one([document], spec)
    return json_module.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _annotate_one(documents: list[Any], spec: str) -> None:
    """Put the job among the annotations of the one object that trains.

    Raises:
        UnreadableLaunchError: there is none, or more than one.
    """
    from vramgate.launch.draft import Draft
    from vramgate.launch.manifests.kinds import training_object
    from vramgate.launch.manifests.objects import Objects, objects_of

    draft = Draft()
    objects = [one for document in documents if document for one in objects_of(document, draft).all]
    metadata = training_object(Objects(objects)).metadata[0].value
    if not isinstance(metadata, dict):
        raise NotAnnotatedError("The object has no metadata.", hint="Give it a name.")
    metadata.setdefault("annotations", {})[ANNOTATION] = spec
