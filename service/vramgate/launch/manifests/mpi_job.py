"""MPIJob of kubeflow.org: the launcher's command runs in the workers.

Source: kubeflow/training-operator release-1.9 ``pkg/apis/kubeflow.org/v1/mpi_types.go``.
"""

from vramgate.launch.manifests.node import Node
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Group, Workload, pod_of
from vramgate.launch.reading import Found

_LAUNCHER, _WORKER = "Launcher", "Worker"
DEFAULT_SLOTS = "the MPI operator's default (slotsPerWorker)"


def mpi_job(node: Node, _: Objects) -> Workload:
    """Return what an MPIJob starts: as many processes a worker as it has slots."""
    said = {
        name.capitalize(): spec
        for name, spec in node.at("spec", "mpiReplicaSpecs").fields().items()
    }
    groups = {
        role: Group(
            pod=pod_of(said[role].at("template")),
            count=said[role].at("replicas").whole(),
            role=role,
        )
        for role in (_LAUNCHER, _WORKER)
        if role in said
    }
    slots = node.at("spec", "slotsPerWorker").whole(least=1)
    return Workload(
        groups=tuple(groups.values()),
        trains=groups.get(_LAUNCHER) or groups.get(_WORKER),
        metadata=(node.at("metadata"),),
        processes=slots or Found(1, DEFAULT_SLOTS),
        container=node.at("spec", "mainContainer").text(),
    )
