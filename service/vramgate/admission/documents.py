"""A policy as the JSON document it is kept as, and back.

The document says everything, defaults as well, so that it means the same under a version of this
package with other defaults. One that a newer version wrote is read as far as this one knows it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from vramgate.admission.decision import Channel, Mode
from vramgate.admission.policy import (
    DEFAULT_POLICY,
    AdmissionPolicy,
    CapacityMap,
    Exemption,
    PolicyRule,
    Scope,
    UnknownModels,
)
from vramgate.json_text import pointer

_Part = TypeVar("_Part")

_NAMING_DIGITS = 12
SCOPE_FIELDS = tuple(one.name for one in fields(Scope))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPolicy:
    """A policy as far as its document was understood."""

    policy: AdmissionPolicy
    left_out: tuple[str, ...]
    """JSON pointers to what was not."""


def policy_document(policy: AdmissionPolicy) -> dict[str, Any]:
    """Return the document of a policy; its version is not in it, as it is made from the document."""
    return {
        "mode": policy.mode.value,
        "caller_may_choose": _in_order(policy.caller_may_choose),
        "risk": policy.risk,
        "deny_probability": policy.deny_probability,
        "unknown_models": policy.unknown_models.value,
        "capacity": {
            "queues": dict(policy.capacity.queues),
            "node_labels": dict(policy.capacity.node_labels),
        },
        "rules": [_rule_document(rule) for rule in policy.rules],
        "exemptions": [_exemption_document(one) for one in policy.exemptions],
        "break_glass": {"submitters": list(policy.break_glass_submitters)},
        "report_token_seconds": policy.report_token_seconds,
    }


def version_named_by(digest: str) -> str:
    """Return the version of a policy whose document has this digest: the same text, the same name.

    >>> version_named_by("0123456789abcdef")
    'p-0123456789ab'
    """
    return f"p-{digest[:_NAMING_DIGITS]}"


def read_document(document: object, *, version: str) -> ReadPolicy:
    """Return the policy that a stored document is, and what of it could not be read.

    A field that is not understood counts as not there. A rule or an exemption with one is left out
    whole: read without it, it might be for more jobs than were meant.

    >>> read_document({"mode": "enforce", "mood": "good"}, version="p-1").left_out
    ('/mood',)
    """
    if not isinstance(document, Mapping):
        return ReadPolicy(policy=AdmissionPolicy(version=version), left_out=("",))
    base = _Reader(document)
    capacity, glass = base.inner("capacity"), base.inner("break_glass")
    policy = AdmissionPolicy(
        version=version,
        mode=base.take("mode", Mode, DEFAULT_POLICY.mode),
        caller_may_choose=base.take("caller_may_choose", _modes, frozenset()),
        risk=base.take("risk", _number, DEFAULT_POLICY.risk),
        deny_probability=base.take("deny_probability", _number, DEFAULT_POLICY.deny_probability),
        unknown_models=base.take("unknown_models", UnknownModels, DEFAULT_POLICY.unknown_models),
        capacity=CapacityMap(
            queues=capacity.take("queues", _names, {}),
            node_labels=capacity.take("node_labels", _names, {}),
        ),
        rules=tuple(base.parts("rules", _rule)),
        exemptions=tuple(base.parts("exemptions", _exemption)),
        break_glass_submitters=glass.take("submitters", _texts, ()),
        report_token_seconds=base.take(
            "report_token_seconds", _whole, DEFAULT_POLICY.report_token_seconds
        ),
    )
    return ReadPolicy(policy=policy, left_out=(*base.faults(), *capacity.faults(), *glass.faults()))


def moment_text(moment: datetime) -> str:
    """Return a moment in RFC 3339, in UTC.

    >>> moment_text(datetime(2026, 11, 29, 12, tzinfo=UTC))
    '2026-11-29T12:00:00Z'
    """
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _rule_document(rule: PolicyRule) -> dict[str, Any]:
    chosen = rule.caller_may_choose
    given = {
        "name": rule.name,
        **_scope_document(rule.scope),
        "until": None if rule.until is None else moment_text(rule.until),
        "mode": rule.mode and rule.mode.value,
        "caller_may_choose": None if chosen is None else _in_order(chosen),
        "risk": rule.risk,
        "deny_probability": rule.deny_probability,
        "unknown_models": rule.unknown_models and rule.unknown_models.value,
    }
    return {name: value for name, value in given.items() if value is not None}


def _exemption_document(exemption: Exemption) -> dict[str, Any]:
    return {
        "name": exemption.name,
        **_scope_document(exemption.scope),
        "until": moment_text(exemption.until),
        "reason": exemption.reason,
    }


def _scope_document(scope: Scope) -> dict[str, str]:
    given = {name: getattr(scope, name) for name in SCOPE_FIELDS}
    return {name: str(value) for name, value in given.items() if value is not None}


def _in_order(modes: frozenset[Mode]) -> list[str]:
    return [mode.value for mode in Mode if mode in modes]


class _Reader:
    """The fields of one object, and which of them are not understood."""

    def __init__(self, document: Mapping[str, Any], where: str = "") -> None:
        self._document, self._where = document, where
        self._known: set[str] = set()
        self._faults: list[str] = []

    def take(self, name: str, read: Callable[[Any], Any], missing: Any = None) -> Any:  # noqa: ANN401 what a document holds
        """Return a field's value, or ``missing`` where it is not there or not understood."""
        self._known.add(name)
        if name not in self._document:
            return missing
        try:
            return read(self._document[name])
        except (ValueError, TypeError, OverflowError):
            self._faults.append(self._at(name))
            return missing

    def inner(self, name: str) -> "_Reader":
        """Return the reader of an object in a field."""
        return _Reader(self.take(name, _object, {}), self._at(name))

    def parts(self, name: str, read: Callable[["_Reader"], _Part]) -> Iterator[_Part]:
        """Yield the parts of a list that are understood whole."""
        for index, one in enumerate(self.take(name, _list, ())):
            where = f"{self._at(name)}{pointer(index)}"
            if not isinstance(one, Mapping):
                self._faults.append(where)
                continue
            reader = _Reader(one, where)
            part = read(reader)
            faults = reader.faults()
            if faults:
                self._faults += faults
            else:
                yield part

    def need(self, name: str, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401 what a document holds
        """Return a field's value; that it is not there is a fault as well."""
        if name not in self._document:
            self._known.add(name)
            self._faults.append(self._at(name))
            return None
        return self.take(name, read)

    def faults(self) -> list[str]:
        """Return the pointers to what was not understood, fields nobody asked for among them."""
        unknown = [name for name in self._document if name not in self._known]
        return [*self._faults, *(self._at(name) for name in unknown)]

    def _at(self, name: str) -> str:
        return f"{self._where}{pointer(name)}"


def _rule(reader: _Reader) -> PolicyRule:
    return PolicyRule(
        name=reader.need("name", _text),
        scope=_scope(reader),
        until=reader.take("until", _moment),
        mode=reader.take("mode", Mode),
        caller_may_choose=reader.take("caller_may_choose", _modes),
        risk=reader.take("risk", _number),
        deny_probability=reader.take("deny_probability", _number),
        unknown_models=reader.take("unknown_models", UnknownModels),
    )


def _exemption(reader: _Reader) -> Exemption:
    return Exemption(
        name=reader.need("name", _text),
        scope=_scope(reader),
        until=reader.need("until", _moment),
        reason=reader.need("reason", _text),
    )


def _scope(reader: _Reader) -> Scope:
    patterns = {name: reader.take(name, _text) for name in SCOPE_FIELDS if name != "channel"}
    return Scope(**patterns, channel=reader.take("channel", Channel))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(value)
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def _moment(value: object) -> datetime:
    moment = datetime.fromisoformat(_text(value))
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment.astimezone(UTC)


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(_text, _list(value)))


def _names(value: object) -> dict[str, str]:
    return {name: _text(one) for name, one in _object(value).items()}


def _modes(value: object) -> frozenset[Mode]:
    return frozenset(map(Mode, _list(value)))
