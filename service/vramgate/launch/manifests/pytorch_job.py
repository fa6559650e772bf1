"""PyTorchJob of kubeflow.org/v1.

Source: kubeflow/training-operator release-1.9 ``pkg/apis/kubeflow.org/v1/pytorch_defaults.go``,
``pkg/controller.v1/pytorch/{envvar,elastic,master}.go``, ``pkg/webhooks/pytorch``.
"""

from collections.abc import Mapping

from vramgate.launch.draft import Problem
from vramgate.launch.manifests.jobs import first_with_devices
from vramgate.launch.manifests.node import Node
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Group, Workload, pod_of
from vramgate.launch.reading import Found, Misread, Reading
from vramgate.launch.words import Word

_MASTER, _WORKER = "Master", "Worker"
_CONTAINER = "pytorch"
_DEFAULT_PROCESSES = "auto"
_PORT = "23456"
_NOT_NUMBERS = frozenset({"auto", "gpu", "cpu"})


def pytorch_job(node: Node, _: Objects) -> Workload:
    """Return what a PyTorchJob starts, and the variables its operator sets."""
    replicas = _replica_specs(node)
    groups = {
        role: Group(
            pod=pod_of(spec.at("template")),
            count=spec.at("replicas").whole(least=1),
            role=role,
        )
        for role, spec in replicas.items()
    }
    _check(node, groups)
    return Workload(
        groups=tuple(groups.values()),
        trains=first_with_devices(tuple(groups.values())),
        metadata=(node.at("metadata"),),
        variables=_variables(node, groups),
        processes=_processes(node),
        container=_CONTAINER,
    )


def _replica_specs(node: Node) -> dict[str, Node]:
    """Return the replica specs by role, Master first; the operator takes the roles in any case."""
    said = {
        name.capitalize(): spec
        for name, spec in node.at("spec", "pytorchReplicaSpecs").fields().items()
    }
    return {role: said[role] for role in (_MASTER, _WORKER) if role in said}


def _processes(node: Node) -> Reading[int]:
    """Return the processes per pod where they are a number; ``auto`` and the like are the devices."""
    said = node.at("spec", "nprocPerNode")
    if not said.is_said:
        return node.at("spec", "elasticPolicy", "nProcPerNode").whole(least=1)
    text = said.text()
    if text.isdecimal() and text.isascii() and int(text) > 0:
        return Node(int(text), said.path, said.draft).whole(least=1)
    if text not in _NOT_NUMBERS:
        misread = Misread(said.path, said.value, 'a number in quotes, "auto", "gpu" or "cpu"')
        node.draft.misread("hardware.devices_per_node", misread)
    return None


def _variables(node: Node, groups: Mapping[str, Group]) -> dict[str, Word]:
    """Return what the operator puts into the environment of every container, as the first pod sees it."""
    pods = sum(_count(group) for group in groups.values())
    processes = _processes(node)
    number = processes.value if isinstance(processes, Found) else 1
    said = {"PET_NNODES": str(pods), "PET_NPROC_PER_NODE": _said_processes(node)}
    if _MASTER in groups:
        address = f"{node.at('metadata', 'name').text()}-master-0"
        said |= {
            "MASTER_ADDR": address,
            "PET_MASTER_ADDR": address,
            "MASTER_PORT": _PORT,
            "PET_MASTER_PORT": _PORT,
            "WORLD_SIZE": str(pods * number),
            "RANK": "0",
            "PET_NODE_RANK": "0",
        }
    if node.at("spec", "elasticPolicy").is_said:
        said["PET_NNODES"] = _elastic_nodes(node, groups)
    source = "env {} (of the PyTorchJob's operator)"
    return {name: Word(text=text, source=source.format(name)) for name, text in said.items()}


def _said_processes(node: Node) -> str:
    processes = _processes(node)
    if isinstance(processes, Found):
        return str(processes.value)
    text = node.at("spec", "nprocPerNode").text()
    return text if text in _NOT_NUMBERS else _DEFAULT_PROCESSES


def _elastic_nodes(node: Node, groups: Mapping[str, Group]) -> str:
    """Return ``min:max`` nodes; each stands for the other where only one is given, workers for both."""
    policy = node.at("spec", "elasticPolicy")
    least = policy.at("minReplicas").whole()
    most = policy.at("maxReplicas").whole()
    workers = _count(groups[_WORKER]) if _WORKER in groups else 1
    low = least if isinstance(least, Found) else most
    high = most if isinstance(most, Found) else least
    return (
        f"{low.value if isinstance(low, Found) else workers}:"
        f"{high.value if isinstance(high, Found) else workers}"
    )


def _count(group: Group) -> int:
    return group.count.value if isinstance(group.count, Found) else 1


def _check(node: Node, groups: Mapping[str, Group]) -> None:
    """Report what the operator's webhook refuses."""
    specs = node.at("spec", "pytorchReplicaSpecs")
    master = groups.get(_MASTER)
    if master is not None and _count(master) != 1:
        place = specs.below(f"{_MASTER}.replicas")
        _refuse(node, "pytorchjob_one_master", place, _count(master), "must be 1")
    policy = node.at("spec", "elasticPolicy")
    if policy.is_said and _WORKER not in groups:
        what = "needs a Worker among the replica specs"
        _refuse(node, "pytorchjob_elastic_without_worker", policy.path, "given", what)
    twice = policy.at("nProcPerNode")
    if twice.is_said and node.at("spec", "nprocPerNode").is_said:
        what = "must not stand beside spec.nprocPerNode"
        _refuse(node, "pytorchjob_processes_twice", twice.path, twice.value, what)
    for role, group in groups.items():
        if not any(one.name == _CONTAINER for one in group.pod.containers):
            names = ", ".join(one.name for one in group.pod.containers) or "none"
            place = specs.below(f"{role}.template.spec.containers")
            _refuse(node, "pytorchjob_container_name", place, names, "must have one named pytorch")
    if not groups:
        _refuse(node, "pytorchjob_without_replicas", specs.path, None, "must have Master or Worker")


def _refuse(node: Node, rule: str, place: str, value: object, must: str) -> None:
    node.draft.problem(
        Problem(
            rule=rule,
            detail=f"{place} {must}",
            fix="mend it: the training operator refuses the PyTorchJob",
            values={place: value},
        )
    )
