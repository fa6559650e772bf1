"""Versions that a script shows: ``pip install torch==2.4``, ``module load pytorch/2.3``, images."""

import re
from collections.abc import Iterable, Iterator, Sequence

from vramgate.jobs.stack import MAX_STACK_TEXT, versions_in
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found
from vramgate.launch.words import Command, Word

_PIN = re.compile(r"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*==?\s*([0-9][\w.+!-]*)")
_MODULE = re.compile(r"([A-Za-z][\w-]*)/v?([0-9]+(?:\.[0-9]+)+)")
_IMAGE = re.compile(r"([A-Za-z][\w]*(?:-[A-Za-z]+)*)[:_-]v?([0-9]+(?:\.[0-9]+)+)")
_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "micromamba", "python", "python3"})
_MODULES = frozenset({"module", "ml"})
_CONTAINERS = frozenset(
    {"singularity", "apptainer", "docker", "podman", "srun", "enroot", "shifter"}
)
_RUNS = frozenset({"exec", "run", "shell"})
_IMAGE_OPTION = "--container-image"
# The tags of NVIDIA's own images are months (nvcr.io/nvidia/pytorch:24.05-py3), not versions.
_MONTH_TAGGED = ("nvcr.io", "nvidia/")
_OLDEST_MONTH = 15
"""No component of the stack has a major version of a year, but for Unsloth's four digits."""
_MOST_WORDS = 400


def say_stack(commands: Sequence[Command], context: Context) -> None:
    """Say ``software.stack`` where exact versions of its components stand in the commands."""
    found: dict[str, tuple[str, str]] = {}
    for shown in (_images(commands), _modules(commands), _pins(commands, context)):
        for name, version, source in shown:
            component = next(iter(versions_in(f"{name} {version}")), None)
            if component is not None:
                found[component] = (version, source)
    if not found:
        return
    text = " / ".join(f"{name} {version}" for name, (version, _) in found.items())
    if len(text) <= MAX_STACK_TEXT:
        source = next(iter(found.values()))[1]
        context.draft.say("software.stack", Found(text, source))


_Shown = Iterable[tuple[str, str, str]]
"""A component's name, its version, and the place."""


def _called(commands: Sequence[Command], names: frozenset[str]) -> Iterator[Sequence[Word]]:
    for command in commands:
        words = command.words[:_MOST_WORDS]
        if words and words[0].text.rpartition("/")[2] in names:
            yield words


def _pins(commands: Sequence[Command], context: Context) -> _Shown:
    for words in _called(commands, _INSTALLERS):
        texts = [word.text for word in words]
        if "install" not in texts:
            continue
        for before, word in zip(texts, words[1:], strict=False):
            match = _PIN.fullmatch(word.text) if word.is_known else None
            if match is not None:
                yield match[1], match[2], word.source
            elif before in {"-r", "--requirement"}:
                yield from _requirements(word, context)


def _requirements(word: Word, context: Context) -> _Shown:
    """Yield the exact versions of a requirements file that came along."""
    found = context.files.find(word)
    if not isinstance(found, Found):
        return
    for number, line in enumerate(found.value.text.splitlines()[:_MOST_WORDS], start=1):
        match = _PIN.fullmatch(line.partition("#")[0].partition(";")[0].strip())
        if match is not None:
            yield match[1], match[2], f"{found.value.name}, line {number}"


def _modules(commands: Sequence[Command]) -> _Shown:
    for words in _called(commands, _MODULES):
        for word in words[1:]:
            match = _MODULE.match(word.text) if word.is_known else None
            if match is not None:
                yield match[1].lower(), match[2], word.source


def _images(commands: Sequence[Command]) -> _Shown:
    for words in _called(commands, _CONTAINERS):
        runs = any(word.text in _RUNS for word in words)
        for word in words[1:]:
            image = word.text.removeprefix(f"{_IMAGE_OPTION}=")
            is_option = image != word.text
            if (
                not word.is_known
                or not (runs or is_option)
                or word.text.startswith("-") != is_option
            ):
                continue
            if (
                not is_option
                and not image.endswith(".sif")
                and "/" not in image
                and ":" not in image
            ):
                continue
            yield from _image_versions(image, word.source)


def _image_versions(image: str, source: str) -> _Shown:
    if any(mark in image for mark in _MONTH_TAGGED):
        return
    match = _IMAGE.match(image.rpartition("/")[2])
    if match is not None and int(match[2].partition(".")[0]) < _OLDEST_MONTH:
        yield match[1], match[2], source
