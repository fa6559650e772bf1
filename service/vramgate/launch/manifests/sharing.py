"""Parts of a card: caps that a scheduler enforces, shares that it only counts, cards time-sliced.

Sources: Project-HAMi/HAMi ``charts/hami/values.yaml``, ``pkg/device/nvidia/device.go``;
NVIDIA/KAI-Scheduler ``docs/gpu-sharing``, ``pkg/common/constants``; volcano
``docs/user-guide/how_to_use_volcano_vgpu.md``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from vramgate.launch.manifests.gpu_asks import DeviceAsk
from vramgate.launch.manifests.labels import demand
from vramgate.launch.manifests.node import MAX_COUNT, Node
from vramgate.launch.manifests.pods import Container, Pod
from vramgate.launch.manifests.quantity import quantity
from vramgate.units import MIB

_CAPS = ("nvidia.com/gpumem", "volcano.sh/vgpu-memory", "volcano.sh/gpu-memory")
"""MiB of each device, enforced in the process."""
_PERCENTAGES = ("nvidia.com/gpumem-percentage", "volcano.sh/vgpu-memory-percentage")
_PERCENT = 100
_SHARING_LABELS = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")
_CLIENT_LABELS = ("nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What of a card a container gets."""

    source: str
    memory_bytes: int | None = None
    fraction: Fraction | None = None
    is_enforced: bool = True
    devices: int | None = None
    """Where the share itself says how many devices it is of."""


def share_of(container: Container, pod: Pod) -> Share | None:
    """Return the share of each card that a container gets, None where it gets whole ones."""
    limits = (
        container.resources.at("limits").fields() or container.resources.at("requests").fields()
    )
    return _cap(limits) or _counted_share(container, pod)


def _cap(limits: Mapping[str, Node]) -> Share | None:
    for name in _CAPS:
        amount = quantity(limits[name].value) if name in limits else None
        if amount is not None and amount >= 1:
            devices = 1 if name == "volcano.sh/gpu-memory" else None
            source = f"limits {name}"
            return Share(source=source, memory_bytes=int(amount) * MIB, devices=devices)
    for name in _PERCENTAGES:
        amount = quantity(limits[name].value) if name in limits else None
        if amount is not None and 0 < amount < _PERCENT:
            return Share(source=f"limits {name}", fraction=amount / _PERCENT)
    return None


def _counted_share(container: Container, pod: Pod) -> Share | None:
    """Return the share that KAI or Run:ai counts for a pod's first, or named, container."""
    named = pod.annotation("gpu-fraction-container-name")
    gets_it = named.text() if named else pod.containers[0].name if pod.containers else ""
    if container.name != gets_it:
        return None
    number = pod.annotation("gpu-fraction-num-devices")
    devices = quantity(number.value) if number else None
    count = int(devices) if devices is not None and 1 <= devices <= MAX_COUNT else 1
    memory, fraction = pod.annotation("gpu-memory"), pod.annotation("gpu-fraction")
    amount = quantity(memory.value) if memory else None
    if amount is not None and amount >= 1:
        return Share(
            source="annotation gpu-memory",
            memory_bytes=int(amount) * MIB,
            is_enforced=False,
            devices=count,
        )
    part = quantity(fraction.value) if fraction else None
    if part is not None and 0 < part < 1:
        return Share(
            source="annotation gpu-fraction", fraction=part, is_enforced=False, devices=count
        )
    return None


def sharing_place(ask: DeviceAsk | None, pod: Pod) -> str | None:
    """Return where it is said that a card is time-sliced or shared by MPS, None where it is not."""
    if ask is not None and ask.is_shared:
        return ask.source
    strategy = demand(pod, *_SHARING_LABELS)
    if strategy is not None and set(strategy.values) - {"none", ""}:
        return strategy.source
    clients = demand(pod, *_CLIENT_LABELS)
    if clients is not None and any(one.isdecimal() and int(one) > 1 for one in clients.values):
        return clients.source
    return None
