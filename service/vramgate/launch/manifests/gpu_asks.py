"""How many devices a container asks for, and as what: whole cards, MIG slices, shares."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vramgate.launch.draft import Draft, Problem
from vramgate.launch.manifests.node import MAX_COUNT, Node
from vramgate.launch.manifests.quantity import quantity

NVIDIA_GPU = "nvidia.com/gpu"
_SHARED = ".shared"
_MIG = re.compile(r"nvidia\.com/(mig-[1-7]g\.\d{1,3}gb(?:\.[a-z.]{1,12}?)?)(?:\.shared)?")
_WHOLE = (
    NVIDIA_GPU,
    f"{NVIDIA_GPU}{_SHARED}",
    "amd.com/gpu",
    "volcano.sh/vgpu-number",
    "volcano.sh/gpu-number",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron",
)
"""Resources that count devices; NVIDIA's with and without the mark of time-slicing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAsk:
    """Devices that one container gets."""

    count: int
    source: str
    """``limits nvidia.com/gpu``."""
    mig_profile: str = ""
    """``mig-1g.10gb`` where they are slices."""
    is_shared: bool = False
    """Others may use the same card at the same time, each as if it were alone."""


def device_ask(resources: Node) -> DeviceAsk | None:
    """Return the devices that limits, else requests, of a container ask for."""
    limits = resources.at("limits").fields()
    requests = resources.at("requests").fields()
    asks = [*_asks(limits, "limits"), *_asks(requests, "requests")]
    positive = [one for one in asks if one.count > 0]
    return positive[0] if positive else None


def _asks(resources: dict[str, Node], place: str) -> Iterator[DeviceAsk]:
    for name, node in resources.items():
        mig = _MIG.fullmatch(name)
        if mig is None and name not in _WHOLE:
            continue
        count = _count(node)
        if count is not None:
            yield DeviceAsk(
                count=count,
                source=f"{node.owner}{place} {name}",
                mig_profile=mig[1] if mig else "",
                is_shared=name.endswith(_SHARED),
            )


def _count(node: Node) -> int | None:
    """Return a count of devices; anything but a whole number is reported where the rules are checked."""
    number = quantity(node.value)
    if number is None or number.denominator != 1 or not 0 <= number <= MAX_COUNT:
        return None
    return int(number)


def check_asks(resources: Node, draft: Draft) -> None:
    """Report what the API server refuses of a container's devices.

    Source: kubernetes ``pkg/apis/core/validation/validation.go``,
    ``validateResourceRequirements`` and ``ValidateResourceQuantityValue``: extended resources are
    whole numbers, and requests equal limits.
    """
    limits = resources.at("limits").fields()
    requests = resources.at("requests").fields()
    for place, asked in (("limits", limits), ("requests", requests)):
        for name, node in asked.items():
            if (name in _WHOLE or _MIG.fullmatch(name)) and node.is_said:
                _check_whole(name, node, place, draft)
    for name, node in requests.items():
        if name in _WHOLE or _MIG.fullmatch(name):
            _check_limit(name, node, limits.get(name), draft)


def _check_whole(name: str, node: Node, place: str, draft: Draft) -> None:
    if _count(node) is not None:
        return
    draft.problem(
        Problem(
            rule="device_count_not_whole",
            detail=f"{place} {name} is {str(node.value)[:40]!r}: devices are whole numbers from 0",
            fix="ask for whole devices; a share of one is asked for by other means (HAMi, KAI, MIG)",
            values={f"{place} {name}": node.value},
            field="hardware.devices",
        )
    )


def _check_limit(name: str, request: Node, limit: Node | None, draft: Draft) -> None:
    asked, most = quantity(request.value), quantity(limit.value if limit is not None else None)
    if asked is None or asked == most or (limit is not None and most is None):
        return
    what = "there is no limit" if limit is None else f"the limit is {str(limit.value)[:20]}"
    draft.problem(
        Problem(
            rule="device_request_is_not_limit",
            detail=f"requests {name} is {str(request.value)[:20]} and {what}: Kubernetes takes devices"
            " only where the limit is the same",
            fix=f"write limits {name} with the same number",
            values={f"requests {name}": request.value}
            | ({f"limits {name}": limit.value} if limit is not None else {}),
            field="hardware.devices",
        )
    )
