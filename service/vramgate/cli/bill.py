"""The answer to an estimate, laid out for a terminal."""

import json
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vramgate.units import format_gib
from vramgate.wire.estimates import EstimateResponse

BAR_WIDTH = 24
PIPE_WIDTH = 120
_EIGHTHS = " ▏▎▍▌▋▊▉"
_CERTAIN = 0.9999
_UNLIKELY = 0.0001


def print_bill(answer: EstimateResponse) -> None:
    """Print the answer; a pipe gets wide lines without colour."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPE_WIDTH)
    console.print(bill(answer))


def bill(answer: EstimateResponse) -> Group:
    """Return the whole answer: verdict, peak, bill, timeline, assumptions, warnings."""
    sections: list[RenderableType] = [_title(answer), _verdict(answer)]
    sections += _section("Peak", _peak(answer))
    sections += _section(f"Bill at the peak ({_where(answer)})", _lines(answer))
    sections += _section("Timeline of a step", _timeline(answer))
    if answer.assumptions:
        sections += _section("Taken, because nobody said it", _assumptions(answer))
    if answer.warnings:
        sections += _section("Warnings", _warnings(answer))
    return Group(*sections)


def bar(part: int, whole: int, *, width: int = BAR_WIDTH) -> str:
    """Return a bar of ``part`` in ``whole``, in eighths of a character.

    >>> bar(1, 2, width=4), bar(1, 32, width=4), bar(0, 1, width=4)
    ('██', '▏', '')
    """
    eighths = 0 if whole <= 0 else round(part * width * 8 / whole)
    if part > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    return "█" * full + _EIGHTHS[rest].strip()


def _section(title: str, body: RenderableType) -> list[RenderableType]:
    return [Text(f"\n{title}", style="bold"), Padding(body, (0, 0, 0, 2))]


def _title(answer: EstimateResponse) -> Text:
    model = answer.model
    trained = f"{model.trainable_parameters:,} of {model.parameters:,} parameters trained"
    return Text.assemble((model.name, "bold"), f", {trained}")


def _verdict(answer: EstimateResponse) -> Text:
    capacity, peak = answer.capacity, answer.peak
    required = format_gib(peak.required_bytes)
    if capacity is None or answer.headroom_bytes is None:
        return Text(f"Requires {required} a card; name an accelerator to see whether it fits.")
    word, style = ("Fits", "bold green") if answer.fits else ("Does not fit", "bold red")
    room = format_gib(abs(answer.headroom_bytes))
    return Text.assemble(
        (word, style),
        f" {capacity.accelerator}: requires {required} of {format_gib(capacity.usable_bytes)}, ",
        f"{room} {'to spare' if answer.fits else 'too much'}; ",
        f"runs out of memory with {_probability(answer.oom_probability)} probability.",
    )


def _probability(value: float | None) -> str:
    if value is None:
        return "unknown"
    if value < _UNLIKELY:
        return "under 0.01 %"
    if value > _CERTAIN:
        return "over 99.99 %"
    return _percent(value)


def _percent(share: float) -> str:
    """Return a share in percent, to four digits at most.

    >>> _percent(0.01), _percent(0.12345)
    ('1 %', '12.35 %')
    """
    return f"{100 * share:.4g} %"


def _where(answer: EstimateResponse) -> str:
    phase = answer.peak.phase.replace("_", " ")
    return f"{phase}, {answer.peak.rank}" if answer.peak.rank else phase


def _peak(answer: EstimateResponse) -> Table:
    peak = answer.peak
    rows = [
        ("allocated", peak.allocated_bytes, "what tensors take"),
        ("required", peak.required_bytes, "the least a card must offer for the run to live"),
        ("reserved", peak.reserved_bytes, "what torch's meter will show on this card"),
        ("device", peak.device_bytes, "what nvidia-smi will show on this card"),
        (
            "upper bound",
            peak.upper_bytes,
            f"required, exceeded with at most {_percent(peak.risk)} probability",
        ),
    ]
    return _bars((name, size, meaning) for name, size, meaning in rows)


def _lines(answer: EstimateResponse) -> Table:
    total = answer.peak.allocated_bytes
    return _bars(
        (
            _plain(line.component),
            line.bytes,
            f"{line.bytes / max(total, 1):4.0%}".replace("%", " %")
            + f"  {line.formula}{f' ({line.note})' if line.note else ''}",
        )
        for line in answer.bill
    )


def _timeline(answer: EstimateResponse) -> Table:
    peak = answer.peak
    return _bars(
        (
            _plain(phase.phase),
            phase.allocated_bytes,
            _moment(phase.moment, phase.phase == peak.phase),
        )
        for phase in answer.timeline
    )


def _moment(moment: str, is_peak: object) -> str:
    return f"{moment} ← peak" if is_peak else moment


def _assumptions(answer: EstimateResponse) -> Table:
    table = _grid(2)
    for one in answer.assumptions:
        table.add_row(
            Text(one.field), Text(f"{_value(one.value)}  ({one.source})", overflow="fold")
        )
    return table


def _value(value: object) -> str:
    """Return a value of the answer as its JSON has it, an empty list as "none"."""
    if value == []:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _warnings(answer: EstimateResponse) -> Table:
    table = _grid(2)
    for one in answer.warnings:
        table.add_row(Text("!", style="bold yellow"), Text(one.message, overflow="fold"))
    return table


def _bars(rows: Iterable[tuple[str, int, str]]) -> Table:
    listed = list(rows)
    largest = max((size for _, size, _ in listed), default=0)
    table = _grid(4)
    table.columns[2].justify = "right"
    for name, size, words in listed:
        table.add_row(
            Text(name, no_wrap=True),
            Text(bar(size, largest), style="cyan", no_wrap=True),
            Text(format_gib(size), no_wrap=True),
            Text(words, overflow="fold"),
        )
    table.columns[1].width = BAR_WIDTH
    return table


def _grid(columns: int) -> Table:
    table = Table.grid(padding=(0, 1))
    for _ in range(columns):
        table.add_column()
    return table


def _plain(word: str) -> str:
    return word.replace("_", " ")
