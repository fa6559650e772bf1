"""What decides about a job's peak and nobody said: as long as such a field is open, nothing is denied."""

from collections.abc import Iterator
from dataclasses import dataclass

from vramgate.jobs.resolve import ResolvedJob

OURS = "vramgate:"
"""How the source of a default begins that is no framework's."""
_APPROXIMATED = frozenset({"model_shape_inferred", "approximate_model"})
"""Codes of warnings that say that the model's shape was not really known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenField:
    """A field that decides about the peak, what was taken for it, and why that is not certain."""

    field: str
    source: str
    """Whose default was taken."""
    reason: str
    hint: str


def open_fields(resolved: ResolvedJob) -> tuple[OpenField, ...]:
    """Return the critical fields of a job that nobody said.

    Critical are model, method, micro-batch, sequence length, precision, and with several devices the
    sharding. A framework's default counts as said where the framework was said. The optimizer is no
    question of its own: AdamW is the default of every framework but one, at any precision.
    """
    return (*_open_model(resolved), *_taken(resolved))


def _open_model(resolved: ResolvedJob) -> Iterator[OpenField]:
    for warning in resolved.warnings:
        if warning.code in _APPROXIMATED:
            yield OpenField(
                field="model",
                source=resolved.model_name,
                reason=warning.message,
                hint="give model.config, the model's config.json",
            )
            return


def _taken(resolved: ResolvedJob) -> Iterator[OpenField]:
    is_framework_open = any(one.field == "software.framework" for one in resolved.assumptions)
    critical = _CRITICAL if resolved.job.hardware.devices == 1 else _CRITICAL + _SHARDING
    for one in resolved.assumptions:
        if one.field in critical and (is_framework_open or one.source.startswith(OURS)):
            yield OpenField(
                field=one.field,
                source=one.source,
                reason=f"nobody said it; {one.value} was taken",
                hint=f"say {one.field}, or software.framework",
            )


_CRITICAL: tuple[str, ...] = (
    "method",
    "method.kind",
    "micro_batch_size",
    "sequence_length",
    "precision",
    "precision.weights",
)
_SHARDING: tuple[str, ...] = ("sharding.implementation", "sharding.zero_stage")
