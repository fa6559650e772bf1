"""Pods of a workload: their containers, which of them trains, and where they may run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vramgate.launch.manifests.gpu_asks import DeviceAsk, device_ask
from vramgate.launch.manifests.node import Node
from vramgate.launch.reading import Reading, Unseen
from vramgate.launch.words import Word

_USUAL_NAMES = (
    "pytorch",
    "node",
    "trainer",
    "train",
    "training",
    "mpi-launcher",
    "mpi-worker",
    "mpi",
    "main",
    "worker",
)
"""What people call the container that trains."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container; parts may come from different places of an object."""

    name: str
    image: Node
    command: Node
    args: Node
    env: tuple[Node, ...]
    env_from: Node
    resources: Node
    mounts: Node

    @property
    def has_command(self) -> bool:
        """Whether the manifest says what runs in it."""
        return bool(self.command.value) or bool(self.args.value)

    @cached_property
    def ask(self) -> DeviceAsk | None:
        """The devices that it asks for."""
        return device_ask(self.resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What one pod is made from; where several objects say something, the weaker stands first."""

    containers: tuple[Container, ...]
    metadata: tuple[Node, ...]
    selectors: tuple[Node, ...]
    affinities: tuple[Node, ...]
    volumes: tuple[Node, ...]
    claims: Node

    def annotation(self, key: str) -> Node | None:
        """Return one of its annotations."""
        for metadata in reversed(self.metadata):
            found = metadata.at("annotations", key)
            if found.is_said:
                return found
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Pods of one kind, and how many run together; no count counts as one."""

    pod: Pod
    count: Reading[int] = None
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What an object starts."""

    groups: tuple[Group, ...]
    trains: Group | None
    """The group whose command is the training's."""
    metadata: tuple[Node, ...] = ()
    """Of the object; annotations on it win over those of its pods."""
    variables: Mapping[str, Word] = field(default_factory=dict)
    """What its operator puts into every container's environment."""
    processes: Reading[int] = None
    """Training processes a pod runs, where the object says so."""
    container: str = ""
    """The name that its operator wants the training's container to have."""
    model: Node | None = None
    """What an initializer downloads: ``hf://meta-llama/Llama-3.2-1B-Instruct``."""
    entrypoint: Node | None = None
    """A line for a shell that runs instead of the container's command."""
    words: Node | None = None
    """A map that may hold a site's own words, beside annotations."""
    unseen: Unseen | None = None
    """Why parts that the object leaves out are not known: they are another object's."""
    devices_decided_in_code: bool = False
    """How many devices the run takes of those asked for is said in its program."""


def pod_of(template: Node) -> Pod:
    """Return the pod of a template, or of a Pod itself."""
    spec = template.at("spec")
    return Pod(
        containers=tuple(container_of(one) for one in spec.at("containers").entries()),
        metadata=(template.at("metadata"),),
        selectors=(spec.at("nodeSelector"),),
        affinities=(spec.at("affinity"),),
        volumes=(spec.at("volumes"),),
        claims=spec.at("resourceClaims"),
    )


def container_of(node: Node) -> Container:
    """Return a container as a pod's template has it."""
    return Container(
        name=node.at("name").text(),
        image=node.at("image"),
        command=node.at("command"),
        args=node.at("args"),
        env=(node.at("env"),),
        env_from=node.at("envFrom"),
        resources=node.at("resources"),
        mounts=node.at("volumeMounts"),
    )


def training_container(
    containers: Sequence[Container], with_devices: Sequence[Container], name: str = ""
) -> Container | None:
    """Return the container that trains: of the wanted name, else with devices, of a usual name, the first."""
    for one in containers:
        if name and one.name == name:
            return one
    candidates = with_devices or containers
    for usual in _USUAL_NAMES:
        for one in candidates:
            if one.name == usual:
                return one
    return candidates[0] if candidates else None
