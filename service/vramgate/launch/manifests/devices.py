"""The devices of a workload: how many in all and in a pod, which card, and what part of it."""

from dataclasses import dataclass, replace

from vramgate.catalog.accelerators import builtin_accelerators
from vramgate.errors import UnknownNameError
from vramgate.launch.draft import Problem
from vramgate.launch.launch import Context
from vramgate.launch.manifests.cel import DeviceFacts
from vramgate.launch.manifests.device_claims import Claimed, claimed_devices
from vramgate.launch.manifests.gpu_asks import DeviceAsk, check_asks
from vramgate.launch.manifests.gpu_types import say_card, wanted_card
from vramgate.launch.manifests.mpi_job import DEFAULT_SLOTS
from vramgate.launch.manifests.node import MAX_COUNT
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Container, Group, Pod, Workload, training_container
from vramgate.launch.manifests.sharing import Share, share_of, sharing_place
from vramgate.launch.reading import Found, Misread, Reading, Unseen

_DEVICES, _PER_NODE = "hardware.devices", "hardware.devices_per_node"
_ACCELERATOR, _MEMORY = "hardware.accelerator", "hardware.device_memory_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """What the training container of one pod gets."""

    container: Container
    count: Reading[int]
    """None: no devices at all."""
    ask: DeviceAsk | None = None
    share: Share | None = None
    facts: tuple[DeviceFacts, ...] = ()
    claim: str = ""
    memory_bytes: int | None = None
    shared_by: str = ""
    """Where it is said that the card is time-sliced or shared by MPS."""


def say_devices(workload: Workload, objects: Objects, context: Context) -> None:
    """Say devices, devices of a node and the card, from what the pods ask for."""
    groups = [
        (group, found)
        for group in workload.groups
        if (found := _of_pod(group.pod, workload, objects))
    ]
    for _, found in groups:
        check_asks(found.container.resources, context.draft)
    asking = [(group, found) for group, found in groups if found.count is not None]
    if not asking:
        if workload.unseen is not None:
            context.draft.unknown(_DEVICES, workload.unseen)
            context.draft.unknown(_ACCELERATOR, workload.unseen)
        return
    group, devices = next((one for one in asking if one[0] is workload.trains), asking[0])
    _say_counts(workload, asking, devices, context)
    _say_type(_with_flavor(group.pod, objects), devices, context)


def _with_flavor(pod: Pod, objects: Objects) -> Pod:
    """Return a pod with the labels of the nodes of Kueue's one ResourceFlavor, where it came along."""
    flavors = objects.of_kind("ResourceFlavor")
    if len(flavors) != 1:
        return pod
    name = flavors[0].at("metadata", "name").text()
    labels = replace(flavors[0].at("spec", "nodeLabels"), owner=f"ResourceFlavor {name}: ")
    return replace(pod, selectors=(labels, *pod.selectors))


def training_container_of(workload: Workload, objects: Objects) -> Container | None:
    """Return the container whose command is the training's."""
    if workload.trains is None:
        return None
    found = _of_pod(workload.trains.pod, workload, objects)
    return found.container if found is not None else None


def _of_pod(pod: Pod, workload: Workload, objects: Objects) -> PodDevices | None:
    asking = [one for one in pod.containers if _asks(one, pod)]
    container = training_container(pod.containers, asking, workload.container)
    return None if container is None else _of_container(container, pod, objects)


def _asks(container: Container, pod: Pod) -> bool:
    return bool(container.ask or container.resources.at("claims").value or share_of(container, pod))


def _of_container(container: Container, pod: Pod, objects: Objects) -> PodDevices:
    claimed = claimed_devices(container, pod, objects)
    ask, share = container.ask, share_of(container, pod)
    if isinstance(claimed, Claimed):
        return PodDevices(
            container=container,
            count=Found(claimed.count, claimed.source),
            facts=claimed.facts,
            claim=claimed.source,
            memory_bytes=claimed.memory_bytes,
            shared_by=claimed.source if claimed.is_shared else "",
        )
    count: Reading[int] = None
    if ask is not None:
        count = Found(ask.count, ask.source)
    elif share is not None:
        count = Found(share.devices or 1, share.source)
    elif isinstance(claimed, Unseen):
        return PodDevices(container=container, count=claimed)
    return PodDevices(container=container, count=count, ask=ask, share=share)


