"""LaunchIn: a job in its framework's own words, bounded; read elsewhere."""

from typing import Annotated, Self, TypeAlias

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from vramgate.wire.job_parts import WireIn
from vramgate.wire.model_config import JsonObject
from vramgate.wire.numbers import TEXT, Text

MAX_LAUNCH_TEXT = 2**20
MAX_FILES = 64
MAX_VARIABLES = 1024

LongText: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_LAUNCH_TEXT), TEXT
]
FileText: TypeAlias = Annotated[
    str, StringConstraints(strict=True, max_length=MAX_LAUNCH_TEXT), TEXT
]


class LaunchIn(WireIn):
    """Exactly one of a command line, a batch script, a manifest and a framework's config."""

    command: LongText | None = None
    script: LongText | None = None
    manifest: LongText | JsonObject | None = None
    framework: Text | None = None
    config: LongText | JsonObject | None = None
    files: Annotated[dict[Text, FileText], Field(max_length=MAX_FILES)] | None = None
    env: Annotated[dict[Text, FileText], Field(max_length=MAX_VARIABLES)] | None = None

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
