"""The environment of a container, as far as the manifest shows it, and ``$(VAR)`` in its words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from vramgate.launch.manifests.node import Node, named
from vramgate.launch.manifests.objects import Objects
from vramgate.launch.manifests.pods import Container, Pod
from vramgate.launch.words import Word

_REFERENCE = re.compile(r"\$(?:\$|\(([-._a-zA-Z][-._a-zA-Z0-9]*)\))")
_FIRST_POD = frozenset(
    {
        "metadata.annotations['batch.kubernetes.io/job-completion-index']",
        "metadata.labels['batch.kubernetes.io/job-completion-index']",
        "metadata.labels['apps.kubernetes.io/pod-index']",
        "metadata.labels['leaderworkerset.sigs.k8s.io/worker-index']",
        "metadata.labels['training.kubeflow.org/replica-index']",
    }
)
"""Fields that count the pods: 0 in the first, whose memory is the others' too."""
_MAP_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']{1,317})'\]")
_LONGEST = 2**20
"""Characters that references are replaced by; to references they would double line by line."""
_MOST, _MOST_SOURCES = 4096, 64
"""Variables of a container, and ConfigMaps that it takes whole."""


@dataclass(slots=True)
class Variables:
    """Variables with their values, and where the values of the others come from."""

    words: dict[str, Word] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    """By name, a clause: ``it comes from the Secret tokens, which is not in the manifest``."""
    has_hidden_sources: bool = False
    """Whether there may be variables that nothing names."""
    room: int = _LONGEST
    """Characters that references may still be replaced by."""

    @property
    def left(self) -> int:
        """How many more there may be."""
        return max(0, _MOST - len(self.words))

    def say(self, name: str, text: str, source: str) -> None:
        """Keep a value; what was kept under the name before is replaced."""
        self.words[name] = expanded(text, source, self)
        self.hidden.pop(name, None)

    def hide(self, name: str, reason: str) -> None:
        """Keep that a variable is set out of sight."""
        self.words[name] = Word(text=f"${name}", source=f"env {name}", unresolved=(f"${name}",))
        self.hidden[name] = reason


def variables_of(
    container: Container,
    pod: Pod,
    objects: Objects,
    *,
    injected: Mapping[str, Word],
    given: Mapping[str, Word],
) -> Variables:
    """Return a container's variables; what is set out of sight takes what was ``given`` beside."""
    variables = Variables()
    for source in container.env_from.entries()[:_MOST_SOURCES]:
        _take_all(source, objects, variables)
    for env in container.env:
        for name, node in named(env.entries()):
            _take_one(name, node, container, pod, objects, variables)
    variables.words |= injected
    for name, word in given.items():
        if name not in variables.words or name in variables.hidden:
            variables.words[name] = word
            variables.hidden.pop(name, None)
    return variables


def _take_all(source: Node, objects: Objects, variables: Variables) -> None:
    """Take ``envFrom``: every entry of a ConfigMap that is in the manifest; Secrets are never read."""
    prefix = source.at("prefix").text()
    name = source.at("configMapRef", "name").text()
    config = objects.find("ConfigMap", name) if name else None
    if config is None or not variables.left:
        variables.has_hidden_sources = True
        return
    for key, node in islice(config.at("data").fields().items(), variables.left):
        variables.say(f"{prefix}{key}", node.text(), f"ConfigMap {name}: {key}")


def _take_one(
    name: str, node: Node, container: Container, pod: Pod, objects: Objects, variables: Variables
) -> None:
    source = node.at("valueFrom")
    if not source.is_said:
        variables.say(name, node.at("value").text(), f"env {name}")
        return
    fields = source.fields()
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if key in fields:
            _take_key(name, kind, fields[key], objects, variables)
            return
    if "fieldRef" in fields:
        _take_field(name, fields["fieldRef"].at("fieldPath").text(), pod, variables)
    elif "resourceFieldRef" in fields:
        _take_resource(name, fields["resourceFieldRef"], container, variables)
    else:
        variables.hide(name, "it is set from a place that is not read")


def _take_key(name: str, kind: str, ref: Node, objects: Objects, variables: Variables) -> None:
    owner, key = ref.at("name").text(), ref.at("key").text()
    config = objects.find("ConfigMap", owner) if kind == "ConfigMap" else None
    value = config.at("data", key) if config is not None else None
    if value is not None and value.is_said:
        variables.say(name, value.text(), f"ConfigMap {owner}: {key}")
    elif config is not None:
        variables.hide(name, f"the ConfigMap {owner} has no key {key}")
    elif kind == "Secret":
        variables.hide(name, f"it comes from the Secret {owner}, and Secrets are not read")
    else:
        variables.hide(name, f"it comes from the ConfigMap {owner}, which is not in the manifest")


def _take_field(name: str, path: str, pod: Pod, variables: Variables) -> None:
    """Take a field of the pod that is the same in every pod, or that counts them."""
    field_of = _MAP_FIELD.fullmatch(path)
    if path in _FIRST_POD:
        variables.say(name, "0", f"env {name} (of the first pod)")
        return
    for metadata in reversed(pod.metadata):
        place = metadata.at(field_of[1]) if field_of else metadata
        key = field_of[2] if field_of else path.removeprefix("metadata.")
        value = place.at(key)
        if (field_of or path == "metadata.namespace") and value.is_said:
            variables.say(name, value.text(), f"env {name}")
            return
    variables.hide(name, f"it is the pod's {path[:80]}, known once the pod runs")


def _take_resource(name: str, ref: Node, container: Container, variables: Variables) -> None:
    place, _, resource = ref.at("resource").text().partition(".")
    value = container.resources.at(place, resource)
    if str(value.value).isdecimal() and not ref.at("divisor").is_said:
        variables.say(name, str(value.value), f"env {name}")
    else:
        variables.hide(name, "it is a resource of the container, worked out once the pod runs")


def expanded(text: str, source: str, variables: Variables) -> Word:
    """Return a text after the kubelet's expansion: ``$(VAR)`` over the environment, ``$$`` escapes.

    A reference that nothing defines stays as it is written, as the kubelet leaves it: in a script it
    is then the shell's. Source: kubernetes ``third_party/forked/golang/expansion/expand.go``.
    """
    if "$" not in text:
        return Word(text=text, source=source)
    expansion = _Expansion(variables=variables)
    written = _REFERENCE.sub(expansion.value, text)
    return Word(text=written, source=source, unresolved=tuple(dict.fromkeys(expansion.unresolved)))


@dataclass(slots=True, kw_only=True)
class _Expansion:
    """The references of one text as they are replaced."""

    variables: Variables
    unresolved: list[str] = field(default_factory=list)

    def value(self, reference: re.Match[str]) -> str:
        """Return what stands for a reference; itself where nothing does."""
        name = reference[1]
        if name is None:
            return "$"
        word = self.variables.words.get(name)
        if word is None or len(word.text) > self.variables.room:
            if word is not None or self.variables.has_hidden_sources:
                self.unresolved.append(reference[0])
            return reference[0]
        self.variables.room -= len(word.text)
        self.unresolved.extend(word.unresolved)
        return word.text
