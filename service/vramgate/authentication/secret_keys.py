"""The service's own keys, in a file with one or two lines, so that they rotate without a restart.

Put the new key first and keep the old one below; the service reads the file again when it changes.
Once everything was made anew under the first key, the second line can go.
"""

import base64
import binascii
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

from vramgate.authentication.bearer_tokens import SecretKey
from vramgate.errors import DomainError
from vramgate.telemetry import logger

MAX_KEYS = 2
MIN_KEY_BYTES = 32
"""As long as the digest it is used with (RFC 2104, 3)."""
MAX_FILE_BYTES = 4096
LOOK_SECONDS = 1.0
"""How often the file is looked at."""
_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", re.ASCII)
_FORM = (
    "Write one or two lines `id:key`, the key for new hashes first; "
    '`echo "2026-10:$(head -c 32 /dev/urandom | base64)"` makes one.'
)

_log = logger("vramgate.secret_keys")


class SecretKeysError(DomainError):
    """The file of the secret keys cannot be used."""

    code = "invalid_secret_keys"


def parse_secret_keys(text: str, *, name: str) -> tuple[SecretKey, ...]:
    """Return the keys that the file called ``name`` holds; the message repeats none of them.

    Raises:
        SecretKeysError: it holds no keys, too many, two of one id or one, or one that is too short.
    """
    lines = [line.strip() for line in text.splitlines()]
    keys = tuple(
        _key(line, f"{name}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line and not line.startswith("#")
    )
    if not 1 <= len(keys) <= MAX_KEYS:
        raise SecretKeysError(f"{name} holds {len(keys)} keys, not one or two.", hint=_FORM)
    if len({one.key_id for one in keys}) < len(keys) or len({one.key for one in keys}) < len(keys):
        raise SecretKeysError(f"{name} holds the same key or the same id twice.", hint=_FORM)
    return keys


class SecretKeys:
    """The keys in a file, as it is now; without a file there are none."""

    def __init__(self, file: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file.

        Raises:
            SecretKeysError: it cannot be read or used.
        """
        self._file = file
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = clock()
        self._seen = None if file is None else _state(file)
        self._keys = () if file is None else _read(file)

    def current(self) -> tuple[SecretKey, ...]:
        """Return the keys, the one for new hashes first; a file that became bad changes nothing."""
        if self._file is None or self._clock() - self._looked_at < LOOK_SECONDS:
            return self._keys
        with self._lock:
            self._looked_at = self._clock()
            state = _state(self._file)
            if state != self._seen:
                self._seen = state
                self._read_again(self._file)
        return self._keys

    def _read_again(self, file: Path) -> None:
        try:
            self._keys = _read(file)
        except SecretKeysError as error:
            _log.error("secret keys kept as they were", reason=error.message)
        else:
            _log.info("secret keys read again", ids=[one.key_id for one in self._keys])


def _key(line: str, place: str) -> SecretKey:
    key_id, separator, encoded = line.partition(":")
    if not separator or _KEY_ID.fullmatch(key_id) is None:
        raise SecretKeysError(f"{place}: does not begin with an id and a colon.", hint=_FORM)
    try:
        key = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise SecretKeysError(f"{place}: what follows the id is not base64.", hint=_FORM) from None
    if len(key) < MIN_KEY_BYTES:
        raise SecretKeysError(
            f"{place}: the key has {len(key)} bytes, and needs {MIN_KEY_BYTES}.", hint=_FORM
        )
    return SecretKey(key_id=key_id, key=key)


def _read(file: Path) -> tuple[SecretKey, ...]:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_FILE_BYTES + 1)
        text = raw.decode("ascii")
    except OSError as error:
        raise SecretKeysError(
            f"VRAMGATE_SECRET_KEYS_FILE is {file}, which cannot be read: {error.strerror}."
        ) from error
    except UnicodeDecodeError:
        raise SecretKeysError(f"{file} is not plain text.", hint=_FORM) from None
    if len(raw) > MAX_FILE_BYTES:
        raise SecretKeysError(f"{file} is longer than {MAX_FILE_BYTES} bytes.", hint=_FORM)
    return parse_secret_keys(text, name=str(file))


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return what changes when the file is written or replaced; None where it is missing."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
