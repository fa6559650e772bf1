"""Batch scripts: what ``#SBATCH`` asks of Slurm, then what the script runs."""

import re
from collections.abc import Mapping

from vramgate.launch.annotations.read import say_annotations, say_machine
from vramgate.launch.commands.read import read_commands
from vramgate.launch.draft import Problem
from vramgate.launch.launch import Context
from vramgate.launch.shell.read import read_shell
from vramgate.launch.slurm.comment import comment_annotations
from vramgate.launch.slurm.request import say_slurm_request
from vramgate.launch.slurm.words import header_options, header_words
from vramgate.launch.stack_words import say_stack
from vramgate.launch.words import Word

_NAME = "script"
_ANNOTATION = "#VRAMGATE"
_OWN = "VRAMGATE_"
_SPEC = re.compile(r"\s*(spec)\s*=\s*(.*)")
_EXPORTED = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)=(.*)", re.DOTALL)
_SHELL = re.compile(r"#!.*?\b(?:ba|da|z|k|a)?sh\b")
_FROM_ENVIRONMENT = {
    "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_PARTITION": "partition",
}
"""Variables that win over ``#SBATCH`` lines. Source: sbatch.1, input environment variables."""


def read_batch_script(text: str, environment: Mapping[str, Word], context: Context) -> None:
    """Read a script, of Slurm's or not: the machine it asks for, then its commands.

    ``#VRAMGATE key=value`` lines win over everything else, a comment's words over all but them.

    Raises:
        UnreadableLaunchError: a shell would refuse it.
    """
    if "\r\n" in text:
        _refuse_line_ends(context)
        text = text.replace("\r\n", "\n")
    options = {**header_options(text), **_options_of(environment)}
    own = {name: word for name, word in environment.items() if name.startswith(_OWN)}
    annotations = {**own, **comment_annotations(options), **_annotations(text)}
    say_machine(annotations, context)
    if text.startswith("#!") and not _SHELL.match(text.partition("\n")[0]):
        _warn_of_interpreter(text, context)
    else:
        _read_shell_script(text, options, environment, context)
    say_annotations(annotations, context)


def _read_shell_script(
    text: str,
    options: Mapping[str, Word],
    environment: Mapping[str, Word],
    context: Context,
) -> None:
    variables = say_slurm_request(options, context) if options else {}
    reading = read_shell(
        text, environment={**variables, **_exported(options), **environment}, name=_NAME
    )
    for name, content in reading.files.items():
        context.files.add(name, content)
    say_stack(reading.commands, context)
    read_commands(reading.commands, context)


def _options_of(environment: Mapping[str, Word]) -> Mapping[str, Word]:
    return {
        option: environment[name]
        for name, option in _FROM_ENVIRONMENT.items()
        if name in environment
    }


def _exported(options: Mapping[str, Word]) -> Mapping[str, Word]:
    """Return the variables of ``--export=ALL,NAME=value``."""
    said = options.get("export")
    if said is None:
        return {}
    pairs = (_EXPORTED.fullmatch(part) for part in said.text.split(","))
    return {
        match[1]: Word(text=match[2], source=said.source) for match in pairs if match is not None
    }


def _annotations(text: str) -> Mapping[str, Word]:
    """Return the ``key=value`` of ``#VRAMGATE`` lines, wherever they stand."""
    found: dict[str, Word] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith(_ANNOTATION):
            continue
        source = f"line {number}, {_ANNOTATION}"
        behind = line[len(_ANNOTATION) :]
        spec = _SPEC.fullmatch(behind)
        if spec is not None:
            found[spec[1]] = Word(text=spec[2], source=f"{source} {spec[1]}")
            continue
        for word in header_words(behind):
            key, equals, value = word.partition("=")
            if equals:
                found[key] = Word(text=value, source=f"{source} {key}")
    return found


def _refuse_line_ends(context: Context) -> None:
    context.draft.problem(
        Problem(
            rule="dos_line_ends",
            detail="the script's lines end with \\r\\n, which sbatch refuses and bash stumbles over",
            fix="save it with \\n line ends: dos2unix",
            values={_NAME: "\\r\\n"},
        )
    )


def _warn_of_interpreter(text: str, context: Context) -> None:
    first = text.partition("\n")[0]
    context.draft.warn(
        "not_a_shell_script",
        f"The script's first line is {first[:80]!r}: only shell scripts are read; of this one the"
        " #SBATCH and #VRAMGATE lines.",
    )
    options = header_options(text)
    if options:
        say_slurm_request(options, context)
