"""What a pod demands of its node: labels by ``nodeSelector`` and required ``nodeAffinity``."""

from collections.abc import Iterator
from dataclasses import dataclass

from vramgate.launch.manifests.node import Node
from vramgate.launch.manifests.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The values that a label of the node may have."""

    source: str
    """``nodeSelector nvidia.com/gpu.product``."""
    values: tuple[str, ...] = ()
    more_than: int | None = None
    """For the operator ``Gt``."""


def demanded_labels(pod: Pod) -> dict[str, str]:
    """Return the labels that a pod's nodes must have, by ``nodeSelector``."""
    return {
        key: value.text()
        for selector in pod.selectors
        for key, value in selector.fields().items()
        if value.is_said
    }


def demand(pod: Pod, *keys: str) -> Demand | None:
    """Return what a pod demands of the first of these labels that it speaks of.

    ``nodeSelector`` and affinity hold together: where both speak, the selector's one value counts.
    """
    for key in keys:
        for selector in reversed(pod.selectors):
            value = selector.at(key)
            if value.is_said:
                place = selector.path.rpartition(".")[2]
                return Demand(source=f"{selector.owner}{place} {key}", values=(value.text(),))
        for affinity in reversed(pod.affinities):
            found = _of_affinity(affinity, key)
            if found is not None:
                return found
    return None


def _of_affinity(affinity: Node, key: str) -> Demand | None:
    """Return what required terms, of which one must hold, say of a label; None where one says nothing."""
    required = affinity.at("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    values: dict[str, None] = {}
    bounds: list[int] = []
    for term in required.at("nodeSelectorTerms").entries():
        said = list(_expressions(term, key))
        if not said:
            return None
        for operator, given in said:
            if operator == "In":
                values |= dict.fromkeys(given)
            elif given and given[0].lstrip("-").isdecimal():
                bounds.append(int(given[0]))
    if not values and not bounds:
        return None
    return Demand(
        source=f"nodeAffinity {key}",
        values=tuple(values),
        more_than=min(bounds) if bounds and not values else None,
    )


def _expressions(term: Node, key: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the expressions of a term that name what a label may be; the others tell nothing of use."""
    for one in term.at("matchExpressions").entries():
        operator = one.at("operator").text()
        if one.at("key").text() == key and operator in {"In", "Gt"}:
            yield operator, tuple(value.text() for value in one.at("values").entries())
