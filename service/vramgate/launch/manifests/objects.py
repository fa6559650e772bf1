"""The objects of a manifest: the one that trains, and those beside it whose data it uses."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vramgate.launch.documents import read_json, read_yaml_documents, unreadable
from vramgate.launch.draft import Draft
from vramgate.launch.manifests.node import Node

NAME = "manifest"
_TEMPLATE = "{{"
_MOST_NESTED_LISTS = 8


class Objects:
    """Every object of a manifest, also by kind and name."""

    __slots__ = ("_named", "all")

    def __init__(self, every: Sequence[Node]) -> None:
        self.all = tuple(every)
        self._named = {
            (kind_of(one), name): one for one in reversed(self.all) if (name := _name(one))
        }

    def of_kind(self, kind: str) -> tuple[Node, ...]:
        """Return the objects of a kind."""
        return tuple(one for one in self.all if kind_of(one) == kind)

    def find(self, kind: str, name: str) -> Node | None:
        """Return the object of this kind and name, of several the first."""
        return self._named.get((kind, name))


def _name(node: Node) -> str:
    metadata = node.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def objects_of(manifest: str | Mapping[str, Any], draft: Draft) -> Objects:
    """Return the objects of a manifest's text or value; lists are taken apart.

    Raises:
        UnreadableLaunchError: it is neither YAML nor JSON, or holds something else than objects.
    """
    values = _documents(manifest) if isinstance(manifest, str) else [manifest]
    found = tuple(_objects(values, draft))
    if not found:
        raise unreadable(NAME, "it holds no object")
    return Objects(found)


def kind_of(node: Node) -> str:
    """Return an object's kind."""
    kind = node.value.get("kind") if isinstance(node.value, dict) else None
    return kind if isinstance(kind, str) else ""


def _documents(text: str) -> Sequence[Any]:
    if text.lstrip().startswith(_TEMPLATE):
        raise unreadable(NAME, "it is a template of Helm's", hint="Render it: helm template.")
    if text.lstrip().startswith("{"):
        return [read_json(text, NAME)]
    return read_yaml_documents(text, NAME)


def _objects(values: Sequence[Any], draft: Draft, depth: int = 0) -> Iterator[Node]:
    for value in values:
        if not isinstance(value, dict):
            raise unreadable(NAME, "a document of it is no object")
        items = value.get("items")
        is_list = str(value.get("kind")).endswith("List")
        if is_list and isinstance(items, list) and depth < _MOST_NESTED_LISTS:
            yield from _objects(items, draft, depth + 1)
        else:
            yield Node(value, "", draft)
