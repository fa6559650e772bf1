"""TrainJob of trainer.kubeflow.org/v1alpha1: a trainer, over the runtime that it names.

Source: kubeflow/trainer 8c0f5059 ``pkg/apis/trainer/v1alpha1/trainjob_types.go``,
``pkg/runtime/framework/plugins/torch/torch.go``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vramgate.launch.draft import Problem
from vramgate.launch.manifests.node import Node, named
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Container, Group, Pod, Workload, container_of, pod_of
from vramgate.launch.manifests.training_runtimes import (
    TORCHTUNE,
    PackagedRuntime,
    packaged_runtime,
    torchtune_words,
)
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.words import Word

_NODE = "node"
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_RESERVED = (
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
)
_PORT = "29400"
_NOT_NUMBERS = frozenset({"auto", "gpu", "cpu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runtime:
    """What the runtime of a TrainJob says, where it is known."""

    name: str
    is_known: bool
    is_torch: bool
    policy: Node
    """Its ``mlPolicy``."""
    pod: Pod
    container: Container
    model: Node


def train_job(node: Node, objects: Objects) -> Workload:
    """Return what a TrainJob starts."""
    runtime = _runtime(node, objects)
    trainer = node.at("spec", "trainer")
    nodes = _nodes(trainer, runtime)
    container = _with_torchtune(
        _container(trainer, runtime), runtime, nodes, _processes(trainer, runtime)
    )
    pod = replace(_patched(node, runtime.pod), containers=(container,))
    group = Group(pod=pod, count=nodes, role=_NODE)
    _check(trainer, runtime)
    return Workload(
        groups=(group,),
        trains=group,
        metadata=(node.at("metadata"),),
        variables=_variables(node, runtime, nodes),
        processes=_processes(trainer, runtime),
        container=_NODE,
        model=_model(node, runtime),
        unseen=_unseen(runtime),
    )


def _runtime(node: Node, objects: Objects) -> _Runtime:
    """Return the runtime: from the manifest, else as Trainer packages it, else nothing of it."""
    reference = node.at("spec", "runtimeRef")
    name = reference.at("name").text()
    kind = reference.at("kind").text() or "ClusterTrainingRuntime"
    visible = objects.find(kind, name)
    if visible is not None:
        return _visible(name, visible)
    packaged = packaged_runtime(name) if kind == "ClusterTrainingRuntime" else None
    written = Node(_template(packaged) if packaged else {}, "", node.draft, _owner(name))
    if packaged is not None and packaged.command:
        node.draft.warn(
            "packaged_runtime",
            f"{name} is not in the manifest and was taken as Kubeflow Trainer packages it; send it in the"
            " same text where yours differs.",
        )
    return _Runtime(
        name=name,
        is_known=packaged is not None,
        is_torch=packaged.is_torch if packaged else True,
        policy=written.at("mlPolicy"),
        pod=pod_of(written.at("template")),
        container=container_of(written.at(_NODE)),
        model=written.at("model"),
    )


def _owner(name: str) -> str:
    return f"runtime {name}: "


def _template(packaged: PackagedRuntime) -> dict[str, object]:
    """Return a packaged runtime's facts in the shape in which a visible one has them."""
    container: dict[str, object] = {"name": _NODE, "command": list(packaged.command)}
    if packaged.limits:
        container["resources"] = {"limits": dict(packaged.limits)}
    return {_NODE: container, "mlPolicy": {"numNodes": 1}, "model": packaged.model or None}


def _visible(name: str, node: Node) -> _Runtime:
    policy = node.at("spec", "mlPolicy")
    jobs = dict(named(node.at("spec", "template", "spec", "replicatedJobs").entries()))
    trains = next((one for one in jobs.values() if _step(one) == "trainer"), jobs.get(_NODE))
    template = (trains or Node(None, "", node.draft)).at("template", "spec", "template")
    containers = dict(named(template.at("spec", "containers").entries()))
    source = containers.get(_NODE) or next(iter(containers.values()), Node(None, "", node.draft))
    downloads = jobs.get("model-initializer")
    return _Runtime(
        name=name,
        is_known=True,
        is_torch="torch" in policy.fields(),
        policy=policy,
        pod=pod_of(template),
        container=container_of(source),
        model=_storage_uri(downloads) if downloads is not None else Node(None, "", node.draft),
    )


def _step(replicated: Node) -> object:
    return replicated.at("template", "metadata", "labels", _STEP).value


def _storage_uri(initializer: Node) -> Node:
    pod = pod_of(initializer.at("template", "spec", "template"))
    for container in pod.containers:
        for env in container.env:
            for name, variable in named(env.entries()):
                if name == "STORAGE_URI":
                    return variable.at("value")
    return Node(None, "", initializer.draft)


def _container(trainer: Node, runtime: _Runtime) -> Container:
    """Return the training container: each part the trainer's where it says it, else the runtime's."""
    under = runtime.container
    command, args = trainer.at("command"), trainer.at("args")
    resources = trainer.at("resourcesPerNode")
    image = trainer.at("image")
    return Container(
        name=_NODE,
        image=image if image.is_said else under.image,
        command=command if command.value else under.command,
        args=args if args.value else under.args,
        env=(*under.env, trainer.at("env")),
        env_from=under.env_from,
        resources=resources if resources.is_said else under.resources,
        mounts=under.mounts,
    )


