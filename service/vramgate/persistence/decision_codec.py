"""KeptDecision to one line of JSON and back, for the journal.

A line outlives the process that wrote it and may be read by another version: it names its format.
"""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from vramgate.admission.decision import Channel, Mode, Verdict
from vramgate.admission.record import KeptDecision
from vramgate.errors import DomainError
from vramgate.json_text import parse_json

FORMAT: Final = 1

_VERSION_KEY = "v"
_MOST_WHOLE = 2**63 - 1


class UnreadableDecisionError(DomainError):
    """The bytes are no decision of this format."""

    code = "unreadable_decision"


class NewerDecisionError(UnreadableDecisionError):
    """A newer version wrote it, in a format that this one does not know."""

    code = "newer_decision"


def encode_decision(decision: KeptDecision) -> bytes:
    """Return the decision as one line of ASCII JSON, without a line feed."""
    values = {name: getattr(decision, name) for name in _READERS}
    document = {_VERSION_KEY: FORMAT, **values, "decided_at": decision.decided_at.isoformat()}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def decode_decision(record: bytes) -> KeptDecision:
    """Return the decision that was encoded.

    Raises:
        NewerDecisionError: its format is newer than this version.
        UnreadableDecisionError: anything of it is not as ``encode_decision`` writes it.
    """
    try:
        document = parse_json(record)
    except DomainError as error:
        raise UnreadableDecisionError(f"The record is not read: {error.message}") from error
    if not isinstance(document, dict):
        raise UnreadableDecisionError("The record is no JSON object.")
    version = document.pop(_VERSION_KEY, None)
    if type(version) is int and version > FORMAT:
        raise NewerDecisionError(
            f"The record has format {version}; this version reads {FORMAT}.",
            hint="Start the version that wrote it, or a newer one.",
        )
    if type(version) is not int or version != FORMAT:
        raise UnreadableDecisionError(f"The record has no format this version knows: {version!r}.")
    return _read(document)


def _read(document: Mapping[str, object]) -> KeptDecision:
    if document.keys() != _READERS.keys():
        names = sorted(document.keys() ^ _READERS.keys())
        raise UnreadableDecisionError(f"The record lacks or adds {', '.join(names)}.")
    values: dict[str, Any] = {}
    for name, read in _READERS.items():
        try:
            values[name] = read(document[name])
        except (ValueError, OverflowError) as error:
            raise UnreadableDecisionError(f"{name} of the record: {error}") from error
    return KeptDecision(**values)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("not a text")


def _whole(value: object) -> int:
    if type(value) is int and abs(value) <= _MOST_WHOLE:
        return value
    raise ValueError("not a whole number that the database can hold")


def _fraction(value: object) -> float:
    if type(value) is float and math.isfinite(value):
        return value
    # JSON has one kind of number; a probability of one may be written without a point.
    return float(_whole(value))


def _utc(value: object) -> datetime:
    read = datetime.fromisoformat(_text(value))
    if read.utcoffset() != timedelta(0):
        raise ValueError("not a time in UTC")
    return read.astimezone(UTC)


def _or_none(read: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: None if value is None else read(value)


def _one_of(values: type[Channel] | type[Mode] | type[Verdict]) -> Callable[[object], object]:
    return lambda value: values(_text(value))


_READERS: dict[str, Callable[[object], object]] = {
    "decision_id": _text,
    "tenant": _text,
    "decided_at": _utc,
    "caller": _text,
    "cluster": _or_none(_text),
    "queue": _or_none(_text),
    "channel": _one_of(Channel),
    "submitter": _or_none(_text),
    "external_id": _or_none(_text),
    "mode": _one_of(Mode),
    "verdict": _one_of(Verdict),
    "decision": _one_of(Verdict),
    "reason_code": _text,
    "oom_probability": _or_none(_fraction),
    "required_bytes": _or_none(_whole),
    "usable_bytes": _or_none(_whole),
    "model": _or_none(_text),
    "accelerator": _or_none(_text),
    "policy_version": _text,
    "calibration_version": _text,
    "model_version": _text,
    "inputs_digest": _text,
    "subject_digest": _text,
    "subject": _text,
    "answer_digest": _text,
    "answer": _text,
    "break_glass": _or_none(_text),
}
"""Every field of a KeptDecision, and how its value is read."""
