"""read_manifest: from Kubernetes objects to the job that one of them starts."""

from collections.abc import Iterator, Mapping
from typing import Any

from vramgate.launch.annotations.read import PREFIX, say_annotations, say_machine
from vramgate.launch.commands.read import read_commands
from vramgate.launch.draft import Place, UnknownField
from vramgate.launch.frameworks.tuners import say_unseen
from vramgate.launch.launch import Context
from vramgate.launch.manifests.container_words import (
    add_mounted_files,
    container_words,
    missing_config_maps,
)
from vramgate.launch.manifests.devices import say_devices, training_container_of
from vramgate.launch.manifests.environment import Variables, variables_of
from vramgate.launch.manifests.images import stack_of_image
from vramgate.launch.manifests.kinds import training_object
from vramgate.launch.manifests.labels import demanded_labels
from vramgate.launch.manifests.node import Node
from vramgate.launch.manifests.objects import Objects, objects_of
from vramgate.launch.manifests.pods import Container, Pod, Workload
from vramgate.launch.reading import Found, Reading, Unseen
from vramgate.launch.shell.read import read_shell
from vramgate.launch.words import Command, Word

_RAY_PREFIX = "vramgate/"
_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_HUB = "hf://"
_DOWNLOADED = "/workspace/model"
"""Where Kubeflow Trainer's initializer puts a model: ``pkg/initializers/utils/utils.py``."""


def read_manifest(
    manifest: str | Mapping[str, Any], environment: Mapping[str, Word], context: Context
) -> None:
    """Say what the one object that trains says of its job, and what the objects beside it add.

    ``environment`` gives values to variables that are set out of the manifest's sight.

    Raises:
        UnreadableLaunchError: it is no manifest, or none or several of its objects train.
    """
    objects = objects_of(manifest, context.draft)
    workload = training_object(objects)
    say_devices(workload, objects, context)
    _say_place(workload, context)
    _say_initialized(workload, context)
    container = training_container_of(workload, objects)
    if container is None or workload.trains is None:
        variables = Variables(words=dict(environment) | dict(workload.variables))
        _read_command(workload, None, variables, context)
    else:
        pod = workload.trains.pod
        variables = variables_of(
            container, pod, objects, injected=workload.variables, given=environment
        )
        _say_image(container, context)
        add_mounted_files(container, pod, objects, context.files)
        say_machine({**_own_variables(variables), **_annotations(workload)}, context)
        _read_command(workload, container, variables, context)
        _explain(container, pod, objects, variables, context)
    _replace_downloaded(workload, context)
    say_annotations(_own_variables(variables), context)
    say_annotations(_annotations(workload), context)


def _say_place(workload: Workload, context: Context) -> None:
    """Say the queue that Kueue puts the object into, and the labels that its nodes must have."""
    pod = None if workload.trains is None else workload.trains.pod
    queues = [metadata.at("labels", _KUEUE_QUEUE).text() for metadata in workload.metadata]
    context.draft.place = Place(
        queue=next((queue for queue in reversed(queues) if queue), None),
        node_labels={} if pod is None else demanded_labels(pod),
    )


def _say_image(container: Container, context: Context) -> None:
    stack = stack_of_image(container.image.text())
    if stack is not None:
        context.draft.say("software.stack", Found(stack, f"image {container.image.text()[:200]}"))


def _read_command(
    workload: Workload, container: Container | None, variables: Variables, context: Context
) -> None:
    """Read the entrypoint, or the container's words; name what is unknown where neither is there."""
    if workload.entrypoint is not None and workload.entrypoint.value:
        text = workload.entrypoint.text()
        reading = read_shell(text, environment=variables.words)
        for name, content in reading.files.items():
            context.files.add(name, content)
        read_commands(reading.commands, context)
        return
    unseen = _unseen_command(workload, container)
    if unseen is not None:
        say_unseen(unseen, context)
        return
    if container is not None:
        words = container_words(container, variables)
        read_commands([Command(words=words, environment=variables.words)], context)


