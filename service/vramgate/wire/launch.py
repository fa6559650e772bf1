"""LaunchIn: a job in its framework's own words, bounded; read in ``vramgate.launch``."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BaseModel, Discriminator, Field, StringConstraints, Tag, model_validator
from pydantic_core import PydanticCustomError

from vramgate.launch.launch import Launch
from vramgate.wire.job_parts import WireIn
from vramgate.wire.model_config import JsonObject
from vramgate.wire.numbers import TEXT, Text

MAX_LAUNCH_TEXT = 2**20
MAX_FILES = 64
MAX_VARIABLES = 1024
MAX_ARGUMENTS = 4096

DIGEST_PATTERN = "^[0-9a-f]{64}$"
_DIGEST = re.compile("[0-9a-f]{64}")

LongText: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_LAUNCH_TEXT), TEXT
]
FileText: TypeAlias = Annotated[
    str, StringConstraints(strict=True, max_length=MAX_LAUNCH_TEXT), TEXT
]
Arguments: TypeAlias = Annotated[
    tuple[FileText, ...], Field(min_length=1, max_length=MAX_ARGUMENTS)
]
Digest: TypeAlias = Annotated[
    str, StringConstraints(strict=True, pattern=DIGEST_PATTERN, max_length=64)
]


def is_digest(value: object) -> bool:
    """Return whether the value is a SHA-256 in lower-case hexadecimal."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


class FileReferenceIn(WireIn):
    """A file that was sent ahead with ``PUT /v1/files/{sha256}``."""

    sha256: Digest


def _form_of(*forms: tuple[type, str]) -> Any:  # noqa: ANN401 as Pydantic types discriminators
    def form(value: object) -> str | None:
        return next((name for kind, name in forms if isinstance(value, kind)), None)

    return form


Command: TypeAlias = Annotated[
    Annotated[LongText, Tag("line")] | Annotated[Arguments, Tag("words")],
    Discriminator(
        _form_of((str, "line"), (list, "words"), (tuple, "words")),
        custom_error_type="command",
        custom_error_message="Input should be a line for a shell, or a list of its words",
    ),
]
Document: TypeAlias = Annotated[
    Annotated[LongText, Tag("text")] | Annotated[JsonObject, Tag("object")],
    Discriminator(
        _form_of((str, "text"), (dict, "object")),
        custom_error_type="document",
        custom_error_message="Input should be an object, or its text as YAML, JSON or TOML",
    ),
]
SentFile: TypeAlias = Annotated[
    Annotated[FileText, Tag("text")] | Annotated[FileReferenceIn, Tag("reference")],
    Discriminator(
        _form_of((str, "text"), (dict, "reference"), (BaseModel, "reference")),
        custom_error_type="file",
        custom_error_message='Input should be the text of the file, or {"sha256": "…"}',
    ),
]


class LaunchIn(WireIn):
    """Exactly one of a command line, a batch script, a manifest and a framework's config.

    Nothing of it is run, and no file is read but those that come along in `files`.
    """

    command: Command | None = Field(
        default=None, description="As a shell takes it, or its words: `torchrun train.py --bf16`."
    )
    script: LongText | None = Field(
        default=None, description="A shell script; `#SBATCH` and `#VRAMGATE` lines are understood."
    )
    manifest: Document | None = Field(
        default=None, description="A Kubernetes object (Job, PyTorchJob, JobSet, RayJob …)."
    )
    framework: Text | None = Field(default=None, description="With `config`: whose it is.")
    config: Document | None = Field(
        default=None, description="A framework's configuration: YAML, JSON, TOML or an object."
    )
    files: Annotated[dict[Text, SentFile], Field(max_length=MAX_FILES)] | None = Field(
        default=None, description="Files that the launch names, by their paths."
    )
    env: Annotated[dict[Text, FileText], Field(max_length=MAX_VARIABLES)] | None = Field(
        default=None, description="Variables of the environment that the launch refers to."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [
            field
            for field in ("command", "script", "manifest", "config")
            if getattr(self, field) is not None
        ]
        if len(given) != 1:
            raise PydanticCustomError(
                "exactly_one",
                "Give exactly one of command, script, manifest and config; got {given}",
                {"given": ", ".join(given) or "none"},
            )
        return self

    def missing(self, stored: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the files named by a digest that is not stored: name and digest."""
        for name, file in (self.files or {}).items():
            if isinstance(file, FileReferenceIn) and file.sha256 not in stored:
                yield name, file.sha256

    def to_domain(self, stored: Mapping[str, str]) -> Launch:
        """Return the domain value; ``stored`` holds the texts of files named by digest."""
        return Launch(
            command=self.command,
            script=self.script,
            manifest=self.manifest,
            framework=self.framework,
            config=self.config,
            files={
                name: file if isinstance(file, str) else stored[file.sha256]
                for name, file in (self.files or {}).items()
            },
            env=self.env or {},
        )
