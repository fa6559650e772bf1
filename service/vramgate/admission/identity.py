"""The id of a decision: the same for the same question under the same versions, on every replica."""

import hashlib
import json
import uuid
from collections.abc import Mapping

_VERSION_8 = 0x8
_VARIANT = 0b10
_HIGH_BITS, _MIDDLE_BITS, _LOW_BITS = 48, 12, 62


def digest_id(parts: Mapping[str, str | None]) -> str:
    """Return a UUID of version 8 (RFC 9562, 5.8) made from the SHA-256 of named parts.

    >>> digest_id({"tenant": "a"}) == digest_id({"tenant": "a"})
    True
    >>> uuid.UUID(digest_id({"tenant": "a"})).version
    8
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    high = number >> (128 - _HIGH_BITS)
    middle = number >> (_LOW_BITS + 2) & ((1 << _MIDDLE_BITS) - 1)
    low = number & ((1 << _LOW_BITS) - 1)
    value = high << 80 | _VERSION_8 << 76 | middle << 64 | _VARIANT << 62 | low
    return str(uuid.UUID(int=value))
