"""Which card a pod gets, by what it demands of its node; the nearest word of the driver's counts first.

Labels: NVIDIA/k8s-device-plugin ``docs/gpu-feature-discovery/README.md``, AMD's node labeller,
and the clouds' own. Names are those the catalog of accelerators resolves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vramgate.catalog.accelerators import Accelerator, builtin_accelerators
from vramgate.errors import UnknownNameError
from vramgate.launch.launch import Context
from vramgate.launch.manifests.cel import DeviceFacts
from vramgate.launch.manifests.labels import Demand, demand
from vramgate.launch.manifests.pods import Pod
from vramgate.launch.reading import Found, Unseen
from vramgate.units import MIB, format_gib

_PRODUCTS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "gpu.nvidia.com/model",
    "gpu.nvidia.com/class",
    "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.azure.com/sku-gpu-name",
    "k8s.amazonaws.com/accelerator",
)
_MACHINES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_MEMORIES = (
    "nvidia.com/gpu.memory",
    "karpenter.k8s.aws/instance-gpu-memory",
    "eks.amazonaws.com/instance-gpu-memory",
)
_PARTITION = "cloud.google.com/gke-gpu-partition-size"
_HAMI_TYPES = "nvidia.com/use-gputype"
_NEARLY = 0.9
"""A driver keeps some of a card for itself: of 80 GiB asked for, 79.1 are the card's."""
_ACCELERATOR = "hardware.accelerator"
_MEMORY = "hardware.device_memory_bytes"
_NO_TYPE = Unseen(
    "spec.nodeSelector",
    "nothing says which card the pod gets",
    "add a nodeSelector nvidia.com/gpu.product, or the annotation vramgate.dev/accelerator",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is said of a card: names of which one holds, a MIG profile, its memory."""

    names: tuple[str, ...] = ()
    source: str = ""
    profile: str = ""
    profile_source: str = ""
    memory_bytes: int | None = None
    more_than_bytes: int | None = None
    memory_source: str = ""
    is_understood: bool = True


def say_card(wanted: Wanted, context: Context) -> None:
    """Say the accelerator and, where it was told, its memory; of several, the one with the least."""
    draft = context.draft
    if wanted.memory_bytes is not None:
        draft.say(_MEMORY, Found(wanted.memory_bytes, wanted.memory_source))
    source = " and ".join(
        dict.fromkeys(one for one in (wanted.source, wanted.profile_source) if one)
    )
    names = _written(wanted)
    if not names:
        _say_without_name(wanted, context)
        return
    cards = [card for name in names for card in _cards(name, wanted)]
    enough = [one for one in cards if _may_be(one, wanted)] or cards
    is_clear = len(names) == 1 and len(enough) == len(cards) == 1 and _resolves(names[0])
    if is_clear or not enough:
        # A name that is not in the catalog may be of a site's own.
        draft.say(_ACCELERATOR, Found(names[0], source))
    else:
        _assume_least(enough, source, context)


def wanted_card(
    pod: Pod, facts: Sequence[DeviceFacts], claim: str, mig: str, mig_source: str
) -> Wanted:
    """Return what a pod demands of its card: a claim's facts, else labels; slices of either."""
    profiles = [one.profile for one in facts if one.profile]
    partition = demand(pod, _PARTITION)
    if profiles:
        mig, mig_source = f"mig-{profiles[0]}", claim
    elif not mig and partition is not None and partition.values:
        mig, mig_source = f"mig-{partition.values[0]}", partition.source
    claimed = tuple(name for one in facts for name in one.products)
    named = None if claimed else _named(pod)
    exact, bound, memory_source = _memory(pod, facts, claim)
    return Wanted(
        names=claimed or (named.values if named else ()),
        source=claim if claimed else named.source if named else "",
        profile=mig,
        profile_source=mig_source,
        memory_bytes=exact,
        more_than_bytes=bound,
        memory_source=memory_source,
        is_understood=all(one.is_understood for one in facts),
    )


def _named(pod: Pod) -> Demand | None:
    """Return the names that labels allow: the driver's, a cloud's, HAMi's list, the machine's."""
    found = demand(pod, *_PRODUCTS)
    if found is not None and any(found.values):
        return found
    types = pod.annotation(_HAMI_TYPES)
    if types is not None:
        names = tuple(one.strip() for one in types.text().split(",") if one.strip())
        if names:
            return Demand(source=f"annotation {_HAMI_TYPES}", values=names)
    machine = demand(pod, *_MACHINES)
    known = tuple(one for one in machine.values if _resolves(one)) if machine else ()
    return Demand(source=machine.source, values=known) if machine and known else None


def _memory(
    pod: Pod, facts: Sequence[DeviceFacts], claim: str
) -> tuple[int | None, int | None, str]:
    """Return the memory in bytes, or what it must exceed, and the place."""
    bounds = [one.more_than_bytes for one in facts if one.more_than_bytes]
    if bounds:
        return None, max(bounds), claim
    label = demand(pod, *_MEMORIES)
    if label is None:
        return None, None, ""
    if label.more_than is not None:
        return None, label.more_than * MIB, label.source
    sizes = [int(one) for one in label.values if one.isascii() and one.isdecimal() and int(one)]
    return (min(sizes) * MIB if sizes else None), None, label.source


def _written(wanted: Wanted) -> tuple[str, ...]:
    """Return the names with the slice's profile behind them, as the driver writes them."""
    if not wanted.profile:
        return wanted.names
    profile = wanted.profile.removesuffix(".shared")
    return tuple(
        name if "mig" in name.lower() else f"{name}-{profile}" for name in wanted.names
    ) or (profile,)


def _cards(name: str, wanted: Wanted) -> tuple[Accelerator, ...]:
    """Return the cards that a name may mean, one of each size; none where the catalog has no such name."""
    catalog = builtin_accelerators()
    try:
        found = catalog.resolve(name, wanted.memory_bytes)
    except UnknownNameError as error:
        candidates = error.data.get("candidates", ())
        return tuple(card for one in candidates if (card := catalog.get(one)) is not None)
    return (found.entry, *found.rivals)


def _resolves(name: str) -> bool:
    try:
        builtin_accelerators().resolve(name)
    except UnknownNameError:
        return False
    return True


def _may_be(card: Accelerator, wanted: Wanted) -> bool:
    return wanted.more_than_bytes is None or card.usable_bytes >= wanted.more_than_bytes * _NEARLY


def _assume_least(cards: Sequence[Accelerator], source: str, context: Context) -> None:
    """Take the card with the least memory, and warn where the others have more."""
    least = min(cards, key=lambda card: card.usable_bytes)
    others = dict.fromkeys(card.name for card in cards if card.usable_bytes > least.usable_bytes)
    context.draft.assume(_ACCELERATOR, least.name, f"{source}: the card with the least memory")
    if others:
        context.draft.warn(
            "several_accelerators",
            f"{source} allows {least.name} and {', '.join(others)}: the one with the least memory was"
            " taken.",
        )


def _say_without_name(wanted: Wanted, context: Context) -> None:
    """Say the least memory that is demanded, and that the card is not known."""
    if wanted.more_than_bytes is not None and wanted.memory_bytes is None:
        source = f"{wanted.memory_source}: the least that it allows"
        context.draft.assume(_MEMORY, wanted.more_than_bytes, source)
        context.draft.warn(
            "least_memory",
            f"{wanted.memory_source} allows any card of more than"
            f" {format_gib(wanted.more_than_bytes)}: that much was taken.",
        )
    if not wanted.is_understood:
        reason = "the claim's expression is not understood"
        hint = "add the annotation vramgate.dev/accelerator"
        context.draft.unknown(_ACCELERATOR, Unseen("resources.claims", reason, hint))
        return
    context.draft.unknown(_ACCELERATOR, _NO_TYPE)
