"""Measured against estimated, by layer."""

from dataclasses import dataclass

from vramgate.calibration.report import EstimatedBytes, MeasuredBytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One layer: what was measured, what was estimated, and how far off the estimate is."""

    measured_bytes: int
    estimated_bytes: int
    relative_error: float
    """Estimated over measured, less one: above zero where we said too much."""


def residuals_of(measured: MeasuredBytes, estimated: EstimatedBytes | None) -> dict[str, Residual]:
    """Return the residual of every layer that was measured, where there is an estimate.

    >>> measured = MeasuredBytes(max_allocated_bytes=80)
    >>> estimated = EstimatedBytes(allocated_bytes=84, required_bytes=90, reserved_bytes=92,
    ...                            device_bytes=95, model_version="2026.11")
    >>> residuals_of(measured, estimated)["allocated"].relative_error
    0.05
    """
    if estimated is None:
        return {}
    pairs = {
        "allocated": (measured.max_allocated_bytes, estimated.allocated_bytes),
        "reserved": (measured.max_reserved_bytes, estimated.reserved_bytes),
        "device": (measured.device_used_bytes, estimated.device_bytes),
    }
    return {
        layer: Residual(
            measured_bytes=value,
            estimated_bytes=expected,
            relative_error=round(expected / value - 1, 6),
        )
        for layer, (value, expected) in pairs.items()
        if value is not None
    }
