"""Values from YAML's events: no recursion, a count of everything, and keys that stand once.

A loader would follow aliases and nesting wherever they lead; libyaml's events are flat, and each knows
its place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from vramgate.errors import DomainError

MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Values of a document, those behind aliases counted as often as they stand."""

Refusal: TypeAlias = Callable[[yaml.Event, str], DomainError]
"""Makes the error of what is wrong at an event."""

_MERGE = "tag:yaml.org,2002:merge"
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str", "timestamp")
)
_PLAIN_COLLECTIONS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(slots=True)
class _Open:
    """A list or an object whose end has not come yet."""

    value: list[Any] | dict[Any, Any]
    anchor: str | None
    start: int
    """Values of the document before it."""
    key: Any = None
    has_key: bool = False
    merged: dict[Any, Any] | None = None
    is_merge: bool = False


class Builder:
    """Builds values from events: no recursion, and a count of everything."""

    def __init__(self, at: Refusal) -> None:
        self.documents: list[Any] = []
        self._at = at
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._resolver = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        if isinstance(event, yaml.ScalarEvent):
            self._count(event, 1)
            self._keep_scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._count(event, 1)
            self._start(event)
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self._end(event)
        elif isinstance(event, yaml.AliasEvent):
            self._keep_alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors.clear()

    def _keep_scalar(self, event: yaml.ScalarEvent) -> None:
        tag = event.tag
        if tag is None or tag == "!":
            resolve: Callable[..., str] = self._resolver.resolve
            tag = resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == _MERGE:
            if self._open and isinstance(self._open[-1].value, dict) and not self._open[-1].has_key:
                self._open[-1].has_key = self._open[-1].is_merge = True
                return
            tag = "tag:yaml.org,2002:str"
        if tag not in _PLAIN_TAGS:
            raise self._at(event, f"the tag {event.tag or tag} is not plain data")
        self._keep(event, self._scalar(event, tag), event.anchor)

    def _scalar(self, event: yaml.ScalarEvent, tag: str) -> Any:  # noqa: ANN401 a scalar
        if tag.endswith((":str", ":timestamp")):
            return event.value
        node = yaml.ScalarNode(tag, event.value)
        try:
            return self._constructor.construct_object(node)
        except (ValueError, OverflowError, KeyError, IndexError, yaml.YAMLError):
            raise self._at(event, f"{event.value[:40]!r} is no {tag.rpartition(':')[2]}") from None

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise self._at(event, f"it is nested more than {MAX_DEPTH} deep")
        if self._open and self._expects_key():
            raise self._at(event, "a key is a list or an object")
        if event.tag not in _PLAIN_COLLECTIONS:
            raise self._at(event, f"the tag {event.tag} is not plain data")
        value: list[Any] | dict[Any, Any] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        self._open.append(_Open(value=value, anchor=event.anchor, start=self._values - 1))

    def _end(self, event: yaml.Event) -> None:
        done = self._open.pop()
        if done.merged is not None and isinstance(done.value, dict):
            done.value = {**done.merged, **done.value}
        if done.anchor is not None:
            self._anchors[done.anchor] = (done.value, self._values - done.start)
        self._place(event, done.value)

    def _keep_alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise self._at(event, f"*{event.anchor} stands for nothing yet, or for itself")
        value, size = self._anchors[event.anchor]
        self._count(event, size)
        self._keep(event, value, None)

    def _keep(self, event: yaml.Event, value: Any, anchor: str | None) -> None:  # noqa: ANN401
        if anchor is not None:
            self._anchors[anchor] = (value, 1)
        self._place(event, value)

    def _place(self, event: yaml.Event, value: Any) -> None:  # noqa: ANN401 any value
        if not self._open:
            self.documents.append(value)
            return
        here = self._open[-1]
        if isinstance(here.value, list):
            here.value.append(value)
        elif not here.has_key:
            self._take_key(event, here, value)
        elif here.is_merge:
            here.has_key = here.is_merge = False
            here.merged = {**self._to_merge(event, value), **(here.merged or {})}
        else:
            here.value[here.key] = value
            here.has_key = False

    def _take_key(self, event: yaml.Event, here: _Open, key: Any) -> None:  # noqa: ANN401 any value
        if isinstance(key, list | dict):
            raise self._at(event, "a key is a list or an object")
        if key in here.value:
            raise self._at(event, f"the key {str(key)[:60]!r} stands twice in one object")
        here.key, here.has_key = key, True

    def _to_merge(self, event: yaml.Event, value: Any) -> dict[Any, Any]:  # noqa: ANN401 any value
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise self._at(event, "<< merges objects only")
        # The first of several wins.
        return {key: inner for part in reversed(parts) for key, inner in part.items()}

    def _expects_key(self) -> bool:
        here = self._open[-1]
        return isinstance(here.value, dict) and not here.has_key

    def _count(self, event: yaml.Event, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise self._at(event, f"it holds more than {MAX_VALUES} values, aliases counted")