def _with_torchtune(
    container: Container, runtime: _Runtime, nodes: Reading[int], processes: Reading[int]
) -> Container:
    """Return the container with the command that the operator completes where it is ``tune run``."""
    said = container.command.value
    if not runtime.is_torch or said != list(TORCHTUNE):
        return container
    ask = container.ask
    count = processes.value if isinstance(processes, Found) else ask.count if ask else 0
    words = torchtune_words(
        runtime.name,
        [one.text() for one in runtime.container.command.entries()],
        [one.text() for one in container.args.entries()],
        nodes=nodes.value if isinstance(nodes, Found) else 1,
        is_one=count == 1 or (ask is not None and ask.count == 1),
    )
    command = container.command
    return replace(
        container, command=Node(list(words), "command", command.draft, _owner(runtime.name))
    )


def _nodes(trainer: Node, runtime: _Runtime) -> Reading[int]:
    said = trainer.at("numNodes")
    if said.is_said:
        return said.whole(least=1)
    if runtime.policy.at("numNodes").is_said:
        return runtime.policy.at("numNodes").whole(least=1)
    return None if runtime.is_known else _unseen(runtime)


def _processes(trainer: Node, runtime: _Runtime) -> Reading[int]:
    """Return the processes a node where a number says it; ``auto`` stands for the devices."""
    policy = runtime.policy
    for said in (
        trainer.at("numProcPerNode"),
        policy.at("torch", "numProcPerNode"),
        policy.at("mpi", "numProcPerNode"),
    ):
        # Under MPI, 1 in the runtime means the devices: plugins/mpi/mpi.go.
        is_default = said.path.endswith("mpi.numProcPerNode") and said.value == 1
        is_word = isinstance(said.value, str) and said.value in _NOT_NUMBERS
        if said.is_said and not is_word and not is_default:
            return said.whole(least=1)
    return None


def _variables(node: Node, runtime: _Runtime, nodes: Reading[int]) -> dict[str, Word]:
    """Return the variables that the operator's torch plugin sets, as the first pod sees them."""
    if not runtime.is_torch or not isinstance(nodes, Found):
        return {}
    processes = _processes(node.at("spec", "trainer"), runtime)
    job = node.at("metadata", "name").text()
    values = (
        str(nodes.value),
        str(processes.value) if isinstance(processes, Found) else "auto",
        "0",
        f"{job}-{_NODE}-0-0.{job}",
        _PORT,
    )
    return {
        name: Word(text=text, source=f"env {name} (of the TrainJob's operator)")
        for name, text in zip(_RESERVED, values, strict=True)
    }


def _patched(node: Node, pod: Pod) -> Pod:
    """Return the runtime's pod with what the TrainJob patches into it; three spellings over time."""
    templates = tuple(_patches(node))
    specs = [one.at("spec") for one in templates]
    return replace(
        pod,
        metadata=(*pod.metadata, *(one.at("metadata") for one in templates)),
        selectors=(*pod.selectors, *(one.at("nodeSelector") for one in specs)),
        affinities=(*pod.affinities, *(one.at("affinity") for one in specs)),
        volumes=(*pod.volumes, *(one.at("volumes") for one in specs)),
    )


def _patches(node: Node) -> Iterator[Node]:
    """Yield pod templates that lie over the training node's."""
    spec = node.at("spec")
    for patch in spec.at("runtimePatches").entries():
        jobs = patch.at("trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for name, one in named(jobs.entries()):
            if name == _NODE:
                yield one.at("template", "spec", "template")
    for override in spec.at("podTemplateOverrides").entries():
        if _is_for_node(override):
            yield override
    for override in spec.at("podSpecOverrides").entries():
        if _is_for_node(override):
            yield Node({"spec": override.value}, override.path, node.draft)


def _is_for_node(override: Node) -> bool:
    return any(name == _NODE for name, _ in named(override.at("targetJobs").entries()))


def _model(node: Node, runtime: _Runtime) -> Node | None:
    said = node.at("spec", "initializer", "model", "storageUri")
    return said if said.is_said else runtime.model if runtime.model.is_said else None


def _unseen(runtime: _Runtime) -> Unseen | None:
    if runtime.is_known:
        return None
    return Unseen(
        "spec.runtimeRef",
        f"the runtime {runtime.name or '(none named)'} is not in the manifest",
        "send it in the same text, or say the rest in annotations",
    )


def _check(trainer: Node, runtime: _Runtime) -> None:
    """Report what the trainer's webhook refuses."""
    names = [name for name, _ in named(trainer.at("env").entries()) if name in _RESERVED]
    if names and runtime.is_known and runtime.is_torch:
        trainer.draft.problem(
            Problem(
                rule="trainjob_reserved_variables",
                detail=f"{trainer.below('env')} sets {', '.join(names)}, which the operator sets itself",
                fix="leave them out; numNodes and numProcPerNode say the same",
                values={trainer.below("env"): names},
            )
        )
    nodes = trainer.at("numNodes")
    is_tune = trainer.at("command").value == list(TORCHTUNE)
    if is_tune and isinstance(nodes.value, int) and nodes.value > 1:
        trainer.draft.problem(
            Problem(
                rule="torchtune_one_node",
                detail=f"{nodes.path} is {nodes.value}, and {runtime.name} trains on one node",
                fix="set numNodes to 1",
                values={nodes.path: nodes.value},
                field="hardware.devices",
            )
        )
