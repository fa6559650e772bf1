"""The tables of the accuracy report, laid out for a terminal."""

import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vramgate.accuracy.tables import TextTable
from vramgate.cli.bill import PIPE_WIDTH

HEADER_WIDTH = 13
"""Headers are broken into lines, so that columns are as wide as their figures."""


def print_tables(tables: Sequence[TextTable]) -> None:
    """Print the tables; a pipe gets wide lines without colour."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    for table in tables:
        console.print(Text(f"\n{table.title}", style="bold"))
        console.print(_laid_out(table))
        if table.note:
            console.print(Text(table.note, style="dim"))


def _laid_out(table: TextTable) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(table.headers):
        is_prose = index < table.prose_columns
        shown.add_column(
            Text(textwrap.fill(header, HEADER_WIDTH)),
            justify="left" if is_prose else "right",
            no_wrap=not is_prose,
            overflow="fold",
        )
    for row in table.rows:
        last = row[0] == "all"
        shown.add_row(*map(Text, row), style="bold" if last else None)
    return shown
