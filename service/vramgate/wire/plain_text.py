"""Text that looks like what it is: what people will read beside other people's."""

import unicodedata
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, StringConstraints
from pydantic_core import PydanticCustomError

from vramgate.wire.numbers import checked_text

# Controls, invisible formatting (zero width, direction marks), private use, unassigned, separators
# of lines and paragraphs.
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cn", "Zl", "Zp"})


def plain_text(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the value, refusing text with characters that nobody sees; other kinds pass."""
    value = checked_text(value)
    if not isinstance(value, str) or (value.isascii() and value.isprintable()):
        return value
    for position, character in enumerate(value):
        if unicodedata.category(character) in _HIDDEN:
            raise PydanticCustomError(
                "hidden_character",
                "Text should hold visible characters only; character {position} is U+{code}",
                {"position": position + 1, "code": f"{ord(character):04X}"},
            )
    if not unicodedata.is_normalized("NFC", value):
        raise PydanticCustomError(
            "not_normalised", "Text should be in Unicode's composed form (NFC)"
        )
    return value


PLAIN = BeforeValidator(plain_text)

RunId: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=200), PLAIN
]
LabelName: TypeAlias = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=64), PLAIN
]
LabelValue: TypeAlias = Annotated[str, StringConstraints(strict=True, max_length=256), PLAIN]
"""What stands behind a label's or a component's name."""
