"""Our own tokens: their text, and what is stored of it.

``vg_<id>_<secret>``: the id is no secret and finds the row; of the secret only a hash is stored.
The secret has 256 random bits, so a plain fast hash cannot be reversed by trying; with a key, who
can write to the database but does not have the key cannot make a token either.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PREFIX = "vg"
ID_BYTES = 10
SECRET_BYTES = 32
# 10 bytes are 16 characters of base32, 32 bytes are 52 (RFC 4648, 6).
_TOKEN = re.compile(r"vg_([a-z2-7]{16})_([a-z2-7]{52})", re.ASCII)
_PLAIN = "sha256"
_KEYED = "hmac-sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """A key of this service, under the name that rows and signatures give it."""

    key_id: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """A token as its holder has it."""

    token_id: str
    secret: str = field(repr=False)

    def text(self) -> str:
        """Return what is sent after ``Authorization: Bearer``."""
        return f"{PREFIX}_{self.token_id}_{self.secret}"


def new_bearer_token() -> BearerToken:
    """Return a token that nobody has."""
    return BearerToken(token_id=_random_text(ID_BYTES), secret=_random_text(SECRET_BYTES))


def parse_bearer_token(text: str) -> BearerToken | None:
    """Return the token that a text is; None where it has not the form of ours."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else BearerToken(token_id=found[1], secret=found[2])


def hash_of_secret(secret: str, keys: Sequence[SecretKey]) -> str:
    """Return what is stored of a secret: its hash under the first key, a plain one without keys.

    >>> hash_of_secret("abc", [])
    'sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    """
    if not keys:
        return f"{_PLAIN}:{hashlib.sha256(secret.encode()).hexdigest()}"
    return f"{_KEYED}:{keys[0].key_id}:{_keyed(secret, keys[0])}"


def is_hash_of(stored: str, secret: str, keys: Sequence[SecretKey]) -> bool:
    """Return whether a stored hash is of the secret, in a time that does not tell how near it is.

    A hash under a key that is no longer there fits nothing.
    """
    kind, _, rest = stored.partition(":")
    if kind == _PLAIN:
        return hmac.compare_digest(stored, hash_of_secret(secret, []))
    key_id, _, digest = rest.partition(":")
    key = _by_id(keys).get(key_id)
    if kind != _KEYED or key is None:
        return False
    return hmac.compare_digest(digest, _keyed(secret, key))


def key_of_hash(stored: str) -> str | None:
    """Return the id of the key that a stored hash was made with; None for one without.

    >>> key_of_hash("hmac-sha256:2026-10:ab"), key_of_hash("sha256:ab")
    ('2026-10', None)
    """
    kind, _, rest = stored.partition(":")
    return rest.partition(":")[0] if kind == _KEYED else None


def is_made_with_first(stored: str, keys: Sequence[SecretKey]) -> bool:
    """Return whether a new hash of the same secret would be made the same way."""
    return key_of_hash(stored) == (keys[0].key_id if keys else None)


def _keyed(secret: str, key: SecretKey) -> str:
    return hmac.new(key.key, secret.encode(), hashlib.sha256).hexdigest()


def _by_id(keys: Sequence[SecretKey]) -> Mapping[str, SecretKey]:
    return {key.key_id: key for key in keys}


def _random_text(size: int) -> str:
    return base64.b32encode(secrets.token_bytes(size)).decode().rstrip("=").lower()
