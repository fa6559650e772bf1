"""A container's command: its words after the kubelet's expansion, and the files mounted beside it."""

import posixpath
import re
from collections.abc import Iterator
from itertools import islice

from vramgate.launch.files import Files
from vramgate.launch.manifests.environment import Variables, expanded
from vramgate.launch.manifests.node import Node, named
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Container, Pod
from vramgate.launch.words import Word

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
_TAKES_SCRIPT = re.compile(r"-[a-zA-Z]*c")
_MOST_FILES = 4096


def container_words(container: Container, variables: Variables) -> tuple[Word, ...]:
    """Return the words of the process that a container starts: ``command[0]``, ``args[3]``."""
    words = [
        expanded(text, source, variables)
        for node, name in ((container.command, "command"), (container.args, "args"))
        for text, source in _texts(node, name)
    ]
    script = _script_place([word.text for word in words])
    if script is not None:
        # What a script lacks is the shell's to say, word by word.
        words[script] = Word(text=words[script].text, source=words[script].source)
    return tuple(words)


def _texts(node: Node, name: str) -> Iterator[tuple[str, str]]:
    for index, entry in enumerate(node.entries()):
        yield entry.text(), f"{node.owner}{name}[{index}]"


def _script_place(words: list[str]) -> int | None:
    """Return which word is a script for the shell that the words call; None where none is."""
    if not words or posixpath.basename(words[0]) not in _SHELLS:
        return None
    takes_script = False
    for index, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            return index if takes_script else None
        takes_script = takes_script or _TAKES_SCRIPT.fullmatch(word) is not None
    return None


def add_mounted_files(container: Container, pod: Pod, objects: Objects, files: Files) -> None:
    """Keep the files of ConfigMaps that are in the manifest and mounted into the container."""
    for name, text in islice(_mounted(container, pod, objects), _MOST_FILES):
        if files.get(name) is None:
            files.add(name, text)


def _mounted(container: Container, pod: Pod, objects: Objects) -> Iterator[tuple[str, str]]:
    """Yield the files of every mount by their paths."""
    mounts = dict(_mounts(container))
    for volumes in pod.volumes:
        for volume_name, volume in named(volumes.entries()):
            for path, sub_path in mounts.get(volume_name, ()):
                for file, text in _files_of(volume, objects):
                    if not sub_path:
                        yield posixpath.join(path, file), text
                    elif sub_path == file and path:
                        yield path, text


def _mounts(container: Container) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name, mount in named(container.mounts.entries()):
        place = (mount.at("mountPath").text(), mount.at("subPath").text())
        found.setdefault(name, []).append(place)
    yield from found.items()


def _files_of(volume: Node, objects: Objects) -> Iterator[tuple[str, str]]:
    """Yield the files of a volume: of its ConfigMap, or of those projected into it."""
    sources = [volume, *volume.at("projected", "sources").entries()]
    for source in sources:
        reference = source.at("configMap")
        owner = reference.at("name").text()
        config = objects.find("ConfigMap", owner) if owner else None
        if config is None:
            continue
        data = config.at("data").fields()
        items = reference.at("items").entries()
        chosen = [(one.at("key").text(), one.at("path").text()) for one in items]
        for key, file in chosen or [(key, key) for key in data]:
            if key in data:
                yield file, data[key].text()


def missing_config_maps(
    container: Container, pod: Pod, objects: Objects
) -> Iterator[tuple[str, str]]:
    """Yield the mounts whose ConfigMap is not in the manifest: the path, and the ConfigMap's name."""
    mounts = dict(_mounts(container))
    for volumes in pod.volumes:
        for name, volume in named(volumes.entries()):
            owner = volume.at("configMap", "name").text()
            if owner and objects.find("ConfigMap", owner) is None:
                yield from ((path, owner) for path, _ in mounts.get(name, ()))
