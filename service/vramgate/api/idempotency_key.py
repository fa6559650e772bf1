"""The header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-07)."""

import re
from collections.abc import Mapping
from typing import Any

from vramgate.errors import DomainError

MAX_KEY = 255

_QUOTED = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(r"[\x21-\x7e]+")


class InvalidIdempotencyKeyError(DomainError):
    """The header holds no structured-field string."""

    code = "invalid_idempotency_key"


class IdempotencyKeyReusedError(DomainError):
    """The key came with another body before."""

    code = "idempotency_key_reused"


HEADER = "Idempotency-Key"
PARAMETER: Mapping[str, Any] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 2 * MAX_KEY},
    "description": "A text in double quotes, new for each request and the same when it is sent "
    "again: the first answer is kept for 24 hours and given again.",
}
"""The header as OpenAPI tells of it; routes read it themselves, which costs them nothing."""


def idempotency_key(header: str | None) -> str | None:
    r"""Return the key in the header; a text without its quotes is taken too.

    Raises:
        InvalidIdempotencyKeyError: it is empty, too long, or not of printable ASCII.

    >>> idempotency_key('"8e03978e"'), idempotency_key("8e03978e"), idempotency_key(r'"a\"b"')
    ('8e03978e', '8e03978e', 'a"b')
    """
    if header is None:
        return None
    text = header.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        key = re.sub(r"\\(.)", r"\1", quoted.group(1))
    else:
        key = text if _BARE.fullmatch(text) and '"' not in text else ""
    if not 0 < len(key) <= MAX_KEY:
        raise InvalidIdempotencyKeyError(
            f"Idempotency-Key is {text[:80]!r}; it must be 1 to {MAX_KEY} printable ASCII "
            "characters in double quotes.",
            hint='As in `Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324"`.',
        )
    return key
