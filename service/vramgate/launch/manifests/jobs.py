"""Pods, and the kinds that start copies of one: Job, CronJob, Deployment, JobSet, Volcano's Job."""

from collections.abc import Sequence

from vramgate.launch.manifests.node import MAX_COUNT, Node
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Group, Workload, pod_of
from vramgate.launch.reading import Found, Misread, Reading
from vramgate.launch.words import Word

_INDEX = "JOB_COMPLETION_INDEX"
_VOLCANO_MASTER = "master"
_VOLCANO_ROLES = frozenset({_VOLCANO_MASTER, "worker"})


def pod(node: Node, _: Objects) -> Workload:
    """Return what a Pod starts."""
    group = Group(pod=pod_of(node))
    return Workload(groups=(group,), trains=group)


def job(node: Node, _: Objects) -> Workload:
    """Return what a Job of batch/v1 starts."""
    return _of_job(node, node.at("spec"))


def cron_job(node: Node, _: Objects) -> Workload:
    """Return what one run of a CronJob starts."""
    return _of_job(node, node.at("spec", "jobTemplate", "spec"), node.at("spec", "jobTemplate"))


def deployment(node: Node, _: Objects) -> Workload:
    """Return what a Deployment or a StatefulSet starts."""
    spec = node.at("spec")
    group = Group(pod=pod_of(spec.at("template")), count=spec.at("replicas").whole())
    return Workload(groups=(group,), trains=group, metadata=(node.at("metadata"),))


def job_set(node: Node, _: Objects) -> Workload:
    """Return what a JobSet starts. Source: jobset ``api/jobset/v1alpha2/jobset_types.go``."""
    groups = tuple(job_group(one) for one in node.at("spec", "replicatedJobs").entries())
    return Workload(
        groups=groups,
        trains=first_with_devices(groups),
        metadata=(node.at("metadata"),),
        variables=_indexed(),
    )


def leader_worker_set(node: Node, _: Objects) -> Workload:
    """Return what one group of a LeaderWorkerSet starts: its groups work apart from each other.

    Source: lws ``api/leaderworkerset/v1``: the leader counts in ``size``, and takes the workers'
    template where it has none of its own.
    """
    template = node.at("spec", "leaderWorkerTemplate")
    size = template.at("size").whole(least=1)
    workers = Group(pod=pod_of(template.at("workerTemplate")), count=size, role="worker")
    groups: tuple[Group, ...] = (workers,)
    if template.at("leaderTemplate").is_said:
        leader = Group(pod=pod_of(template.at("leaderTemplate")), role="leader")
        rest = Found(size.value - 1, size.source) if isinstance(size, Found) else size
        groups = (leader, Group(pod=workers.pod, count=rest or Found(0, size_place(template))))
    variables = {"LWS_WORKER_INDEX": Word(text="0", source="env LWS_WORKER_INDEX")}
    if isinstance(size, Found):
        variables["LWS_GROUP_SIZE"] = Word(text=str(size.value), source=size.source)
    return Workload(
        groups=groups,
        trains=groups[0],
        metadata=(node.at("metadata"),),
        variables=variables,
    )


def size_place(template: Node) -> str:
    """Return the path of a group's size, which is 1 where nobody says it."""
    return template.below("size")


def volcano_job(node: Node, _: Objects) -> Workload:
    """Return what a Job of Volcano's starts; its plugin ``pytorch`` says the world to every pod.

    Source: volcano ``pkg/controllers/job/plugins/distributed-framework/pytorch/pytorch.go``.
    """
    groups = tuple(
        Group(
            pod=pod_of(task.at("template")),
            count=task.at("replicas").whole(),
            role=task.at("name").text(),
        )
        for task in node.at("spec", "tasks").entries()
    )
    is_distributed = "pytorch" in node.at("spec", "plugins").fields()
    master = next(
        (one for one in groups if one.role == _VOLCANO_MASTER and _has_devices(one)), None
    )
    return Workload(
        groups=groups,
        trains=master or first_with_devices(groups),
        metadata=(node.at("metadata"),),
        variables=_of_plugin(groups) if is_distributed else {},
    )


def _of_plugin(groups: Sequence[Group]) -> dict[str, Word]:
    """Return what the plugin ``pytorch`` puts into the environment, as the first pod sees it."""
    roles = [group for group in groups if group.role in _VOLCANO_ROLES]
    world = sum(one.count.value if isinstance(one.count, Found) else 1 for one in roles)
    source = "env {} (of Volcano's pytorch plugin)"
    said = {"WORLD_SIZE": str(world), "RANK": "0", "MASTER_PORT": "23456"}
    return {name: Word(text=text, source=source.format(name)) for name, text in said.items()}


def job_group(replicated: Node) -> Group:
    """Return the pods of one of a JobSet's jobs."""
    template = replicated.at("template")
    pods = pods_at_once(template.at("spec"))
    replicas = replicated.at("replicas").whole()
    return Group(
        pod=pod_of(template.at("spec", "template")),
        count=times(replicas, pods),
        role=replicated.at("name").text(),
    )


def pods_at_once(spec: Node) -> Reading[int]:
    """Return how many pods of a Job run together: as many as its parallelism, never more than complete."""
    parallel = spec.at("parallelism").whole()
    complete = spec.at("completions").whole()
    if isinstance(parallel, Found) and isinstance(complete, Found):
        return complete if complete.value < parallel.value else parallel
    return parallel


def times(first: Reading[int], second: Reading[int]) -> Reading[int]:
    """Return the product of two counts; what nobody says is 1."""
    for one in (first, second):
        if one is not None and not isinstance(one, Found):
            return one
    if not isinstance(first, Found) or not isinstance(second, Found):
        return first or second
    product, source = first.value * second.value, f"{first.source} × {second.source}"
    if product > MAX_COUNT:
        return Misread(source, product, f"a whole number up to {MAX_COUNT}")
    return Found(product, source)


def first_with_devices(groups: Sequence[Group]) -> Group | None:
    """Return the first group whose pods ask for devices, else the first."""
    return next((one for one in groups if _has_devices(one)), groups[0] if groups else None)


def _has_devices(group: Group) -> bool:
    return any(container.ask for container in group.pod.containers)


def _of_job(node: Node, spec: Node, *templates: Node) -> Workload:
    group = Group(pod=pod_of(spec.at("template")), count=pods_at_once(spec))
    is_indexed = spec.at("completionMode").value == "Indexed"
    return Workload(
        groups=(group,),
        trains=group,
        metadata=(*(one.at("metadata") for one in templates), node.at("metadata")),
        variables=_indexed() if is_indexed else {},
    )


def _indexed() -> dict[str, Word]:
    return {_INDEX: Word(text="0", source=f"env {_INDEX} (of the first pod)")}
