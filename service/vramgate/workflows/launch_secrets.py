"""What the variables of a launch hold that nobody else is to read: masked wherever an answer repeats it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from vramgate.reporter.redaction import MASK, names_a_secret
from vramgate.wire.admissions import AdmitRequest

SHORTEST = 6
"""Characters; whoever masks less masks half of every sentence."""
_WITHOUT_SECRETS = frozenset({"verdict", "decision", "mode", "peak", "capacity"})
"""Parts of an answer that repeat nothing of a launch."""
_ASSIGNED = re.compile(
    r"(?:^|[\s;&|(])([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|\"'$]+)", re.MULTILINE
)
"""A variable as a shell sets it."""
_LISTED = re.compile(
    r"[\"']?name[\"']?\s*:\s*[\"']?([A-Za-z_]\w*)[\"']?\s*,?\s*[\"']?value[\"']?\s*:\s*"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s,}\"']+)"
)
"""One as a container of Kubernetes has it, in YAML or JSON."""


def secrets_in(request: AdmitRequest) -> list[str]:
    """Return what variables of secret names are set to in a question's launch, the longest first."""
    found = {
        value
        for name, value in _variables(request)
        if len(value) >= SHORTEST and names_a_secret(name)
    }
    return sorted(found, key=len, reverse=True)


def hidden(value: object, secrets: Sequence[str]) -> object:
    """Return a JSON value with the secrets masked in every text but words of our own."""
    if not secrets:
        return value
    if isinstance(value, str):
        return reduce(lambda text, secret: text.replace(secret, MASK), secrets, value)
    if isinstance(value, Mapping):
        return {
            name: inner if name in _WITHOUT_SECRETS else hidden(inner, secrets)
            for name, inner in value.items()
        }
    return [hidden(one, secrets) for one in value] if isinstance(value, list) else value


def _variables(request: AdmitRequest) -> Iterator[tuple[str, str]]:
    launch = request.launch
    if launch is None:
        return
    yield from (launch.env or {}).items()
    for text in (launch.script, launch.command):
        words = text if isinstance(text, str) or text is None else " ".join(text)
        for name, value in _ASSIGNED.findall(words or ""):
            yield name, value.strip("\"'")
    manifest = launch.manifest
    if isinstance(manifest, str):
        for name, value in _LISTED.findall(manifest):
            yield name, value.strip("\"'")
    else:
        yield from _in_objects(manifest)


def _in_objects(value: object) -> Iterator[tuple[str, str]]:
    """Yield the variables of every container in an object of Kubernetes."""
    if isinstance(value, list):
        for one in value:
            yield from _in_objects(one)
    elif isinstance(value, Mapping):
        name, held = value.get("name"), value.get("value")
        if isinstance(name, str) and isinstance(held, str):
            yield name, held
        for one in value.values():
            yield from _in_objects(one)
