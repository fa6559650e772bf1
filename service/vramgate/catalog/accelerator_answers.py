"""What a look-up of an accelerator says: the card and what was assumed, or why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from vramgate.catalog.accelerator_facts import Accelerator
from vramgate.costmodel.job import Device
from vramgate.errors import UnknownNameError
from vramgate.units import format_gib

_LONGEST_SHOWN = 120
_MOST_SUGGESTIONS = 5


class AcceleratorMatch(StrEnum):
    """How a name led to its accelerator."""

    ID = "id"
    ALIAS = "alias"
    READ = "read"
    """By its words: model, form factor, memory, MIG profile."""
    INSTANCE = "instance"
    """By the name of a cloud machine."""
    MEMORY = "memory"
    """The memory size that came with the name decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAccelerator:
    """The accelerator that a name means, and what had to be assumed."""

    entry: Accelerator
    asked: str
    how: AcceleratorMatch
    note: str = ""
    """A sentence for the answer's assumptions; empty where the name leaves no doubt."""
    rivals: tuple[Accelerator, ...] = ()
    """Cards of other memory sizes the name may mean too. Not empty: the capacity is assumed."""
    shared: bool = False
    """The name says the card is time-sliced or shared by MPS: one job may not get its memory."""

    def device(self, usable_bytes: int | None = None) -> Device:
        """Return it as the cost model takes it; a stated capacity replaces the catalog's."""
        return self.entry.device(usable_bytes)


@dataclass(frozen=True, slots=True)
class KnownName:
    """What a kept spelling leads to: a card, and those of other memory sizes it may mean too."""

    card: Accelerator
    rivals: tuple[Accelerator, ...] = ()


def settled(
    asked: str,
    how: AcceleratorMatch,
    known: KnownName,
    memory_bytes: int | None,
    *,
    shared: bool = False,
) -> ResolvedAccelerator:
    """Return the card found, or the rival whose memory fits, with what was assumed."""
    card, rivals, notes = known.card, known.rivals, []
    if memory_bytes is None and rivals:
        others = ", ".join(rival.name for rival in rivals)
        notes.append(f"taken as {card.name}; it may also be {others}: state the memory to decide")
    if memory_bytes is not None and not card.may_hold(memory_bytes):
        fitting = next((rival for rival in rivals if rival.may_hold(memory_bytes)), None)
        if fitting is None:
            notes.append(
                f"{card.name} has {format_gib(card.usable_bytes)}, not the "
                f"{format_gib(memory_bytes)} stated: its other facts were taken"
            )
        else:
            card, how = fitting, AcceleratorMatch.MEMORY
            notes.append(f"{format_gib(memory_bytes)} of memory make it {card.name}")
    if shared:
        notes.append("the card is shared without isolation of memory")
    return ResolvedAccelerator(
        entry=card,
        asked=asked,
        how=how,
        note=f"{shown(asked)}: {'; '.join(notes)}." if notes else "",
        rivals=rivals if memory_bytes is None else (),
        shared=shared,
    )


def slice_note(asked: str, best: Accelerator, slices: Sequence[Accelerator]) -> str:
    """Return which card a slice was taken to be of, empty where only one can be meant."""
    others = ", ".join(mig.mig_of or "" for mig in slices if mig is not best)
    return (
        f"{shown(asked)} was taken as a slice of {best.mig_of}, not of {others}." if others else ""
    )


def undecided(asked: str, candidates: Sequence[Accelerator]) -> UnknownNameError:
    """Return the error for a name that cards of different memory share."""
    names = tuple(card.name for card in candidates)
    listed = ", ".join(
        f"{card.name} ({format_gib(card.usable_bytes)})" for card in candidates[:_MOST_SUGGESTIONS]
    )
    return UnknownNameError(
        f"{shown(asked)!r} could be any of {listed}",
        hint="Name one of them, or state the card's memory.",
        asked=asked,
        suggestions=names[:_MOST_SUGGESTIONS],
        candidates=names,
    )


def no_profile(asked: str, profile: str, cards: Sequence[Accelerator]) -> UnknownNameError:
    """Return the error for a MIG profile that no card of the name can be cut into."""
    names = tuple(
        dict.fromkeys(f"{c.name}-mig-{own.name}" for c in cards for own in c.mig_profiles)
    )
    known = f"Known slices: {', '.join(names[:7])}." if names else "It has no known MIG slices."
    return UnknownNameError(
        f"no card that {shown(asked)!r} can mean has the MIG profile {profile}",
        hint=known,
        asked=asked,
        suggestions=names[:_MOST_SUGGESTIONS],
    )


def no_model(asked: str) -> UnknownNameError:
    """Return the error for a text that says no more than that there is an accelerator."""
    return UnknownNameError(
        f"{shown(asked)!r} names no model of accelerator",
        hint="Write the model, for example a100-sxm4-80gb or NVIDIA H100 80GB HBM3.",
        asked=asked,
        suggestions=(),
    )


def unknown(asked: str, near: tuple[str, ...]) -> UnknownNameError:
    """Return the error for a model that is in no catalog."""
    nearest = f"Nearest in the catalog: {', '.join(near)}. " if near else ""
    return UnknownNameError(
        f"no accelerator in the catalog is called {shown(asked)!r}",
        hint=f"{nearest}Cards of your own go into the site catalog.",
        asked=asked,
        suggestions=near,
    )


def shown(name: str) -> str:
    """Return a name cut to what a message can carry."""
    return name if len(name) <= _LONGEST_SHOWN else f"{name[: _LONGEST_SHOWN - 3]}..."
