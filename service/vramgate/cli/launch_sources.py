"""Launches from the user's own files: what a script, a manifest or a configuration names is read as well."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from vramgate.errors import DomainError
from vramgate.launch.launch import Launch
from vramgate.workflows.read_launch import LaunchedJob, launched_job

LARGEST_FILE_BYTES = 2**20
_MANIFEST_MARK = "apiVersion"
_SCRIPT_SUFFIXES = {".sh", ".bash", ".sbatch", ".slurm", ".job", ".batch"}
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
    text = read_text(path)
    if framework is not None:
        return Launch(framework=framework, config=text)
    if path.suffix.lower() in _SCRIPT_SUFFIXES or text.startswith("#!"):
        return Launch(script=text)
    if any(line.startswith((_MANIFEST_MARK, f'{{"{_MANIFEST_MARK}')) for line in text.splitlines()):
        return Launch(manifest=text)
    if f'"{_MANIFEST_MARK}"' in text and path.suffix.lower() == ".json":
        return Launch(manifest=text)
    if path.suffix.lower() in {".yaml", ".yml", ".json", ".toml"}:
        raise UnclearLaunchError(
            f"{path} is a configuration, but of which framework?",
            hint="Name it with --framework, as --framework axolotl.",
        )
    return Launch(script=text)


def read_with_local_files(
    launch: Launch, *, folders: Iterable[Path], hardware: Mapping[str, object]
) -> tuple[Launch, LaunchedJob]:
    """Return the launch with the files it names, and what it says.

    Files are looked for as the user may read them: under their own path, and below the folders.

    Raises:
        UnreadableLaunchError: a text is not what it should be.
    """
    places = tuple(folders)
    launched = launched_job(launch, hardware=hardware)
    for _ in range(_ROUNDS):
        found = dict(_local(launched.launch.missing_files, places))
        found = {name: text for name, text in found.items() if name not in launch.files}
        if not found:
            break
        launch = replace(launch, files={**launch.files, **found})
        launched = launched_job(launch, hardware=hardware)
    return launch, launched


def read_text(path: Path) -> str:
    """Return a file's text.

    Raises:
        UnreadableFileError: it is not there, longer than a launch may be, or not UTF-8.
    """
    try:
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise UnreadableFileError(f"{path} has more than {LARGEST_FILE_BYTES:,} bytes.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"{path} is not text in UTF-8.") from error


def variables(given: Iterable[str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return variables written as NAME=VALUE, or as NAME for the value this process has.

    Raises:
        UnclearLaunchError: a name has no value here.

    >>> variables(["NNODES=2", "HOME"], {"HOME": "/home/me"})
    {'NNODES': '2', 'HOME': '/home/me'}
    """
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals and name not in environment:
            raise UnclearLaunchError(f"{name} is not set here.", hint=f"Give {name}=VALUE.")
        found[name] = value if equals else environment[name]
    return found


def _local(names: Iterable[str], folders: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        for place in (Path(name).expanduser(), *(folder / name for folder in folders)):
            if place.is_file():
                yield name, read_text(place)
                break
