"""What one policy says and another does not, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_ORDERED = "rules"
"""The list in which it matters what stands first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field that is not the same; None is not there."""

    field: str
    before: Any
    after: Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return how one policy's document differs from another's; parts are told apart by their names.

    >>> [one] = differences({"mode": "warn", "risk": 0.01}, {"mode": "enforce", "risk": 0.01})
    >>> one.field, one.before, one.after
    ('mode', 'warn', 'enforce')
    """
    old, new = dict(_fields(before)), dict(_fields(after))
    found = [
        Difference(field=name, before=old.get(name), after=new.get(name))
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]
    return [*found, *_reordered(before, after)]


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 JSON
    """Yield what a document says, each with its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _fields(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        for one in value:
            rest = {key: inner for key, inner in one.items() if key != "name"}
            # A rule that says nothing is there all the same.
            yield f"{path}[{one['name']}]", ""
            yield from _fields(rest, f"{path}[{one['name']}]")
    else:
        yield path, value


def _reordered(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the order of the rules that are in both, where it is another."""
    old, new = ([rule["name"] for rule in one.get(_ORDERED, ())] for one in (before, after))
    kept, now = ([name for name in one if name in old and name in new] for one in (old, new))
    if kept != now:
        yield Difference(field=f"order of {_ORDERED}", before=kept, after=now)
