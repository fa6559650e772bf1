"""One report as the service takes it: bounded, masked, and nothing in it that JSON cannot hold."""

import datetime
import hashlib
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vramgate.reporter.measure import Device, Peaks
from vramgate.reporter.outcome import Outcome
from vramgate.reporter.parameters import ParameterCount
from vramgate.reporter.redaction import masked, masked_everywhere

# The service's own bounds: POST /v1/reports.
MOST_LABELS = 32
LONGEST_LABEL_NAME = 64
LONGEST_LABEL_VALUE = 256
LONGEST_RUN_ID = 200
LONGEST_OOM_MESSAGE = 20_000
LONGEST_NAME = 200
MOST_VERSIONS = 64
# A digest names a run or a decision more often than it is somebody's key.
_DIGEST = re.compile(r"[0-9a-f]{32,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What stays the same over a run's reports."""

    run_id: str
    rank: int
    about: Mapping[str, Any]
    """``job``, ``launch`` or ``decision_id``, or a decision beside one of the others."""
    labels: Mapping[str, str] = field(default_factory=dict)
    live_model: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was seen at one moment of a run."""

    outcome: Outcome
    peaks: Peaks
    device: Device | None = None
    warmup_excluded: bool = False
    oom_message: str | None = None
    step_seconds: float | None = None
    tokens_per_second: float | None = None
    measured_at: datetime.datetime


def as_report(run: Run, measurement: Measurement, software: Mapping[str, str]) -> dict[str, Any]:
    """Return the report to post; every text in it has been searched for tokens."""
    measured = measurement.peaks.as_report()
    device = measurement.device or Device()
    report: dict[str, Any] = {
        "run_id": run.run_id,
        "rank": run.rank,
        **run.about,
        "outcome": measurement.outcome,
        "measured": measured or None,
        "warmup_excluded": measurement.warmup_excluded if measured else None,
        "oom_message": _oom_message(measurement.oom_message),
        "accelerator": device.name and _printable(device.name, LONGEST_NAME),
        "accelerator_total_bytes": device.total_bytes,
        "software": _bounded(software, MOST_VERSIONS),
        "live_model": run.live_model,
        "step_seconds": _positive(measurement.step_seconds),
        "tokens_per_second": _positive(measurement.tokens_per_second),
        "labels": _bounded(run.labels, MOST_LABELS),
        "measured_at": measurement.measured_at.isoformat().replace("+00:00", "Z"),
    }
    return fit_to_leave({name: value for name, value in report.items() if value is not None})


def fit_to_leave(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report in which every text has been searched for tokens and can be stored."""
    kept = masked_everywhere(dict(report))
    if not isinstance(kept, dict):
        raise TypeError("a report is an object")
    for name in ("run_id", "decision_id"):
        if isinstance(report.get(name), str):
            kept[name] = _identifier(report[name])
    fit: dict[str, Any] = _storable(kept)
    return fit


def live_model(count: ParameterCount, class_name: str, config: object) -> dict[str, Any]:
    """Return a counted model as the report's ``live_model``."""
    return {
        "class_name": class_name,
        "config": config,
        "parameters": count.parameters,
        "trainable_parameters": count.trainable_parameters,
        "parameter_bytes": count.bytes,
        "trainable_bytes": count.trainable_bytes,
        "by_dtype": {
            dtype: {
                "parameters": share.parameters,
                "trainable_parameters": share.trainable_parameters,
                "bytes": share.bytes,
            }
            for dtype, share in count.by_dtype.items()
        },
    }


def _identifier(text: str) -> str:
    """Return an identifier that still tells runs apart where it had the form of a token.

    >>> _identifier("slurm-812"), len(_identifier("hf_abcdefghijklmnop"))
    ('slurm-812', 31)
    """
    if _DIGEST.fullmatch(text) or masked(text) == text:
        return _printable(text, LONGEST_RUN_ID)
    return f"masked-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _oom_message(text: str | None) -> str | None:
    """Return the message, its end cut where it is too long: the figures stand first."""
    return None if text is None else masked(text)[:LONGEST_OOM_MESSAGE]


def _bounded(texts: Mapping[str, str], most: int) -> dict[str, str]:
    chosen = [(str(name), str(value)) for name, value in texts.items()][:most]
    return {
        _printable(masked(name), LONGEST_LABEL_NAME): _printable(masked(value), LONGEST_LABEL_VALUE)
        for name, value in chosen
        if name.strip()
    }


def _printable(text: str, longest: int) -> str:
    """Return text of visible characters in their composed form, as the service wants names."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(char if char.isprintable() else "?" for char in composed)[:longest]


def _positive(value: float | None) -> float | None:
    return value if value is not None and value > 0 and math.isfinite(value) else None


def _storable(value: object) -> Any:
    """Return a JSON value without NUL and lone surrogates, which no database holds."""
    if isinstance(value, str):
        return value.replace("\0", "?").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_storable(name): _storable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    return value
