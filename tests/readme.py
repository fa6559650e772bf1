"""The parts of the README that are computed: ``python -m tests.readme`` writes them anew."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.accuracy.bundled import bundled_report
from tests.costmodel.worked_numbers import NUMBERS, answers
from vramgate.accuracy.markdown import as_markdown
from vramgate.accuracy.tables import TextTable, accuracy_tables

README = Path(__file__).parents[1] / "README.md"


def accuracy_section() -> str:
    """Return what ``vramgate accuracy --markdown`` prints."""
    return as_markdown(accuracy_tables(bundled_report()))


def numbers_section() -> str:
    """Return the numbers people know, the service's answers, and the jobs they were asked with."""
    rows = tuple(
        (f"{place}", number.said, number.shown(number.answer(answer)), number.why)
        for place, (number, answer) in enumerate(zip(NUMBERS, answers(), strict=True), start=1)
    )
    table = TextTable(
        title="As answers of the service",
        headers=("", "what people say", "the service’s answer", "why"),
        rows=rows,
        prose_columns=4,
    )
    jobs = "\n".join(
        f"{place:2}  {json.dumps(number.job)}" for place, number in enumerate(NUMBERS, start=1)
    )
    return (
        f"{as_markdown([table])}\n<details><summary>The jobs, for <code>vramgate estimate</code> or "
        f"<code>POST /v1/estimates</code></summary>\n\n```\n{jobs}\n```\n\n</details>\n"
    )


SECTIONS: Mapping[str, Callable[[], str]] = {
    "accuracy": accuracy_section,
    "numbers": numbers_section,
}
"""What stands between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``."""


def section(name: str, text: str) -> str:
    """Return what a README holds under a name."""
    found = _markers(name).search(text)
    assert found is not None, f"the README has no section {name}"
    return found["held"].strip("\n") + "\n"


def _with_section(name: str, text: str, held: str) -> str:
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    return _markers(name).sub(lambda _: f"{begin}\n\n{held.strip()}\n\n{end}", text)


def _markers(name: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {name}:begin -->(?P<held>.*?)<!-- {name}:end -->", re.DOTALL)


def main() -> None:
    """Write every computed section of the README anew."""
    text = README.read_text(encoding="utf-8")
    for name, made in SECTIONS.items():
        text = _with_section(name, text, made())
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
