"""GroupCommit: many requests, one commit.

A commit waits for the disk. While one is under way, whatever else comes in waits together and goes
into the next one, so a thousand small writers cost about as many commits as one of them would make.
Each is answered after the commit that holds its row.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from vramgate.errors import DomainError
from vramgate.persistence.engine import Database, DatabaseUnavailableError

_log = logging.getLogger("vramgate.persistence")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Write = Callable[[AsyncConnection, Sequence[_Item]], Awaitable[Sequence[_Result]]]
"""Writes the items in the given transaction and returns a result for each, in order."""


class OverloadedError(DomainError):
    """More waits to be written than the service will hold; nothing of this was taken."""

    code = "overloaded"


class StoppingError(DomainError):
    """The service is stopping; nothing of this was taken."""

    code = "database_unavailable"


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[_Item, _Result]):
    item: _Item
    weight: int
    done: asyncio.Future[_Result]


class GroupCommit(Generic[_Item, _Result]):
    """One writer for many requests; ``run`` must run while anything is submitted."""

    def __init__(
        self,
        database: Database,
        write: Write[_Item, _Result],
        *,
        write_alone: Write[_Item, _Result],
        most_rows: int,
        most_waiting_rows: int,
        most_seconds: float | None = None,
        is_one_statement: bool = False,
    ) -> None:
        """Prepare a writer.

        ``write_alone`` writes one item whose group failed. A commit takes items of ``most_rows``
        rows together, and at least one; beyond ``most_waiting_rows`` new items are refused. A
        transaction that takes longer than ``most_seconds`` is given up, as one of a database that
        is away. ``is_one_statement`` says that writing is a single one on PostgreSQL.
        """
        self._is_one_statement = is_one_statement
        self._database = database
        self._write = write
        self._write_alone = write_alone
        self._most_rows = most_rows
        self._most_waiting_rows = most_waiting_rows
        self._most_seconds = most_seconds
        self._waiting: deque[_Waiting[_Item, _Result]] = deque()
        self._waiting_rows = 0
        self._wake = asyncio.Event()
        self._is_closed = False

    async def submit(self, item: _Item, *, rows: int = 1) -> _Result:
        """Return the result of the item once it is committed.

        Raises:
            DatabaseUnavailableError: the database does not answer.
            OverloadedError: too much is waiting.
            Exception: what writing this very item raised.
        """
        if self._is_closed:
            raise StoppingError(
                "The service is stopping; nothing was taken.", hint="Send it again."
            )
        if self._waiting_rows + rows > self._most_waiting_rows and self._waiting:
            raise OverloadedError(
                f"{self._waiting_rows:,} rows wait to be written already; nothing was taken.",
                hint="Send it again in a moment.",
            )
        done: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(item, rows, done)
        self._waiting.append(waiting)
        self._waiting_rows += rows
        self._wake.set()
        return await done

    async def run(self) -> None:
        """Write what is submitted until ``close`` was called and nothing waits."""
        while not (self._is_closed and not self._waiting):
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            group = self._next_group()
            if group:
                await self._commit(group)

    def close(self) -> None:
        """Take nothing more; ``run`` ends once everything taken is written."""
        self._is_closed = True
        self._wake.set()

    def _next_group(self) -> list[_Waiting[_Item, _Result]]:
        """Return what is written next, without the items that nobody waits for any more."""
        group: list[_Waiting[_Item, _Result]] = []
        rows = 0
        while self._waiting and (not group or rows + self._waiting[0].weight <= self._most_rows):
            one = self._waiting.popleft()
            self._waiting_rows -= one.weight
            if not one.done.done():
                rows += one.weight
                group.append(one)
        return group

    async def _commit(self, group: list[_Waiting[_Item, _Result]]) -> None:
        try:
            results = await self._in_one_transaction(self._write, [one.item for one in group])
        except DatabaseUnavailableError as error:
            _refuse(group, error)
        except Exception:  # noqa: BLE001 each is told its own error below
            # Something about one of them; it must not take the others down.
            _log.exception(
                "a group of writes failed; each is written alone", extra={"n": len(group)}
            )
            for one in group:
                await self._commit_alone(one)
        else:
            for one, result in zip(group, results, strict=True):
                if not one.done.done():
                    one.done.set_result(result)

    async def _commit_alone(self, one: _Waiting[_Item, _Result]) -> None:
        try:
            (result,) = await self._in_one_transaction(self._write_alone, [one.item])
        except Exception as error:  # noqa: BLE001 the request's own, raised where it waits
            _refuse([one], error)
        else:
            if not one.done.done():
                one.done.set_result(result)

    async def _in_one_transaction(
        self, write: Write[_Item, _Result], items: Sequence[_Item]
    ) -> Sequence[_Result]:
        return await in_one_transaction(
            self._database,
            lambda connection: write(connection, items),
            most_seconds=self._most_seconds,
            is_one_statement=self._is_one_statement,
        )


async def in_one_transaction(
    database: Database,
    write: Callable[[AsyncConnection], Awaitable[_Result]],
    *,
    most_seconds: float | None = None,
    is_one_statement: bool = False,
) -> _Result:
    """Return what is written, once it is committed; ``is_one_statement`` as of ``GroupCommit``.

    Raises:
        DatabaseUnavailableError: the database does not answer, or not within ``most_seconds``.
            Whether the commit took place is then not known.
    """
    begin = database.writing_at_once if is_one_statement else database.writing
    try:
        async with asyncio.timeout(most_seconds), begin() as connection:
            return await write(connection)
    except TimeoutError as error:
        raise DatabaseUnavailableError(
            f"The database does not answer within {most_seconds:g} s."
        ) from error


def _refuse(group: Sequence[_Waiting[_Item, _Result]], error: Exception) -> None:
    for one in group:
        if not one.done.done():
            one.done.set_exception(error)
