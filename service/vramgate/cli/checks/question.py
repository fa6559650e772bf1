"""The question about a file: a job, a whole request, or a launch with the files that it names."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vramgate.admission.decision import Channel
from vramgate.cli.launch_sources import (
    LARGEST_FILE_BYTES,
    SCRIPT_SUFFIXES,
    UnclearLaunchError,
    launch_of_text,
    looks_like_manifest,
    name_of,
    with_local_files,
)
from vramgate.cli.policy_files import with_off
from vramgate.errors import DomainError
from vramgate.json_text import parse_json
from vramgate.launch.documents import UnreadableLaunchError, read_yaml_documents, unreadable
from vramgate.wire.admissions import AdmitRequest
from vramgate.wire.validation import validated
from vramgate.workflows.read_launch import hardware_said, launch_of

_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_DATA_SUFFIXES = _YAML_SUFFIXES | {".json"}
_MANIFEST_KEYS = frozenset({"apiVersion", "kind"})
_REQUEST_KEYS = frozenset({"job", "launch"})
_JSON_OBJECT = re.compile(r'\s*\{\s*["}]')
_BYTE_ORDER_MARK = "\ufeff"
_JOB_HINT = "A job has the field `model`, a request `job` or `launch`."
_FRAMEWORK_HINT = "If it is a framework's configuration, name that with --framework."


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the options say of every file."""

    framework: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, object] = field(default_factory=dict)
    """The card and the number of cards, whatever the file says of them."""
    question: Mapping[str, object] = field(default_factory=dict)
    """Fields of the request: queue, cluster, submitter, channel."""


def question_in(text: str, path: Path, said: Said) -> AdmitRequest:
    """Return the question about the text of a file; ``path`` says what it is by its end.

    Raises:
        UnclearLaunchError: it is empty, or a configuration and nobody says whose.
        MalformedJsonError: its name says it is JSON.
        UnreadableLaunchError: its name says it is YAML.
        ValidationFailedError: it has another shape.
    """
    if not text.removeprefix(_BYTE_ORDER_MARK).strip():
        raise UnclearLaunchError(f"{name_of(path)} is empty.")
    return validated(AdmitRequest, _body(text, path, said))


def with_files(request: AdmitRequest, path: Path) -> AdmitRequest:
    """Return the question with the files that its launch names, from beside the file and from here.

    Raises:
        UnreadableFileError: one of them is too large, or not text.
        ValidationFailedError: they are too many.
    """
    if request.launch is None:
        return request
    launch = launch_of(request.launch, {})
    hardware = hardware_said(request.hardware)
    found = with_local_files(launch, folders=(path.parent, Path()), hardware=hardware).files
    if len(found) == len(launch.files):
        return request
    body = request.model_dump(mode="json", exclude_unset=True)
    return validated(AdmitRequest, {**body, "launch": {**body["launch"], "files": dict(found)}})


def document_in(text: str, path: Path) -> object:
    """Return the value of a text in JSON, or in YAML that says what JSON can; None where it is neither.

    Raises:
        MalformedJsonError: its name says it is JSON.
        UnreadableLaunchError: its name says it is YAML.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    suffix = path.suffix.lower()
    if suffix == ".json" or (suffix not in _YAML_SUFFIXES and _JSON_OBJECT.match(text)):
        return parse_json(text.encode())
    try:
        documents = read_yaml_documents(text, name_of(path))
        if len(documents) != 1:
            return documents
        return with_off(parse_json(_as_json(documents[0], path)))
    except DomainError:
        if suffix in _YAML_SUFFIXES:
            raise
        return None


def hint_for(failure: DomainError) -> str:
    """Return the way out of a failure; where a file's model is no model, what else it may be."""
    is_of_model = any(one.pointer.startswith("/job/model") for one in failure.fields)
    return failure.hint or (_FRAMEWORK_HINT if is_of_model else "")


def _body(text: str, path: Path, said: Said) -> dict[str, Any]:
    if said.framework is None and not _is_script(text, path):
        document = _document_or_manifest(text, path)
        if isinstance(document, dict) and not document.keys() & _MANIFEST_KEYS:
            if document.keys() & _REQUEST_KEYS:
                return _completed(document, said)
            if "model" in document:
                return _completed({"job": document}, said)
        elif _holds_manifest(document):
            return _completed({"launch": {"manifest": text}}, said)
        if not looks_like_manifest(text):
            _check_is_clear(document, path)
    launch = launch_of_text(text, path, framework=said.framework)
    told = {
        name: getattr(launch, name)
        for name in ("script", "manifest", "framework", "config")
        if getattr(launch, name) is not None
    }
    return _completed({"launch": told}, said)


def _check_is_clear(document: object, path: Path) -> None:
    """Raise where a document is neither a job nor a request, and no script either.

    Raises:
        UnclearLaunchError: it holds several jobs, no fields at all, or fields of nobody knows what.
    """
    if isinstance(document, list) and any(isinstance(one, dict) for one in document):
        raise UnclearLaunchError(
            f"{name_of(path)} holds {len(document)} documents; one file has one job.",
            hint="Write each into a file of its own.",
        )
    is_data = path.suffix.lower() in _DATA_SUFFIXES
    if document == {} or (is_data and not isinstance(document, dict)):
        raise UnclearLaunchError(f"{name_of(path)} says nothing of a job.", hint=_JOB_HINT)
    if is_data:
        raise UnclearLaunchError(
            f"{name_of(path)} is neither a job nor a request nor a manifest.",
            hint=f"{_JOB_HINT} {_FRAMEWORK_HINT}",
        )


def _is_script(text: str, path: Path) -> bool:
    return path.suffix.lower() in SCRIPT_SUFFIXES or text.startswith("#!")


def _document_or_manifest(text: str, path: Path) -> object:
    """Return the document of a file; of a manifest that cannot be read, nothing: its reader says why."""
    try:
        return document_in(text, path)
    except UnreadableLaunchError:
        if looks_like_manifest(text):
            return None
        raise


def _holds_manifest(document: object) -> bool:
    documents = document if isinstance(document, list) else [document]
    return any(isinstance(one, dict) and one.keys() & _MANIFEST_KEYS for one in documents)


def _completed(body: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """Return the request with what the options say; what has another shape is told later."""
    whole = {"channel": Channel.CLI.value, **body, **said.question}
    job, launch = whole.get("job"), whole.get("launch")
    if isinstance(launch, dict):
        if said.hardware:
            whole["hardware"] = _with(whole.get("hardware"), said.hardware)
        if said.env:
            whole["launch"] = {**launch, "env": _with(launch.get("env"), said.env)}
    elif isinstance(job, dict) and said.hardware:
        whole["job"] = {**job, "hardware": _with(job.get("hardware"), said.hardware)}
    return whole


def _with(given: object, said: Mapping[str, object]) -> object:
    if given is None:
        return dict(said)
    return {**given, **said} if isinstance(given, dict) else given


def _as_json(value: object, path: Path) -> bytes:
    """Return what YAML says as JSON: aliases written out, and therefore bounded."""
    parts, length = [], 0
    for part in json.JSONEncoder().iterencode(value):
        length += len(part)
        if length > LARGEST_FILE_BYTES:
            raise unreadable(
                name_of(path),
                f"it comes to more than {LARGEST_FILE_BYTES:,} bytes, aliases counted",
            )
        parts.append(part)
    return "".join(parts).encode()
