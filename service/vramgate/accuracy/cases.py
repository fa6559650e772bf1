"""The rows accuracy is measured on: exact traces, measured runs, other estimators' figures."""

import importlib.resources
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from vramgate.errors import DomainError

BUNDLED = ("oracle_rows.jsonl", "measured_cases.jsonl", "peer_predictions.jsonl")


class InvalidCasesError(DomainError):
    """A line of a file of cases is no row of a known kind."""

    code = "invalid_cases"


class Kind(StrEnum):
    """What became of a run."""

    MEASURED = "measured"
    FITS = "fits"
    OOM = "oom"


class Layer(StrEnum):
    """Which peak a source reports; ``unstated`` is compared with reserved."""

    ALLOCATED = "allocated"
    RESERVED = "reserved"
    DEVICE = "device"
    UNSTATED = "unstated"


class LengthIs(StrEnum):
    """Whether the stated sequence length set the peak, or only bounds what did."""

    EXACT = "exact"
    BOUND = "bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCase:
    """A public measurement of somebody else's run."""

    id: str
    source: str
    job: Mapping[str, Any]
    kind: Kind
    layer: Layer
    peak_bytes: int | None
    """None where only the outcome is known."""
    device_bytes: int | None
    """The card's figure of the same run, where the peak is another layer."""
    length_is: LengthIs
    tier: str
    latest: bool | None
    """Of a benchmark with several revisions: whether this is the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRow:
    """One exact trace of real model code."""

    id: str
    family: str
    job: Mapping[str, Any]
    peak_bytes: int
    peak_phase: str
    saved_bytes_per_block: int | None
    trainable_parameters: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerPredictions:
    """What other estimators say about the measured case of the same id."""

    id: str
    predicted_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """All rows of one or several files."""

    measured: tuple[MeasuredCase, ...]
    oracle: tuple[OracleRow, ...]
    peers: tuple[PeerPredictions, ...]


def bundled_cases() -> Cases:
    """Return the rows that ship with the package; README.md of this folder describes them."""
    folder = importlib.resources.files("vramgate.accuracy")
    texts = (folder.joinpath(name).read_text(encoding="utf-8") for name in BUNDLED)
    return _sorted(
        row for name, text in zip(BUNDLED, texts, strict=True) for row in _rows(text, name)
    )


def read_cases(text: str, *, name: str) -> Cases:
    """Return the rows of a file of JSON lines; each row's own fields say which kind it is.

    Raises:
        InvalidCasesError: a line is not JSON, or no row of a known kind.
    """
    return _sorted(_rows(text, name))


_Row = MeasuredCase | OracleRow | PeerPredictions
_Kind = TypeVar("_Kind", bound=StrEnum)


def _sorted(rows: Iterable[_Row]) -> Cases:
    held = list(rows)
    return Cases(
        measured=tuple(row for row in held if isinstance(row, MeasuredCase)),
        oracle=tuple(row for row in held if isinstance(row, OracleRow)),
        peers=tuple(row for row in held if isinstance(row, PeerPredictions)),
    )


def _rows(text: str, name: str) -> Iterable[_Row]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield _row(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidCasesError(
                f"{name}, line {number}: {reason}.",
                hint="A row holds a job beside measured or exact, or predicted_bytes.",
            ) from error


def _row(value: Any) -> _Row:  # noqa: ANN401 whatever a line holds
    if not isinstance(value, dict):
        raise TypeError("a row is an object")
    for field, reader in _READERS.items():
        if field in value:
            return reader(value)
    raise KeyError(" or ".join(_READERS))


def _measured_case(value: Mapping[str, Any]) -> MeasuredCase:
    measured = value["measured"]
    kind = _member(Kind, measured["kind"])
    return MeasuredCase(
        id=value["id"],
        source=value.get("source", "unknown"),
        job=value["job"],
        kind=kind,
        layer=_member(Layer, measured.get("metric", Layer.UNSTATED)),
        peak_bytes=_size(measured["peak_bytes"]) if kind is Kind.MEASURED else None,
        device_bytes=_size(measured["device_bytes"]) if "device_bytes" in measured else None,
        length_is=_member(LengthIs, value.get("sequence_length_is", LengthIs.EXACT)),
        tier=value.get("tier", "unknown"),
        latest=value.get("latest"),
    )


def _oracle_row(value: Mapping[str, Any]) -> OracleRow:
    exact = value["exact"]
    saved = exact.get("saved_bytes_per_block")
    return OracleRow(
        id=value["id"],
        family=value.get("family", "unknown"),
        job=value["job"],
        peak_bytes=_size(exact["peak_bytes"]),
        peak_phase=exact["peak_phase"],
        saved_bytes_per_block=None if saved is None else int(saved),
        trainable_parameters=exact.get("trainable_parameters"),
    )


def _peer_predictions(value: Mapping[str, Any]) -> PeerPredictions:
    said = {peer: int(size) for peer, size in value["predicted_bytes"].items() if size is not None}
    return PeerPredictions(id=value["id"], predicted_bytes=said)


def _member(kind: type[_Kind], value: str) -> _Kind:
    """Return the enum's member; the error names the choices."""
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{value!r} is not one of {', '.join(kind)}") from None


def _size(value: object) -> int:
    """Return a size that an error can be a fraction of."""
    if not isinstance(value, int | float) or value <= 0:
        raise ValueError(f"{value!r} is no size in bytes")
    return int(value)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], _Row]] = {
    "measured": _measured_case,
    "exact": _oracle_row,
    "predicted_bytes": _peer_predictions,
}
"""A row's kind, by the field that only this kind has."""
