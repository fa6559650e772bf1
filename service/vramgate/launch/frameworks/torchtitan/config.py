"""torchtitan's configuration: a TOML file or a packaged one by name, ``--section.key`` over it.

Sources: ``config/manager.py`` of 0.2.2 (``--job.config_file``) and of 0.3.0 (``--module``,
``--config``), ``run_train.sh`` of both. What packaged configurations say of memory stands in
``files.json`` and ``configs.json``, made by ``tests/launch/facts/``.
"""

import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from vramgate.launch.frameworks.dotted import Tree
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.settings import Setting, Settings, of_flags
from vramgate.launch.words import Word

PACKAGED = ("torchtitan 0.3.0 ", "torchtitan 0.2.2 ")
"""How the places of values in packaged configurations begin."""

_CHOICE = re.compile(r"(?P<section>[a-z][a-z0-9_.-]{0,60}):(?P<choice>[a-z][a-z0-9-]{0,60})")
"""tyro's word for one of several classes: ``activation-checkpoint:full``."""
_OFF = re.compile(r"(^|\.)no[-_](?=[^.]*$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration as the trainer would see it."""

    settings: Settings
    unseen: Unseen | None = None
    """Why what lies under the command line cannot be seen."""
    is_toml: bool = False
    """Whether it is of a release whose configurations are files: 0.2 and before."""
    packaged: str | None = None
    """The name of a packaged configuration of 0.3."""
    found: bool = False
    """Whether anything lies under the command line."""


@cache
def _facts(file: str) -> Mapping[str, Any]:
    place = importlib.resources.files("vramgate.launch.frameworks.torchtitan")
    facts: Mapping[str, Any] = json.loads(place.joinpath(file).read_text())
    return facts


def packaged_configs() -> Mapping[str, Any]:
    """Return what the packaged configurations of 0.3 say, by ``module name``."""
    configs: Mapping[str, Any] = _facts("configs.json")["configs"]
    return configs


def packaged_files() -> Mapping[str, Any]:
    """Return what the packaged files of 0.2.2 say, by path."""
    files: Mapping[str, Any] = _facts("files.json")["files"]
    return files


def of_command(words: Sequence[Word], context: Context) -> Configuration:
    """Return a configuration by its command line."""
    flags = _flags(words)
    file, module, name = (
        flags.value("job.config_file"),
        flags.value("module"),
        flags.value("config"),
    )
    if file is None and (module is not None or name is not None):
        return _of_registry(module, name, flags)
    if file is None:
        return Configuration(settings=flags, is_toml=True)
    path = _word(flags["job.config_file"])
    if path is None:
        return Configuration(settings=flags, is_toml=True)
    found = context.files.find(path)
    if isinstance(found, Found):
        sent = found.value
        return Configuration(
            settings=flags.over(Settings(Tree(sent.mapping(), sent.name).flat())),
            is_toml=True,
            found=True,
        )
    packaged = _packaged_file(path.text) if path.is_known else None
    if packaged is not None:
        below = Tree(packaged_files()[packaged], f"{PACKAGED[1]}{packaged}")
        return Configuration(settings=flags.over(Settings(below.flat())), is_toml=True, found=True)
    unseen = found if isinstance(found, Unseen) else None
    return Configuration(settings=flags, is_toml=True, unseen=unseen)


def _word(setting: Setting) -> Word | None:
    said = setting.said
    return said[0] if isinstance(said, tuple) and said and isinstance(said[0], Word) else None


def _packaged_file(path: str) -> str | None:
    """Return the packaged file that a path ends with, from ``train_configs/`` on."""
    last = path.rpartition("train_configs/")[2] if "train_configs/" in path else None
    near = [name for name in packaged_files() if last and name.endswith(f"/train_configs/{last}")]
    exact = [name for name in near if path.endswith(name)]
    if exact:
        return exact[0]
    return near[0] if len(near) == 1 else None


def _of_registry(module: Reading[Any], name: Reading[Any], flags: Settings) -> Configuration:
    unseen = next((one for one in (module, name) if isinstance(one, Unseen)), None)
    if unseen is not None:
        return Configuration(settings=flags, unseen=unseen)
    if not isinstance(module, Found) or not isinstance(name, Found):
        return Configuration(settings=flags)
    key = f"{str(module.value).rpartition('.')[2]} {name.value}"
    packaged = packaged_configs().get(key)
    if packaged is None:
        reason = (
            f"{name.value!s:.80} of module {module.value!s:.80} is not a configuration known here"
        )
        hint = "name its fields with VRAMGATE_* variables"
        return Configuration(settings=flags, unseen=Unseen(name.source, reason, hint))
    below = Tree(packaged, f"{PACKAGED[0]}{key}")
    return Configuration(settings=flags.over(Settings(below.flat())), packaged=key, found=True)


def _flags(words: Sequence[Word]) -> Settings:
    """Return the options; ``--compile.no-enable`` turns off, ``section:choice`` chooses a class."""
    choices: dict[str, Setting] = {}
    plain: list[Word] = []
    for word in words:
        match = _CHOICE.fullmatch(word.text)
        if match is None:
            plain.append(word)
            continue
        said = match["choice"].replace("-", "_")
        choices[f"{match['section']}.mode"] = Setting(
            said=said, source=f"{word.source} {match['section']}"
        )
    flags = of_flags(plain)
    turned = {
        _OFF.sub(r"\1", name): Setting(said=False, source=flags[name].source)
        for name in flags
        if _OFF.search(name) and flags[name].said == ()
    }
    return Settings({**turned, **choices}).over(flags)
