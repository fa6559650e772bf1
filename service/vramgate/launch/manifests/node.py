"""Node: a part of an object with its place; what has the wrong shape is reported as it is met."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vramgate.launch.draft import Draft
from vramgate.launch.reading import Found, Misread, Reading

MAX_COUNT = 2**20
"""Pods and devices; a job has at most as many devices."""
_MOST_PROBLEMS = 64


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a document, and the way to it from its object's root."""

    value: Any
    path: str
    draft: Draft
    owner: str = ""
    """``runtime torch-distributed: `` where it stands in no object of the manifest."""

    @property
    def is_said(self) -> bool:
        """Whether anything stands here."""
        return self.value is not None

    def at(self, *names: str) -> "Node":
        """Return the part under these names, one below the other; nothing where there is none."""
        here = self
        for name in names:
            value = here.value
            if value is not None and not isinstance(value, dict):
                here.misread("an object")
                value = None
            inner = None if value is None else value.get(name)
            here = Node(inner, here.below(name), self.draft, self.owner)
        return here

    def below(self, name: str) -> str:
        """Return the path of a field of this object."""
        return f"{self.path}.{name}" if self.path else name

    def fields(self) -> dict[str, "Node"]:
        """Return the fields of an object."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self.misread("an object")
            return {}
        return {
            str(name): Node(value, self.below(str(name)), self.draft, self.owner)
            for name, value in self.value.items()
        }

    def entries(self) -> tuple["Node", ...]:
        """Return the entries of a list."""
        if self.value is None:
            return ()
        if not isinstance(self.value, list):
            self.misread("a list")
            return ()
        return tuple(
            Node(value, f"{self.path}[{index}]", self.draft, self.owner)
            for index, value in enumerate(self.value)
        )

    def text(self) -> str:
        """Return a text, empty where there is none; a number is one too, once it is reported."""
        if self.value is None or isinstance(self.value, str):
            return self.value or ""
        self.misread("a text")
        return str(self.value) if isinstance(self.value, int | float) else ""

    def whole(self, *, least: int = 0) -> Reading[int]:
        """Return a count of pods, processes or devices."""
        if self.value is None:
            return None
        is_whole = isinstance(self.value, int) and not isinstance(self.value, bool)
        if is_whole and least <= self.value <= MAX_COUNT:
            return Found(self.value, self.path)
        return self.misread(f"a whole number from {least} to {MAX_COUNT}")

    def misread(self, expected: str) -> Misread:
        """Report that something else belongs here; of a manifest full of it, no more than can be read."""
        misread = Misread(self.path or "manifest", self.value, expected)
        if len(self.draft.problems) < _MOST_PROBLEMS:
            self.draft.misread(None, misread)
        return misread


def named(nodes: tuple[Node, ...]) -> Iterator[tuple[str, Node]]:
    """Yield the objects of a list with their names."""
    for node in nodes:
        name = node.at("name").text()
        if name:
            yield name, node
