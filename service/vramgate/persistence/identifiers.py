"""Identifiers that sort by the time they were made."""

import secrets
import threading
import time
import uuid

_RANDOM_BITS = 74
"""What UUIDv7 leaves beside its 48 bits of milliseconds, its version and its variant."""
_LOW_BITS = 62
_VERSION = 0x7
_VARIANT = 0b10


class _Clock:
    """Gives (milliseconds, random) pairs, each larger than the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = (0, 0)

    def next(self) -> tuple[int, int]:
        """Return the present millisecond and a random tail.

        Within one millisecond, and while the clock stands behind what was given, the tail counts
        up from where it was (RFC 9562, 6.2, method 2), and steps over into the next millisecond.
        """
        with self._lock:
            now = time.time_ns() // 1_000_000
            last, tail = self._last
            if now > last:
                # The highest bit is left free, so that counting up has room.
                self._last = (now, secrets.randbits(_RANDOM_BITS - 1))
            else:
                tail += 1 + secrets.randbits(32)
                self._last = (last + (tail >> _RANDOM_BITS), tail % (1 << _RANDOM_BITS))
            return self._last


_CLOCK = _Clock()


def time_ordered_id() -> str:
    """Return a new UUID of version 7 (RFC 9562, 5.7).

    Texts sort as they were made: within a process strictly, between processes to the millisecond.
    """
    milliseconds, tail = _CLOCK.next()
    high, low = tail >> _LOW_BITS, tail & ((1 << _LOW_BITS) - 1)
    value = milliseconds << 80 | _VERSION << 76 | high << 64 | _VARIANT << 62 | low
    return str(uuid.UUID(int=value))
