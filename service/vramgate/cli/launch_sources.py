"""Launches from the user's own files: what a script, a manifest or a configuration names is read as well."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import typer

from vramgate.errors import DomainError
from vramgate.launch.launch import Launch
from vramgate.workflows.read_launch import LaunchedJob, launched_job

LARGEST_FILE_BYTES = 2**20
STANDARD_INPUT = Path("-")
_MANIFEST_MARK = "apiVersion"
SCRIPT_SUFFIXES = {".sh", ".bash", ".sbatch", ".slurm", ".job", ".batch"}
_ROUNDS = 8
"""A script names a file, that file another; deeper chains are left unread."""


class UnreadableFileError(DomainError):
    """A file is not there, too large, or not text."""

    code = "unreadable_file"


class UnclearLaunchError(DomainError):
    """What was given is no launch, or two."""

    code = "unclear_launch"


def launch_of_file(path: Path, *, framework: str | None) -> Launch:
    """Return the launch that a file is, by its name and its first lines.

    Raises:
        UnreadableFileError: it cannot be read.
        UnclearLaunchError: it is a configuration and nobody says whose.
    """
    return launch_of_text(read_text(path), path, framework=framework)


def launch_of_text(text: str, path: Path, *, framework: str | None) -> Launch:
    """Return the launch that the text of a file is.

    Raises:
        UnclearLaunchError: it is a configuration and nobody says whose.
    """
    if framework is not None:
        return Launch(framework=framework, config=text)
    if path.suffix.lower() in SCRIPT_SUFFIXES or text.startswith("#!"):
        return Launch(script=text)
    if looks_like_manifest(text):
        return Launch(manifest=text)
    if f'"{_MANIFEST_MARK}"' in text and path.suffix.lower() == ".json":
        return Launch(manifest=text)
    if path.suffix.lower() in {".yaml", ".yml", ".json", ".toml"}:
        raise UnclearLaunchError(
            f"{name_of(path)} is a configuration, but of which framework?",
            hint="Name it with --framework, as --framework axolotl.",
        )
    return Launch(script=text)


def looks_like_manifest(text: str) -> bool:
    """Return whether a text begins an object of Kubernetes somewhere, be it readable or not."""
    return any(
        line.startswith((_MANIFEST_MARK, f'{{"{_MANIFEST_MARK}')) for line in text.splitlines()
    )


def read_with_local_files(
    launch: Launch, *, folders: Iterable[Path], hardware: Mapping[str, object]
) -> tuple[Launch, LaunchedJob]:
    """Return the launch with the files it names, and what it says.

    Files are looked for as the user may read them: under their own path, and below the folders.

    Raises:
        UnreadableLaunchError: a text is not what it should be.
    """
    launch = with_local_files(launch, folders=folders, hardware=hardware)
    return launch, launched_job(launch, hardware=hardware)


def with_local_files(
    launch: Launch, *, folders: Iterable[Path], hardware: Mapping[str, object]
) -> Launch:
    """Return the launch with the files it names, as far as it can be read.

    Raises:
        UnreadableFileError: a file that it names is there, and too large or not text.
    """
    places = tuple(folders)
    for _ in range(_ROUNDS):
        try:
            missing = launched_job(launch, hardware=hardware).launch.missing_files
        except DomainError:
            # Whoever reads it next tells what is wrong.
            break
        found = dict(_local((name for name in missing if name not in launch.files), places))
        if not found:
            break
        launch = replace(launch, files={**launch.files, **found})
    return launch


def read_text(path: Path) -> str:
    """Return the text of a file, or of standard input where it is called ``-``; line ends as they are.

    Raises:
        UnreadableFileError: it is not there, longer than a launch may be, or not UTF-8.
    """
    if path == STANDARD_INPUT:
        return _text_of(_standard_input(), name_of(path))
    try:
        with path.open("rb") as opened:
            raw = opened.read(LARGEST_FILE_BYTES + 1)
    except IsADirectoryError as error:
        raise UnreadableFileError(
            f"{path} is a folder.", hint="Name the files in it that are meant."
        ) from error
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}.") from error
    return _text_of(raw, name_of(path))


def name_of(path: Path) -> str:
    """Return what messages call a file.

    >>> name_of(Path("jobs/train.sh")), name_of(Path("-"))
    ('jobs/train.sh', 'standard input')
    """
    return "standard input" if path == STANDARD_INPUT else str(path)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise UnreadableFileError("Standard input cannot be read: it is closed.")
    return typer.get_binary_stream("stdin").read(LARGEST_FILE_BYTES + 1)


def _text_of(raw: bytes, name: str) -> str:
    """Return the text that the bytes are; ``name`` is what messages call it.

    Raises:
        UnreadableFileError: it is longer than a launch may be, or not UTF-8.
    """
    if len(raw) > LARGEST_FILE_BYTES:
        raise UnreadableFileError(f"{name} has more than {LARGEST_FILE_BYTES:,} bytes.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"{name} is not text in UTF-8.") from error


def variables(given: Iterable[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return variables written as NAME=VALUE, or as NAME for the value this process has.

    Raises:
        UnclearLaunchError: a name is empty, or has no value here.

    >>> variables(["NNODES=2", "HOME"], {"HOME": "/home/me"})
    {'NNODES': '2', 'HOME': '/home/me'}
    """
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name:
            raise UnclearLaunchError(
                "--env names no variable.",
                hint="Give NAME=VALUE, or NAME for the value it has here.",
            )
        if not equals and name not in environment:
            raise UnclearLaunchError(f"{name} is not set here.", hint=f"Give --env {name}=VALUE.")
        found[name] = value if equals else environment[name]
    return found


def _local(names: Iterable[str], folders: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        for place in (_at_home(name), *(folder / name for folder in folders)):
            if _is_file(place):
                yield name, read_text(place)
                break


def _at_home(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        # Of a user that this machine does not have.
        return Path(name)


def _is_file(place: Path) -> bool:
    try:
        return place.is_file()
    except OSError:
        # A name that is too long, or below a folder that is closed to us.
        return False