def _unseen_command(workload: Workload, container: Container | None) -> Unseen | None:
    """Return why a command is out of sight: the image has it, or a runtime, or nothing runs here."""
    if workload.entrypoint is not None:
        source = workload.entrypoint.path
        return Unseen(source, "nothing says what runs", "send the RayJob with its entrypoint")
    if container is None:
        return Unseen("spec", "it has no container", "send the object whole")
    if container.command.value:
        return None
    first = container.args.entries()[:1]
    if not first and workload.unseen is not None:
        return workload.unseen
    if first and not first[0].text().startswith("-"):
        # Without an entrypoint of the image, or behind one that runs what it is given.
        return None
    image = container.image.text()[:200] or "(no image)"
    return Unseen(
        f"image {image}",
        "the command is the image's own and not in the manifest",
        "write the container's command, or say the rest in annotations",
    )


def _say_initialized(workload: Workload, context: Context) -> None:
    """Say the model that an initializer downloads; a command may train another."""
    context.draft.say("model.name", _initialized(workload))


def _initialized(workload: Workload) -> Reading[str]:
    node = workload.model
    text = node.text() if node is not None else ""
    if node is None or not text:
        return None
    if text.startswith(_HUB):
        return Found(text.removeprefix(_HUB).strip("/"), f"{node.owner}{node.path}")
    return Unseen(
        node.path,
        f"the model is downloaded from {text[:80]}",
        "add the annotation vramgate.dev/model",
    )


def _replace_downloaded(workload: Workload, context: Context) -> None:
    """Call a model by what it was downloaded from, not by the folder it was put into."""
    reading = _initialized(workload)
    said = context.draft.said("model.name")
    if said is not None and str(said.value).rstrip("/") == _DOWNLOADED and reading is not None:
        context.draft.say("model.name", reading)


def _explain(
    container: Container, pod: Pod, objects: Objects, variables: Variables, context: Context
) -> None:
    """Say of what is unknown which Secret or ConfigMap holds it."""
    mounts = list(missing_config_maps(container, pod, objects))
    for unknown in context.draft.finished().unknown:
        reason = _better_reason(unknown, variables, mounts)
        if reason:
            unseen = Unseen(unknown.source, f"{unknown.reason}; {reason}", unknown.hint)
            context.draft.unknown(unknown.field, unseen)


def _better_reason(
    unknown: UnknownField, variables: Variables, mounts: list[tuple[str, str]]
) -> str:
    words = unknown.reason.replace("${", "$").replace("$(", "$").replace("}", " ").replace(")", " ")
    for name, reason in variables.hidden.items():
        if f"${name}" in words.split():
            return reason
    for path, owner in mounts:
        if path and unknown.reason.startswith(path):
            return f"it is of the ConfigMap {owner}, which is not in the manifest"
    return ""


def _own_variables(variables: Variables) -> Mapping[str, Word]:
    return {name: word for name, word in variables.words.items() if name.startswith("VRAMGATE_")}


def _annotations(workload: Workload) -> Mapping[str, Word]:
    """Return our annotations; those of the object over those of its pods."""
    pods = workload.trains.pod.metadata if workload.trains is not None else ()
    found: dict[str, Word] = {}
    for metadata in (*pods, *workload.metadata):
        found |= _ours(metadata.at("annotations"), PREFIX)
    if workload.words is not None:
        found |= _ours(workload.words, _RAY_PREFIX)
    return found


def _ours(node: Node, prefix: str) -> dict[str, Word]:
    return dict(_words(node, prefix))


def _words(node: Node, prefix: str) -> Iterator[tuple[str, Word]]:
    for key, value in node.fields().items():
        if key.startswith(prefix):
            name = key.removeprefix(prefix)
            yield name, Word(text=value.text(), source=f"annotation {PREFIX}{name}")
