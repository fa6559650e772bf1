"""Sense: what no card can have measured is refused, what no job of ours explains is doubted."""

from collections.abc import Iterator

from vramgate.calibration.report import Doubt, EstimatedBytes, MeasuredBytes, Outcome
from vramgate.errors import DomainError, FieldError
from vramgate.units import format_gib

FAR_FACTOR = 3
"""Further from the estimate than this, the job described is hardly the job that ran: of the public
measurements of exact length in ``accuracy/measured_cases.jsonl`` the farthest is 2.6 times off."""
RANKS_FACTOR = 2
"""Ranks that hold equal shares differ by the batch they got and by buffers, not by half."""
LARGER_CARD_FACTOR = 1.1
"""Cards of one name differ by what the driver keeps; not by a tenth."""


class ImpossibleMeasurementError(DomainError):
    """No card could have measured this."""

    code = "impossible_measurement"


def check_possible(measured: MeasuredBytes, total_bytes: int | None) -> None:
    """Refuse figures that contradict each other or the card.

    Raises:
        ImpossibleMeasurementError: a peak is above the card, or tensors took more than the
            allocator held.
    """
    wrong = [*_above_the_card(measured, total_bytes), *_above_reserved(measured)]
    if wrong:
        raise ImpossibleMeasurementError(
            f"{wrong[0].pointer}: {wrong[0].detail}.",
            hint="Send bytes as integers, of one rank and one card.",
            fields=wrong,
        )


def _above_the_card(measured: MeasuredBytes, total_bytes: int | None) -> Iterator[FieldError]:
    for name in ("max_allocated_bytes", "max_reserved_bytes", "device_used_bytes"):
        value = getattr(measured, name)
        if value is not None and total_bytes is not None and value > total_bytes:
            yield FieldError(
                pointer=f"/measured/{name}",
                code="above_the_card",
                detail=f"{value:,} bytes are more than the card's {total_bytes:,}",
                value=value,
            )


def _above_reserved(measured: MeasuredBytes) -> Iterator[FieldError]:
    allocated, reserved = measured.max_allocated_bytes, measured.max_reserved_bytes
    if allocated is not None and reserved is not None and allocated > reserved:
        yield FieldError(
            pointer="/measured/max_allocated_bytes",
            code="above_reserved",
            detail=f"{allocated:,} bytes are more than max_reserved_bytes, {reserved:,}; the "
            "allocator reserves what it hands out",
            value=allocated,
        )


def estimate_doubts(
    measured: MeasuredBytes, estimated: EstimatedBytes, outcome: Outcome
) -> Iterator[Doubt]:
    """Yield a doubt for each layer that is further than ``FAR_FACTOR`` from its estimate.

    Below it only where the run completed: one that runs or died may not have met its peak yet.
    """
    layers = (
        ("allocated", measured.max_allocated_bytes, estimated.allocated_bytes),
        ("reserved", measured.max_reserved_bytes, estimated.reserved_bytes),
        ("device", measured.device_used_bytes, estimated.device_bytes),
    )
    for layer, value, expected in layers:
        if value is None:
            continue
        is_low = outcome is Outcome.COMPLETED and FAR_FACTOR * value < expected
        if value > FAR_FACTOR * expected or is_low:
            yield Doubt(
                code="far_from_estimate",
                message=f"{layer}: measured {format_gib(value)}, estimated {format_gib(expected)}; "
                f"over {FAR_FACTOR} times apart. Is this the job that ran?",
            )


def rank_doubts(
    allocated: int | None, others: tuple[int, int] | None, run_id: str
) -> Iterator[Doubt]:
    """Yield a doubt where a rank is far outside what the accepted others of its run allocated.

    ``others`` are their lowest and highest peak in bytes.
    """
    if allocated is None or others is None:
        return
    low, high = others
    if allocated > RANKS_FACTOR * high or RANKS_FACTOR * allocated < low:
        yield Doubt(
            code="ranks_disagree",
            message=f"This rank allocated {format_gib(allocated)}, the others of {run_id!r} between "
            f"{format_gib(low)} and {format_gib(high)}, and all hold equal shares.",
        )


def card_doubts(total_bytes: int | None, known_bytes: int | None, name: str) -> Iterator[Doubt]:
    """Yield a doubt where the report's card is larger than any card of its name.

    >>> [doubt.code for doubt in card_doubts(90 * 2**30, 80 * 2**30, "a100-sxm4-80gb")]
    ['card_larger_than_known']
    """
    if total_bytes is None or known_bytes is None:
        return
    if total_bytes > LARGER_CARD_FACTOR * known_bytes:
        yield Doubt(
            code="card_larger_than_known",
            message=f"accelerator_total_bytes is {format_gib(total_bytes)}, but {name} has "
            f"{format_gib(known_bytes)}.",
        )
