"""The base of every failure that a caller can cause and mend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One thing wrong with one field: where (a JSON pointer), what, and the way out."""

    pointer: str
    code: str
    detail: str
    value: Any = None
    parameter: str | None = None
    """Instead of a pointer, the name of a parameter of the address or of a header."""


class DomainError(Exception):
    """An expected failure: a stable code, a sentence with the values, and a hint for the way out.

    It knows no HTTP; ``api/problems.py`` maps codes to statuses once.
    """

    code: str = "invalid"

    def __init__(
        self, message: str, *, hint: str = "", fields: Sequence[FieldError] = (), **data: object
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = tuple(fields)
        self.data: dict[str, Any] = data

    @property
    def other_fields(self) -> list[FieldError]:
        """The fields whose faults the message does not tell.

        >>> pair = [FieldError(pointer=at, code="extra", detail="is no field") for at in ("/a", "/b")]
        >>> [one.pointer for one in DomainError("/a: is no field (1 more).", fields=pair).other_fields]
        ['/b']
        """
        return [
            one
            for one in self.fields
            if one.detail not in self.message or one.pointer != self.fields[0].pointer
        ]


class InvalidJobError(DomainError):
    """The job contradicts itself or its model; no card of any size would run it."""

    code = "invalid_job"


class InvalidModelConfigError(DomainError):
    """A ``config.json`` lacks keys that its family needs, or they contradict each other."""

    code = "invalid_model_config"


class UnknownNameError(DomainError):
    """No catalog entry has this name; ``data["suggestions"]`` lists near ones."""

    code = "unknown_name"


def shortened(text: str, most: int) -> str:
    """Return what a caller said, cut to ``most`` characters so that a message stays a sentence.

    >>> shortened("meta-llama/Llama-3.1-8B", 13)
    'meta-llama...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
