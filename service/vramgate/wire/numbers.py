"""Numbers and text as they arrive: whole, bounded, and nothing else.

Pydantic alone reads ``true`` as 1 and ``"8"`` as 8, and in strict mode refuses ``2.0``, which JSON
Schema calls an integer; ``Whole`` refuses the first two and takes the third. Every number is
bounded so that no product of them leaves int64.
"""

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, StrictBool, StringConstraints
from pydantic_core import PydanticCustomError

MAX_BYTES = 2**50  # 1 PiB: beyond any card or host
MAX_DEVICES = 2**20
MAX_TOKENS = 2**24  # longest context published: 10 million (Llama 4 Scout)
MAX_BATCH = 2**16
MAX_STEPS = 2**20
MAX_RANK = 2**16
MAX_ELEMENTS = 10**13
MAX_PARAMETERS = 10**14
MAX_TEXT = 512
MAX_MODULE_NAME = 256
MAX_PATTERN = 1024  # Unsloth writes one of 420 characters


def _whole(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value where it is a whole number; whole floats become integers."""
    kind = type(value)
    if kind is int:
        return value
    if kind is float and value.is_integer():
        return int(value)
    raise PydanticCustomError("whole_number", "Input should be a whole number")


def _number(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("number", "Input should be a number")
    return value


def clean_text(value: str) -> str:
    """Return the text, refusing what PostgreSQL or UTF-8 cannot hold: NUL and lone surrogates."""
    if "\0" in value:
        raise PydanticCustomError("text", "Text should not hold NUL characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise PydanticCustomError("text", "Text should not hold lone surrogates") from None
    return value


def checked_text(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value, refusing text that cannot be stored; other kinds pass."""
    if isinstance(value, str):
        return clean_text(value)
    return value


WHOLE = BeforeValidator(_whole)
"""Stands after the bounds, so that they show in the JSON schema: ``Annotated[int, bounds, WHOLE]``."""
NUMBER = BeforeValidator(_number)
TEXT = BeforeValidator(checked_text)

Size: TypeAlias = Annotated[int, Field(ge=1, le=MAX_DEVICES), WHOLE]
"""Devices, and the sizes of parallel groups."""

ByteCount: TypeAlias = Annotated[int, Field(ge=0, le=MAX_BYTES), WHOLE]
ElementCount: TypeAlias = Annotated[int, Field(ge=0, le=MAX_ELEMENTS), WHOLE]
Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), NUMBER]
Probability: TypeAlias = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False), NUMBER]
Flag: TypeAlias = StrictBool

Text: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_TEXT), TEXT
]
"""A name or a short sentence."""

ModuleName: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=MAX_MODULE_NAME), TEXT
]
