"""RayJob and RayCluster of ray.io/v1: an entrypoint on the head, workers in groups.

Source: ray-project/kuberay ``ray-operator/apis/ray/v1/{rayjob,raycluster}_types.go``.
"""

from collections.abc import Mapping
from typing import Any

from vramgate.launch.documents import read_yaml
from vramgate.launch.manifests.jobs import times
from vramgate.launch.manifests.node import Node
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Group, Workload, pod_of
from vramgate.launch.reading import Found, Reading
from vramgate.launch.words import Word

_RUNTIME_ENV = "spec.runtimeEnvYAML"


def ray_job(node: Node, _: Objects) -> Workload:
    """Return what a RayJob starts: its entrypoint on the head of a cluster of its own."""
    spec = node.at("spec")
    groups = _groups(spec.at("rayClusterSpec"))
    return Workload(
        groups=groups,
        trains=groups[0] if groups else None,
        metadata=(node.at("metadata"),),
        variables=_runtime_variables(spec.at("runtimeEnvYAML")),
        entrypoint=spec.at("entrypoint"),
        words=spec.at("metadata"),
        devices_decided_in_code=True,
    )


def ray_cluster(node: Node, _: Objects) -> Workload:
    """Return what a RayCluster starts: pods that wait for a job whose entrypoint is elsewhere."""
    groups = _groups(node.at("spec"))
    return Workload(
        groups=groups,
        trains=groups[0] if groups else None,
        metadata=(node.at("metadata"),),
        entrypoint=node.at("entrypoint"),
        devices_decided_in_code=True,
    )


def _groups(cluster: Node) -> tuple[Group, ...]:
    """Return the head and the groups of workers; of those that scale by themselves, as many as may be."""
    if not cluster.is_said:
        return ()
    grows = cluster.at("enableInTreeAutoscaling").value is True
    head = cluster.at("headGroupSpec")
    workers = (
        Group(
            pod=pod_of(one.at("template")),
            count=_pods(one, grows="maxReplicas" if grows else "replicas"),
            role=one.at("groupName").text(),
        )
        for one in cluster.at("workerGroupSpecs").entries()
    )
    offers = Found(0, head.below("rayStartParams.num-gpus")) if _offers_none(head) else None
    return (Group(pod=pod_of(head.at("template")), count=offers, role="head"), *workers)


def _pods(group: Node, *, grows: str) -> Reading[int]:
    if _offers_none(group):
        return Found(0, group.below("rayStartParams.num-gpus"))
    replicas = group.at(grows).whole()
    if replicas is None:
        replicas = group.at("minReplicas").whole()
    hosts = group.at("numOfHosts").whole(least=1)
    return times(replicas, hosts)


def _offers_none(group: Node) -> bool:
    """Tell whether a group keeps its devices from Ray's scheduler."""
    return str(group.at("rayStartParams", "num-gpus").value).strip() == "0"


def _runtime_variables(said: Node) -> dict[str, Word]:
    """Return the variables of a job's runtime environment, which is YAML within YAML."""
    text = said.text()
    document: Any = read_yaml(text, _RUNTIME_ENV) if text else None
    if not isinstance(document, dict):
        return {}
    variables: Mapping[str, Node] = Node(document, _RUNTIME_ENV, said.draft).at("env_vars").fields()
    return {
        name: Word(text=value.text(), source=f"env {name} (of {_RUNTIME_ENV})")
        for name, value in variables.items()
    }
