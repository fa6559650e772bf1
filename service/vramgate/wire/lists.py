"""Lists: the shape they all have, and the cursor that leads to the next page."""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from vramgate.errors import DomainError

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
        last = _key_in(cursor, filters)
        keys = [key(item) for item in items]
        if last not in keys:
            raise _invalid_cursor()
        start = keys.index(last) + 1
    chosen = items[start : start + limit]
    has_more = start + limit < len(items)
    return Slice(items=chosen, next_cursor=_cursor(key(chosen[-1]), filters) if has_more else None)


def _cursor(key: str, filters: str) -> str:
    text = json.dumps([key, _digest(filters)])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _key_in(cursor: str, filters: str) -> str:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key, digest = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise _invalid_cursor() from None
    if digest != _digest(filters) or not isinstance(key, str):
        raise _invalid_cursor()
    return key


def _digest(filters: str) -> str:
    return hashlib.sha256(filters.encode()).hexdigest()[:8]


def _invalid_cursor() -> InvalidCursorError:
    return InvalidCursorError(
        "The cursor is not one that this list gave with these filters.",
        hint="Take next_cursor as it was given, or start anew without one.",
    )
