"""Reports as a file, whatever its size: page by page, up to where the reports stood at its start."""

import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

from anyio import to_thread

from vramgate.calibration.stored_report import StoredReport
from vramgate.persistence.engine import Database
from vramgate.persistence.report_keys import Place
from vramgate.persistence.report_lists import (
    Selection,
    Stretch,
    last_place,
    place_of,
    select_reports,
)
from vramgate.wire.report_table import COLUMNS, Kind, columns_of, csv_header, csv_lines

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_A_PAGE = 2_000
"""Some megabytes. Also the rows of one group of a Parquet file."""
BYTES_A_PIECE = 2**18


class ReportExport:
    """The reports of a selection as they stood at one place.

    A report that changes while the export runs moves behind its end: it is left out, and is the
    first of what the list gives behind ``end``.
    """

    def __init__(self, database: Database, chosen: Selection, end: Place) -> None:
        self._database = database
        self._chosen = chosen
        self.end = end

    @classmethod
    async def begin(cls, database: Database, chosen: Selection) -> "ReportExport":
        """Return an export of what is visible now."""
        async with database.reading() as connection:
            return cls(database, chosen, await last_place(connection))

    async def pages(self) -> AsyncIterator[list[StoredReport]]:
        """Yield the reports, oldest change first; each page is a short transaction of its own."""
        stretch = Stretch(last=self.end, limit=ROWS_A_PAGE)
        while True:
            async with self._database.reading() as connection:
                found = await select_reports(connection, self._chosen, stretch)
            if found.reports:
                yield found.reports
            after = found.searched_to
            if len(found.reports) == ROWS_A_PAGE:
                after = place_of(found.reports[-1])
            if after is None:
                return
            stretch = replace(stretch, after=after)

    async def csv(self) -> AsyncIterator[bytes]:
        """Yield the table as CSV in UTF-8, its names in the first line."""
        yield csv_header().encode()
        async for page in self.pages():
            yield (await to_thread.run_sync(csv_lines, page)).encode()

    async def parquet(self) -> IO[bytes]:
        """Return the table as an open Parquet file that is gone from the disk once it is closed."""
        file = tempfile.TemporaryFile(prefix="vramgate-export-")  # noqa: SIM115 the reader closes it
        try:
            writer = await to_thread.run_sync(_parquet_writer, file)
            async for page in self.pages():
                await to_thread.run_sync(_add_row_group, writer, page)
            await to_thread.run_sync(writer.close)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file


async def pieces_of(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield what the file holds, then close it."""
    try:
        while piece := await to_thread.run_sync(file.read, BYTES_A_PIECE):
            yield piece
    finally:
        file.close()


def _parquet_writer(file: IO[bytes]) -> Any:  # noqa: ANN401 pyarrow has no types
    import pyarrow.parquet as pq  # noqa: PLC0415 a hundred megabytes that most services never need

    return pq.ParquetWriter(file, _schema(), compression="zstd")


def _add_row_group(writer: Any, page: list[StoredReport]) -> None:  # noqa: ANN401 pyarrow has no types
    import pyarrow as pa  # noqa: PLC0415 as above

    writer.write_table(pa.table(columns_of(page), schema=_schema()))


def _schema() -> "pa.Schema":
    import pyarrow as pa  # noqa: PLC0415 as above

    types = {
        Kind.TEXT: pa.string(),
        Kind.INTEGER: pa.int64(),
        Kind.NUMBER: pa.float64(),
        Kind.MOMENT: pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(column.name, types[column.kind]) for column in COLUMNS])
