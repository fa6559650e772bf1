"""Tables as Markdown, for the README."""

from collections.abc import Sequence

from vramgate.accuracy.tables import TextTable


def as_markdown(tables: Sequence[TextTable]) -> str:
    """Return the tables one after the other, each with its title and its note."""
    return "\n\n".join(_table(table) for table in tables) + "\n"


def _table(table: TextTable) -> str:
    figures = len(table.headers) - table.prose_columns
    rule = ["---"] * table.prose_columns + ["---:"] * figures
    lines = [f"**{table.title}**", "", _line(table.headers), _line(rule)]
    lines += [_line(row) for row in table.rows]
    if table.note:
        lines += ["", table.note]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    r"""Return one row.

    >>> print(_line(["a|b", "1"]))
    | a\|b | 1 |
    """
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
