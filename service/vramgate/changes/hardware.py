"""Changes of the hardware: more devices to share the states, or another card."""

from collections.abc import Callable

from vramgate.catalog.accelerators import Accelerator
from vramgate.changes.change import ChangeKind, Edit
from vramgate.changes.situation import Situation
from vramgate.units import format_gib

MOST_DEVICES = 2**20
"""What the interface takes as hardware.devices."""
_FACTORS = (2, 4, 8)
_CARDS = 2
"""Cards that are tried: the smallest that should hold the job, and the next."""
_LEAST_RATE = 0.5
"""A card with less than half the memory bandwidth or arithmetic is no replacement; guess."""


def more_devices(situation: Situation) -> tuple[Edit, ...]:
    """Offer twice, four and eight times the devices where a rank's share of the states shrinks with them."""
    job = situation.job
    if not job.sharding.zero_stage or job.sharding.shard_group_size is not None:
        return ()
    devices = int(job.hardware.devices)
    return tuple(
        _devices_edit(situation, devices * factor, factor)
        for factor in _FACTORS
        if devices * factor <= MOST_DEVICES
    )


def _devices_edit(situation: Situation, devices: int, factor: int) -> Edit:
    job = situation.job
    steps = int(job.gradient_accumulation_steps)
    sets: list[tuple[str, object]] = [("hardware.devices", devices)]
    to, cost = f"devices to {devices}", f"{devices} devices instead of {job.hardware.devices}"
    if steps % factor == 0:
        sets.append(("gradient_accumulation_steps", steps // factor))
        to = f"{to} with gradient_accumulation_steps {steps // factor}"
    else:
        # Said, so that no default of a global batch changes it.
        sets.append(("gradient_accumulation_steps", steps))
        cost = f"{cost}, and a step sees {factor} times as many rows"
    return Edit(
        kind=ChangeKind.DEVICES,
        sets=tuple(sets),
        to=to,
        why="each holds a smaller share of the states",
        slowdown=None,
        cost=cost,
    )


def larger_card(situation: Situation) -> tuple[Edit, ...]:
    """Offer the smallest cards of the same maker that should hold the job, the smaller first."""
    now = situation.device
    card = None if now is None else situation.accelerators.get(now.name)
    if now is None or card is None or situation.vendor is None:
        return ()
    needed = situation.upper_bytes + situation.job.hardware.occupied_bytes
    fitting = sorted(
        (
            other
            for other in situation.accelerators.entries
            if other.vendor == card.vendor
            and other.name != card.name
            and other.usable_bytes >= needed
            and other.usable_bytes > now.usable_bytes
            and _stands_in(card, other)
        ),
        key=lambda other: (other.usable_bytes, other.name),
    )
    return tuple(map(_card_edit, fitting[:_CARDS]))


def _stands_in(card: Accelerator, other: Accelerator) -> bool:
    """Return whether a card does what another does, at half its rates or more."""
    rates: tuple[Callable[[Accelerator], int | None], ...] = (
        lambda one: one.memory_bandwidth_bytes_per_s,
        lambda one: one.peak_flops.bf16 or one.peak_flops.fp16,
    )
    pairs = ((rate(card), rate(other)) for rate in rates)
    fast = all(has is None or gets is None or gets >= has * _LEAST_RATE for has, gets in pairs)
    return fast and (other.bf16_native or not card.bf16_native)


def _card_edit(card: Accelerator) -> Edit:
    return Edit(
        kind=ChangeKind.ACCELERATOR,
        sets=(("hardware.accelerator", card.name), ("hardware.device_memory_bytes", None)),
        to=f"hardware.accelerator to {card.name}",
        why=f"{format_gib(card.usable_bytes)} of it are usable",
        slowdown=None,
        cost="other hardware; its speed and its price are not compared here",
    )
