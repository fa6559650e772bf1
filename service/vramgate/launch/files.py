"""The files that came with a launch; no other is ever read."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vramgate.launch.documents import read_json, read_toml, read_yaml, unreadable
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.words import Word

LONGEST_PATH = 512
"""Characters; a longer word is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file by the name it was sent under."""

    name: str
    text: str

    def document(self) -> Any:  # noqa: ANN401 whatever it holds
        """Return the value of a YAML, JSON or TOML file, by the end of its name.

        Raises:
            UnreadableLaunchError: it is not what its name says.
        """
        if self.name.endswith(".json"):
            return read_json(self.text, self.name)
        if self.name.endswith(".toml"):
            return read_toml(self.text, self.name)
        return read_yaml(self.text, self.name)

    def mapping(self) -> Mapping[str, Any]:
        """Return the object that the file holds.

        Raises:
            UnreadableLaunchError: it holds something else.
        """
        value = self.document()
        if not isinstance(value, dict):
            raise unreadable(self.name, f"it holds {_kind(value)}, not an object of settings")
        return value


class Files:
    """Files by path; paths may be absolute or not, on either side."""

    __slots__ = ("_files", "missed")

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files = {_plain(name): (name, text) for name, text in (files or {}).items()}
        self.missed: dict[str, None] = {}
        """Files that were looked for and are not there, in order."""

    def add(self, name: str, text: str) -> None:
        """Keep one more: a script's own ``cat > ds.json <<EOF``."""
        self._files[_plain(name)] = (name, text)

    def get(self, name: str) -> SentFile | None:
        """Return the file of exactly this path."""
        found = self._files.get(_plain(name))
        return None if found is None else SentFile(name=found[0], text=found[1])

    def find(self, path: Word) -> Reading[SentFile]:
        """Return the file that a word names: under that path, or the only one with its last parts.

        Of a path that begins with something out of sight (``$DIR/ds.json``) the rest is looked for.
        """
        wanted = path.text if path.is_known else _behind_unresolved(path)
        # A script that writes `$OUT/ds.json` itself reads it under the same words.
        found = self._files.get(_plain(path.text))
        if found is None and wanted is not None:
            found = self._find(_plain(wanted))
        if found is not None:
            return Found(SentFile(name=found[0], text=found[1]), path.source)
        if wanted is not None and len(wanted) <= LONGEST_PATH:
            self.missed[wanted] = None
        if path.is_known:
            return Unseen(
                path.source,
                f"{path.text} is not among the files",
                f"send its text in launch.files under {path.text!r}",
            )
        also = f", or send the file as {wanted!r}" if wanted is not None else ""
        return Unseen(
            path.source,
            f"{path.unresolved[0]} has no value here",
            f"give {path.unresolved[0]} in launch.env{also}",
        )

    def _find(self, wanted: str) -> tuple[str, str] | None:
        if wanted in self._files:
            return self._files[wanted]
        near = [
            kept
            for name, kept in self._files.items()
            if wanted.endswith(f"/{name}") or name.endswith(f"/{wanted}")
        ]
        return near[0] if len(near) == 1 else None


def _behind_unresolved(path: Word) -> str | None:
    """Return the last parts of a path whose first parts are out of sight; None where its name is.

    >>> _behind_unresolved(Word(text="$DIR/conf/ds.json", source="", unresolved=("$DIR",)))
    'conf/ds.json'
    """
    end = max(path.text.rfind(one) + len(one) for one in path.unresolved)
    rest = path.text[end:]
    return rest.lstrip("/") or None if rest.startswith("/") else None


def _plain(path: str) -> str:
    """Return a path without what says nothing of its last parts: ``~/``, ``./``, ``../`` at its start."""
    plain = posixpath.normpath(path.removeprefix("~/"))
    while plain.startswith("../"):
        plain = plain.removeprefix("../")
    return plain


def _kind(value: object) -> str:
    kinds = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "a switch"}
    return "nothing" if value is None else kinds.get(type(value), "something else")
