"""Devices claimed by dynamic resource allocation: how many, and what they must be.

Source: kubernetes ``resource.k8s.io/v1`` and ``v1beta1``; kubernetes-sigs/dra-driver-nvidia-gpu
``demo/specs``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vramgate.launch.manifests.cel import DeviceFacts, device_facts
from vramgate.launch.manifests.node import Node, named
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Container, Pod
from vramgate.launch.manifests.quantity import quantity
from vramgate.launch.reading import Found, Unseen

_CLASSES = frozenset({"gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com", "gpu.intel.com"})
"""Classes of devices whose drivers come with them."""
_MOST = 64
"""Claims of a container, and requests of a claim: Kubernetes allows 32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What one container gets by claims."""

    count: int
    source: str
    facts: tuple[DeviceFacts, ...]
    memory_bytes: int | None
    """The share of each device, where the claim takes no whole one."""
    is_shared: bool
    """Its configuration slices the device's time, or starts MPS on it."""


def claimed_devices(container: Container, pod: Pod, objects: Objects) -> Claimed | Unseen | None:
    """Return the devices that a container claims, None where it claims none."""
    wanted = [
        (name, node.at("request").text())
        for name, node in named(container.resources.at("claims").entries()[:_MOST])
    ]
    if not wanted:
        return None
    claims = dict(named(pod.claims.entries()))
    requests: list[Node] = []
    is_shared = False
    for name, request in wanted:
        spec = _claim_spec(claims.get(name), objects)
        if spec is None:
            return Unseen(
                f"resources.claims {name}",
                f"the ResourceClaim or its template that {name} names is not in the manifest",
                "send it in the same text",
            )
        every = spec.at("devices", "requests").entries()[:_MOST]
        requests += [one for one in every if not request or one.at("name").value == request]
        is_shared = is_shared or _is_shared(spec)
    return _claimed([_exactly(one) for one in requests], wanted[0][0], objects, is_shared=is_shared)


def _is_shared(spec: Node) -> bool:
    configs = spec.at("devices", "config").entries()
    return any(one.at("opaque", "parameters", "sharing").is_said for one in configs)


def _claim_spec(claim: Node | None, objects: Objects) -> Node | None:
    if claim is None:
        return None
    # Before v1beta1 the names stood under ``source``.
    places = (claim, claim.at("source"))
    for place in places:
        template = place.at("resourceClaimTemplateName").text()
        found = objects.find("ResourceClaimTemplate", template) if template else None
        if found is not None:
            return found.at("spec", "spec")
        name = place.at("resourceClaimName").text()
        found = objects.find("ResourceClaim", name) if name else None
        if found is not None:
            return found.at("spec")
    return None


def _exactly(request: Node) -> Node:
    """Return what a request asks for; of a list in order of preference, the first."""
    if request.at("exactly").is_said:
        return request.at("exactly")
    first = request.at("firstAvailable").entries()
    return first[0] if first else request


def _claimed(
    requests: list[Node], name: str, objects: Objects, *, is_shared: bool
) -> Claimed | Unseen | None:
    source = f"resources.claims {name}"
    count, facts, memory = 0, list[DeviceFacts](), list[int]()
    for request in requests:
        if not _is_of_gpus(request, objects):
            continue
        if request.at("allocationMode").value == "All":
            return Unseen(source, "the claim takes all devices of a node", "give devices-per-node")
        number = request.at("count").whole(least=1)
        count += number.value if isinstance(number, Found) else 1
        facts += _facts(request, objects)
        share = quantity(request.at("capacity", "requests", "memory").value)
        memory += [int(share)] if share is not None and share >= 1 else []
    if not count:
        return None
    return Claimed(
        count=count,
        source=source,
        facts=tuple(facts),
        memory_bytes=min(memory) if memory else None,
        is_shared=is_shared,
    )


def _is_of_gpus(request: Node, objects: Objects) -> bool:
    name = request.at("deviceClassName").text()
    return name in _CLASSES or name.endswith(tuple(_CLASSES)) or bool(_of_class(name, objects))


def _of_class(name: str, objects: Objects) -> list[DeviceFacts]:
    device_class = objects.find("DeviceClass", name) if name else None
    if device_class is None:
        return []
    return list(_selectors(device_class.at("spec")))


def _facts(request: Node, objects: Objects) -> list[DeviceFacts]:
    return [*_of_class(request.at("deviceClassName").text(), objects), *_selectors(request)]


def _selectors(node: Node) -> Iterator[DeviceFacts]:
    for selector in node.at("selectors").entries():
        expression = selector.at("cel", "expression").text()
        if expression:
            yield device_facts(expression)