def _say_counts(
    workload: Workload,
    asking: list[tuple[Group, PodDevices]],
    trains: PodDevices,
    context: Context,
) -> None:
    draft = context.draft
    per_pod = _processes(workload, trains, context)
    if isinstance(per_pod, Found) and per_pod.source == DEFAULT_SLOTS:
        draft.assume(_PER_NODE, per_pod.value, per_pod.source)
    else:
        draft.say(_PER_NODE, per_pod)
    total = _total([(group, _processes(workload, found, context)) for group, found in asking])
    if workload.devices_decided_in_code and isinstance(total, Found):
        draft.assume(_DEVICES, total.value, f"{total.source}: all devices of the cluster")
        draft.warn(
            "devices_decided_in_code",
            "How many workers the run has is said in its program (ScalingConfig); all devices of its"
            " cluster were taken.",
        )
    elif isinstance(total, Found) and total.value < 1:
        draft.misread(_DEVICES, Misread(total.source, total.value, "at least one pod"))
    else:
        draft.say(_DEVICES, total)


def _processes(workload: Workload, devices: PodDevices, context: Context) -> Reading[int]:
    """Return the devices of a pod that its processes take, one each."""
    processes, count = workload.processes, devices.count
    if not isinstance(processes, Found) or not isinstance(count, Found):
        return count
    if processes.value > count.value:
        context.draft.problem(
            Problem(
                rule="more_processes_than_devices",
                detail=f"{processes.value} processes ({processes.source}) would share"
                f" {count.value} devices ({count.source})",
                fix="ask for a device a process",
                values={processes.source: processes.value, count.source: count.value},
                field=_PER_NODE,
            )
        )
        return count
    return processes


def _total(asking: list[tuple[Group, Reading[int]]]) -> Reading[int]:
    """Return the devices of all pods; pods that nobody counts are one."""
    total, sources = 0, dict[str, None]()
    for group, per_pod in asking:
        if not isinstance(per_pod, Found):
            return per_pod
        if group.count is not None and not isinstance(group.count, Found):
            return group.count if isinstance(group.count, Unseen) else None
        pods = group.count
        total += per_pod.value * (pods.value if pods else 1)
        sources[f"{pods.source} × {per_pod.source}" if pods else per_pod.source] = None
    source = " + ".join(sources)
    if total > MAX_COUNT:
        return Misread(source, total, f"a whole number up to {MAX_COUNT}")
    return Found(total, source)


def _say_type(pod: Pod, devices: PodDevices, context: Context) -> None:
    if isinstance(devices.count, Unseen):
        context.draft.unknown(_ACCELERATOR, devices.count)
        return
    ask = devices.ask
    mig, mig_source = (ask.mig_profile, ask.source) if ask and ask.mig_profile else ("", "")
    wanted = wanted_card(pod, devices.facts, devices.claim, mig, mig_source)
    say_card(wanted, context)
    _say_share(devices, context)
    place = devices.shared_by or sharing_place(ask, pod)
    if place and devices.share is None:
        context.draft.warn(
            "shared_device",
            f"{place}: the card is shared without isolation of memory; nobody guarantees it to one"
            " job. Give hardware.occupied_bytes.",
        )


def _say_share(devices: PodDevices, context: Context) -> None:
    """Say the part of a card that a container gets as the memory it has."""
    share = devices.share
    if devices.memory_bytes is not None:
        context.draft.say(_MEMORY, Found(devices.memory_bytes, devices.claim))
    if share is None:
        return
    context.draft.say(_MEMORY, _shared_memory(share, context))
    if not share.is_enforced:
        context.draft.warn(
            "share_not_enforced",
            f"{share.source}: the scheduler counts the share of the card and nothing enforces it; a"
            " job that takes more takes it from its neighbours.",
        )


def _shared_memory(share: Share, context: Context) -> Reading[int]:
    if share.memory_bytes is not None:
        return Found(share.memory_bytes, share.source)
    whole = _card_memory(context)
    if share.fraction is None or whole is None:
        return Unseen(
            share.source,
            "it is a part of a card that is not known",
            "add the annotation vramgate.dev/device-memory-bytes",
        )
    return Found(int(whole * share.fraction), share.source)


def _card_memory(context: Context) -> int | None:
    memory = context.draft.said(_MEMORY)
    if memory is not None:
        return int(memory.value)
    card = context.draft.said(_ACCELERATOR)
    if card is None:
        return None
    try:
        return builtin_accelerators().resolve(str(card.value)).entry.usable_bytes
    except UnknownNameError:
        return None
