"""Configurations under dotted names: ``model.lora_rank``, from files and from overrides on a command line.

torchtune, litgpt and torchtitan read a file first and put ``section.key`` of the command line over
it; so a configuration is kept here as its leaves by dotted path, each with its place.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.costmodel.breakdown import Assumption
from vramgate.launch.documents import UnreadableLaunchError, leaves, read_yaml
from vramgate.launch.draft import FIELDS, Draft
from vramgate.launch.settings import Setting
from vramgate.launch.words import Word

_DEEPEST = 32
"""No setting that is read lies deeper."""


class Tree:
    """A configuration as it grows: leaves under dotted paths, the later over the earlier."""

    __slots__ = ("_root",)

    def __init__(self, config: Mapping[str, Any] | None = None, name: str = "") -> None:
        """Start with a document's leaves; their places begin with its name.

        >>> Tree({"train": {"epochs": 2}}, "full.yaml").flat()["train.epochs"].source
        'full.yaml: train.epochs'
        """
        self._root: dict[str, Any] = {}
        for path, value in leaves(config or {}):
            source = f"{name}: {path}" if name else path
            self.put(path, Setting(said=value, source=source))

    def put(self, path: str, setting: Setting) -> None:
        """Replace what stands under a path; an object is merged into what is there, as OmegaConf does."""
        if isinstance(setting.said, Mapping):
            for below, value in leaves(setting.said, path):
                self.put(below, Setting(said=value, source=setting.source))
            return
        *parents, last = path.split(".")
        if len(parents) >= _DEEPEST:
            return
        here = self._root
        for parent in parents:
            inner = here.get(parent)
            if not isinstance(inner, dict):
                inner = here[parent] = {}
            here = inner
        here[last] = setting

    def drop(self, path: str) -> bool:
        """Remove a path and everything below it; return whether anything was there."""
        *parents, last = path.split(".")
        here: Any = self._root
        for parent in parents:
            here = here.get(parent) if isinstance(here, dict) else None
        if not isinstance(here, dict) or last not in here:
            return False
        del here[last]
        return True

    def __contains__(self, path: str) -> bool:
        here: Any = self._root
        for part in path.split("."):
            if not isinstance(here, dict) or part not in here:
                return False
            here = here[part]
        return True

    def flat(self) -> dict[str, Setting]:
        """Return the leaves by dotted path."""
        return dict(leaves(self._root))


def yaml_setting(text: str, word: Word, source: str) -> Setting:
    """Return the value that a word of a command line says, read as YAML; as text where it is none."""
    hidden = tuple(one for one in word.unresolved if one in text)
    if hidden:
        return Setting(
            said=(Word(text=text, source=word.source, unresolved=hidden),), source=source
        )
    try:
        return Setting(said=read_yaml(text, word.source), source=source)
    except UnreadableLaunchError:
        return Setting(said=text, source=source)


def assume_packaged(draft: Draft, packaged: str) -> None:
    """List as assumptions what was read in the framework's own packaged files, by how their places begin."""
    for field in sorted(FIELDS):
        said = draft.said(field)
        if said is not None and said.source.startswith(packaged):
            draft.assumptions.append(Assumption(field=field, value=said.value, source=said.source))
