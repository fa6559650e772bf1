"""Kinds of objects that start training: their pods, how many, and whose command it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from vramgate.launch.documents import UnreadableLaunchError, unreadable
from vramgate.launch.draft import Draft
from vramgate.launch.manifests.jobs import (
    cron_job,
    deployment,
    job,
    job_set,
    leader_worker_set,
    pod,
    volcano_job,
)
from vramgate.launch.manifests.mpi_job import mpi_job
from vramgate.launch.manifests.node import Node
from vramgate.launch.manifests.objects import NAME, Objects, kind_of
from vramgate.launch.manifests.pods import Workload
from vramgate.launch.manifests.pytorch_job import pytorch_job
from vramgate.launch.manifests.ray import ray_cluster, ray_job
from vramgate.launch.manifests.train_job import train_job

Reader: TypeAlias = Callable[[Node, Objects], Workload]

_KINDS: Mapping[str, Reader] = {
    "PyTorchJob": pytorch_job,
    "TrainJob": train_job,
    "MPIJob": mpi_job,
    "JobSet": job_set,
    "RayJob": ray_job,
    "RayCluster": ray_cluster,
    "LeaderWorkerSet": leader_worker_set,
    "Job": job,
    "CronJob": cron_job,
    "Deployment": deployment,
    "StatefulSet": deployment,
    "Pod": pod,
}
_VOLCANO = "batch.volcano.sh/"
_SHOWN, _MOST = 60, 5
"""Characters of a name, and names, that a message bears."""


def training_object(objects: Objects) -> Workload:
    """Return what the object of a manifest starts that trains.

    Of several that start pods, the one that asks for devices is meant.

    Raises:
        UnreadableLaunchError: there is none, or more than one.
    """
    found = [(one, read) for one in objects.all if (read := _reader(one)) is not None]
    if len(found) > 1:
        # On drafts of their own: what is wrong with the others is nobody's business.
        asking = [
            (one, read)
            for one, read in found
            if _asks_for_devices(read(replace(one, draft=Draft()), objects))
        ]
        found = asking or found
    if len(found) != 1:
        raise _none_or_several(objects, [one for one, _ in found])
    one, read = found[0]
    return read(one, objects)


def _none_or_several(objects: Objects, found: Sequence[Node]) -> UnreadableLaunchError:
    if not found:
        kinds = sorted({kind_of(one) or "no kind" for one in objects.all})
        what = f"it holds nothing that starts a training run, only {_shown(kinds)}"
        known = ", ".join(_KINDS)
        return unreadable(NAME, what, hint=f"Kinds that are read: {known}, and Volcano's Job.")
    names = [f"{kind_of(one)} {one.at('metadata', 'name').text()}" for one in found]
    what = f"it holds {len(found)} objects that may each train: {_shown(names)}"
    return unreadable(NAME, what, hint="Send one of them, with the ConfigMaps it uses.")


def _reader(node: Node) -> Reader | None:
    kind = kind_of(node)
    version = node.value.get("apiVersion")
    if kind == "Job" and isinstance(version, str) and version.startswith(_VOLCANO):
        return volcano_job
    return _KINDS.get(kind)


def _asks_for_devices(workload: Workload) -> bool:
    return any(container.ask for group in workload.groups for container in group.pod.containers)


def _shown(names: Sequence[str]) -> str:
    text = ", ".join(name[:_SHOWN] for name in names[:_MOST])
    return f"{text}, …" if len(names) > _MOST else text
