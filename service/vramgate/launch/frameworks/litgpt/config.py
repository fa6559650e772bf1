"""litgpt's options: flags and ``--config FILE`` in the order they stand, as jsonargparse takes them.

Sources: litgpt 0.5.13 ``__main__.py`` (subcommands), jsonargparse 4.41: a later ``--config`` goes over
earlier flags. Files of litgpt's ``config_hub`` by their path or address: ``hub.json``, made by
``tests/launch/facts/litgpt_hub.py``.
"""

import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from vramgate.launch.documents import UnreadableLaunchError, read_yaml
from vramgate.launch.frameworks.dotted import Tree
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Setting, Settings, of_flags
from vramgate.launch.words import Word

PACKAGED = "litgpt config_hub "
"""How the places of values in its configurations begin."""

_CONFIG = "--config"
_MOST_FILES = 16
"""Files read of one command; of more, the first ones are passed over."""
_OBJECTS = frozenset({"optimizer", "train", "model_config", "eval"})
"""Options that may be an object, written as JSON or YAML on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a command says, files and flags together."""

    settings: Settings
    first: Word | None = None
    """The first bare word: the checkpoint's folder, or the model's name."""
    unseen: Unseen | None = None


@cache
def hub_files() -> Mapping[str, Any]:
    """Return what the files of config_hub say, by path below it."""
    place = importlib.resources.files("vramgate.launch.frameworks.litgpt")
    facts: Mapping[str, Any] = json.loads(place.joinpath("hub.json").read_text())
    files: Mapping[str, Any] = facts["files"]
    return files


def read_options(words: Sequence[Word], context: Context) -> Options:
    """Return the options behind a subcommand; what stands later goes over what stood earlier."""
    first, words = _first(words)
    settings: dict[str, Setting] = {}
    unseen: Unseen | None = None
    for plain, file in _segments(words):
        settings |= _expanded(of_flags(plain))
        if file is not None:
            below, hidden = _file(file, context)
            settings |= below
            unseen = unseen or hidden
    return Options(settings=Settings(settings), first=first, unseen=unseen)


def _segments(words: Sequence[Word]) -> Sequence[tuple[list[Word], Word | None]]:
    """Return the words up to each ``--config``, with the file it names, and those behind the last."""
    segments: list[tuple[list[Word], Word | None]] = []
    plain: list[Word] = []
    index = 0
    while index < len(words):
        file = _file_word(words, index)
        if file is None:
            plain.append(words[index])
            index += 1
            continue
        segments.append((plain, file))
        plain = []
        index += 1 if "=" in words[index].text else 2
    segments.append((plain, None))
    early = [(one, None) for one, _ in segments[:-_MOST_FILES]]
    return [*early, *segments[-_MOST_FILES:]]


def _first(words: Sequence[Word]) -> tuple[Word | None, Sequence[Word]]:
    if words and not words[0].text.startswith("-"):
        return words[0], words[1:]
    return None, words


def _file_word(words: Sequence[Word], index: int) -> Word | None:
    """Return the word that names a file, where the one at the index is ``--config``."""
    word = words[index]
    if word.text == _CONFIG and index + 1 < len(words):
        return words[index + 1]
    if word.text.startswith(f"{_CONFIG}="):
        value = word.text.partition("=")[2]
        hidden = tuple(one for one in word.unresolved if one in value)
        return Word(text=value, source=word.source, unresolved=hidden)
    return None


def _file(word: Word, context: Context) -> tuple[Settings, Unseen | None]:
    found = context.files.find(word)
    if isinstance(found, Found):
        return Settings(Tree(found.value.mapping(), found.value.name).flat()), None
    below = word.text.rpartition("config_hub/")[2] if "config_hub/" in word.text else ""
    packaged = hub_files().get(below) if word.is_known else None
    if packaged is not None:
        return Settings(Tree(packaged, f"{PACKAGED}{below}").flat()), None
    return Settings(), found if isinstance(found, Unseen) else None


def _expanded(flags: Settings) -> Settings:
    """Return the flags with objects, written as JSON or YAML, taken apart."""
    opened: dict[str, Setting] = {}
    for name in flags:
        text = flags.value(name)
        if name not in _OBJECTS or not isinstance(text, Found):
            continue
        if not str(text.value).lstrip().startswith("{"):
            continue
        try:
            value = read_yaml(str(text.value), text.source)
        except UnreadableLaunchError:
            continue
        if isinstance(value, dict):
            for path, setting in Tree({name: value}).flat().items():
                opened[path] = Setting(said=setting.said, source=text.source)
    taken = {path.partition(".")[0] for path in opened}
    kept = {name: flags[name] for name in flags if name not in taken}
    return Settings({**kept, **opened})
