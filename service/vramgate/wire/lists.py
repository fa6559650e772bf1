"""Lists: the shape they all have, and the cursor that leads to the next page."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from pydantic import BaseModel

from vramgate.errors import DomainError

_POSITIONS = 2**63
"""Positions are 64-bit integers."""

_Item = TypeVar("_Item")
_Shape = TypeVar("_Shape", bound=BaseModel)


class Page(BaseModel, Generic[_Shape]):
    """Some items of a list, and the cursor of what follows."""

    items: list[_Shape]
    next_cursor: str | None


class InvalidCursorError(DomainError):
    """The cursor was not given by this list, or by this list under other filters."""

    code = "invalid_cursor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Generic[_Item]):
    """The items of one page, and the cursor of what follows."""

    items: Sequence[_Item]
    next_cursor: str | None


def slice_after(
    items: Sequence[_Item],
    *,
    key: Callable[[_Item], str],
    limit: int,
    cursor: str | None,
    filters: str,
) -> Slice[_Item]:
    """Return the ``limit`` items that follow the one the cursor names.

    Raises:
        InvalidCursorError: the cursor belongs to no item here, or to other filters.
    """
    start = 0
    if cursor is not None:
        last = key_in_cursor(cursor, filters)
        keys = [key(item) for item in items]
        if last not in keys:
            raise invalid_cursor()
        start = keys.index(last) + 1
    chosen = items[start : start + limit]
    has_more = start + limit < len(items)
    return Slice(
        items=chosen, next_cursor=cursor_of(key(chosen[-1]), filters) if has_more else None
    )


def cursor_of(key: str, filters: str) -> str:
    """Return the cursor of what follows the item with the key, in a list under these filters."""
    text = json.dumps([key, _digest(filters)])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def key_in_cursor(cursor: str, filters: str) -> str:
    """Return the key of the item that the cursor stands behind.

    Raises:
        InvalidCursorError: this list did not give it, or gave it under other filters.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key, digest = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise invalid_cursor() from None
    if digest != _digest(filters) or not isinstance(key, str):
        raise invalid_cursor()
    return key


def moment_cursor(moment: datetime, key: str, filters: str) -> str:
    """Return the cursor of what follows an item, in a list that runs by time and then by key."""
    return cursor_of(f"{moment.astimezone(UTC).isoformat()} {key}", filters)


def moment_in_cursor(cursor: str, filters: str) -> tuple[datetime, str]:
    """Return the time and the key that the cursor stands behind.

    Raises:
        InvalidCursorError: this list did not give it, or gave it under other filters.
    """
    text, _, key = key_in_cursor(cursor, filters).partition(" ")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid_cursor() from None
    if moment.utcoffset() != timedelta(0):
        raise invalid_cursor()
    return moment, key


def place_cursor(received_at: datetime, position: int, filters: str) -> str:
    """Return the cursor of what follows a place, in a list that runs by time and position."""
    return moment_cursor(received_at, str(position), filters)


def place_in_cursor(cursor: str, filters: str) -> tuple[datetime, int]:
    """Return the time and position that the cursor stands behind.

    Raises:
        InvalidCursorError: this list did not give it, or gave it under other filters.
    """
    received_at, position = moment_in_cursor(cursor, filters)
    try:
        place = int(position)
    except ValueError:
        raise invalid_cursor() from None
    if not 0 <= place < _POSITIONS:
        raise invalid_cursor()
    return received_at, place


def _digest(filters: str) -> str:
    return hashlib.sha256(filters.encode()).hexdigest()[:8]


def invalid_cursor() -> InvalidCursorError:
    """Return the failure that a cursor is which this list cannot have given."""
    return InvalidCursorError(
        "The cursor is not one that this list gave with these filters.",
        hint="Take next_cursor as it was given, or start anew without one.",
    )
