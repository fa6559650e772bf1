"""torchtune's configuration: packaged by name or sent along, ``key=value`` and ``~key`` over it.

Sources, torchtune 0.6.1: ``_cli/run.py`` (which words are torchrun's, the recipe, the configuration),
``config/_parse.py`` and ``config/_utils.py`` (``_merge_yaml_and_cli_args``). What the packaged
configurations say of memory stands in ``recipes.json``, made by
``tests/launch/facts/torchtune_recipes.py``.
"""

import importlib.resources
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from vramgate.launch.draft import Problem
from vramgate.launch.frameworks.dotted import Tree, yaml_setting
from vramgate.launch.launch import Context
from vramgate.launch.reading import Found, Unseen
from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word

PACKAGED = "torchtune 0.6.1 "
"""How the places of values in packaged configurations begin."""

_COMPONENT = "_component_"
_REFERENCE = re.compile(r"\$\{([^${}]+)\}")
_DOTTED_NAME = re.compile(r"[A-Za-z_]\w{0,100}(\.[A-Za-z_]\w{0,100}){1,16}")
_COMPONENTS = frozenset({"model", "optimizer", "loss", "dataset", "tokenizer", "checkpointer"})
"""Keys whose bare value names a component, where the file that says so is not here."""
_LONGEST = 4096
_DEEPEST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration as the recipe would see it."""

    settings: Settings
    unseen: Unseen | None = None
    """Why the file under the overrides cannot be seen."""
    problems: tuple[Problem, ...] = field(default=())


@cache
def _facts() -> Mapping[str, Any]:
    place = importlib.resources.files("vramgate.launch.frameworks.torchtune")
    facts: Mapping[str, Any] = json.loads(place.joinpath("recipes.json").read_text())
    return facts


def packaged_recipes() -> Mapping[str, bool]:
    """Return the packaged recipes, and whether torchrun may start each."""
    recipes: Mapping[str, bool] = _facts()["recipes"]
    return recipes


def packaged_config(name: str) -> Mapping[str, Any] | None:
    """Return what a packaged configuration says of memory."""
    config: Mapping[str, Any] | None = _facts()["configs"].get(name)
    return config


def is_packaged_config(name: str) -> bool:
    """Return whether torchtune has a configuration of this name."""
    return name in _facts()["configs"]


def of_object(config: Mapping[str, Any], name: str) -> Configuration:
    """Return a configuration that came as an object."""
    return Configuration(settings=_resolved(Tree(config, name).flat()))


def of_command(config: Word, overrides: Sequence[Word], context: Context) -> Configuration:
    """Return a configuration by its name or file, with what the command line puts over it."""
    tree, unseen = _file(config, context)
    removable = unseen is None and not is_packaged_config(config.text)
    problems = [
        problem
        for word in overrides
        if (problem := _override(tree, word, sees_all=removable)) is not None
    ]
    return Configuration(settings=_resolved(tree.flat()), unseen=unseen, problems=tuple(problems))


def _file(config: Word, context: Context) -> tuple[Tree, Unseen | None]:
    """Return the leaves of the file; a packaged name wins over a file, as in ``tune run``."""
    packaged = packaged_config(config.text) if config.is_known else None
    if packaged is not None:
        return Tree(packaged, f"{PACKAGED}{config.text}"), None
    found = context.files.find(config)
    if isinstance(found, Found):
        return Tree(found.value.mapping(), found.value.name), None
    return Tree(), found if isinstance(found, Unseen) else None


def _override(tree: Tree, word: Word, *, sees_all: bool) -> Problem | None:
    """Put one word of the command line over the file; return why torchtune would refuse it."""
    if word.text.startswith("~"):
        return _remove(tree, word, sees_all=sees_all)
    key, equals, value = word.text.partition("=")
    if not equals or "=" in value:
        if not word.is_known:
            return None
        return _refused(word, "not_key_value", "overrides are written key=value, with one '='")
    source = f"{word.source} {key}"
    if f"{key}.{_COMPONENT}" in tree or (key in _COMPONENTS and _DOTTED_NAME.fullmatch(value)):
        key = f"{key}.{_COMPONENT}"
    tree.put(key, yaml_setting("null" if value == "None" else value, word, source))
    return None


def _remove(tree: Tree, word: Word, *, sees_all: bool) -> Problem | None:
    path = word.text[1:].partition("=")[0]
    if _COMPONENT in path or f"{path}.{_COMPONENT}" in tree:
        return _refused(word, "component_removed", "torchtune does not remove components")
    if not tree.drop(path) and sees_all:
        return _refused(word, "no_such_key", f"the configuration has no {path} to remove")
    return None


def _refused(word: Word, rule: str, why: str) -> Problem:
    fixes = {
        "not_key_value": "write key=value",
        "component_removed": "name another component instead: key=path.of.the.component",
        "no_such_key": "leave it out",
    }
    return Problem(
        rule=rule,
        detail=f"{word.text[:80]} ({word.source}): {why}",
        fix=fixes[rule],
        values={word.source: word.text},
    )


def _resolved(settings: Mapping[str, Setting]) -> Settings:
    """Return the settings with ``${other.key}`` replaced; what cannot be looked up stays out of sight."""
    done: dict[str, object] = {}
    return Settings(
        {
            path: Setting(said=_looked_up(path, settings, done, _DEEPEST), source=setting.source)
            for path, setting in settings.items()
        }
    )


def _looked_up(
    path: str, settings: Mapping[str, Setting], done: dict[str, object], depth: int
) -> object:
    """Return a value with its references followed; each path is worked out once."""
    if path in done:
        return done[path]
    said = settings[path].said
    if not isinstance(said, str) or "${" not in said:
        done[path] = said
        return said
    hidden = (Word(text=said, source=settings[path].source, unresolved=(said,)),)
    done[path] = hidden  # what a reference to itself finds
    whole = _REFERENCE.fullmatch(said)
    if whole is None:
        done[path] = _filled_in(said, settings, done, depth) or hidden
    elif whole[1] in settings and depth:
        done[path] = _looked_up(whole[1], settings, done, depth - 1)
    return done[path]


def _filled_in(
    text: str, settings: Mapping[str, Setting], done: dict[str, object], depth: int
) -> str | None:
    references = _REFERENCE.findall(text) if len(text) <= _LONGEST and depth else ()
    for reference in references:
        value = _looked_up(reference, settings, done, depth - 1) if reference in settings else None
        if not isinstance(value, str | int | float) or len(text) > _LONGEST:
            return None
        text = text.replace(f"${{{reference}}}", str(value))
    return text if references else None
