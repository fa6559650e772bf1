"""Damaged launches: ``python -m tests.launch.fuzz SECONDS [SEED]``.

Golden launches are cut, doubled, spliced and strewn with what breaks parsers, and read whole: whatever
comes in, the answer is a reading or an expected failure, and soon. What is neither is printed with the
launch that made it.
"""

import json
import random
import signal
import string
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tests.launch.goldens import goldens
from vramgate.catalog.site import Catalogs
from vramgate.errors import DomainError
from vramgate.wire.launch import LaunchIn
from vramgate.wire.reports import ReportedLaunchIn
from vramgate.wire.validation import validated
from vramgate.workflows.load_catalogs import load_catalogs
from vramgate.workflows.read_launch import launched_job, parsed

LONGEST_SECONDS = 10
MOST_SHOWN = 20
_LARGE = 200_000

# What has broken parsers: of shells, of YAML, of JSON, of numbers, of text.
NASTY = (
    "'", '"', "`", "$(", "${", "$((", "))", "}", "\\", "\\\n", "<<EOF\n", "EOF\n", ";", "&&", "|",
    "&", "(", ")", "((", "[[", "{a,b}", "{1..99}", "$@", "${A[@]}", "${A:=${A}}", "~", "*", "!",
    "#", "\t", "\r\n", "\0", "\ufeff", "\u202e", "\ud800", "😀", "&a [*a]", "*a", "<<: *a", "- ",
    "? ", "!!python/object:x", "!!binary x", "---\n", "...\n", "%", "{}", "[]", "null", "~", "true",
    "no", "0x", "0o8", "1e999", "-1", "NaN", "inf", "99999999999999999999", "1:30", "0.0", "-0",
    "=", "==", "--", "---x", "--x=", "--x=y=z", "-", "/*", "//", "$HOME", "$1", "${1:-2}", "auto",
    "gpu:4", "all-linear", "(a+)+$", "\n\n", " " * 300, "[" * 300, "{" * 300, "a" * 3000,
    "if true; then", "fi", "for x in 1 2; do", "done", "f() { f; }; f", "eval", "bash -c",
)  # fmt: skip

Value = Any


@dataclass
class Tally:
    """What became of the launches."""

    read: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def told(self) -> str:
        """Return it in a line."""
        return (
            f"{self.read + self.refused.total():,} launches: {self.read:,} read, refused "
            f"{dict(self.refused)}; the slowest took {self.slowest_seconds:.2f} s; "
            f"{len(self.failures)} failures"
        )


class TooLongError(Exception):
    """A launch took longer than any may."""


def fuzz(chance: random.Random, *, seconds: float | None = None, count: int | None = None) -> Tally:
    """Read damaged launches for a time, or so many of them."""
    corpus = [dict(golden.launch) for golden in goldens()]
    catalogs, tally, until = load_catalogs(None), Tally(), time.monotonic() + (seconds or 1e9)
    done = 0
    while time.monotonic() < until and (count is None or done < count):
        done += 1
        launch = chance.choice(corpus)
        for _ in range(chance.choice((1, 1, 2, 3, 8))):
            launch = _damaged_launch(launch, chance, corpus)
        _read(launch, catalogs, tally)
    return tally


def _read(launch: dict[str, Value], catalogs: Catalogs, tally: Tally) -> None:
    began = time.perf_counter()
    try:
        with _within(LONGEST_SECONDS):
            try:
                given = validated(LaunchIn, launch).to_domain({})
            except DomainError:
                # Not let in at all; the reporter's form lets in more.
                given = validated(ReportedLaunchIn, launch).to_domain()
            parsed(launched_job(given), catalogs)
        tally.read += 1
    except DomainError as error:
        tally.refused[error.code] += 1
    except Exception:  # noqa: BLE001 what is looked for
        shown = json.dumps(launch, ensure_ascii=True, default=str)[:_LARGE]
        tally.failures.append(f"{traceback.format_exc(limit=-6)}\n{shown}")
    tally.slowest_seconds = max(tally.slowest_seconds, time.perf_counter() - began)


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _damaged_launch(
    launch: dict[str, Value], chance: random.Random, corpus: list[dict[str, Value]]
) -> dict[str, Value]:
    damaged = dict(launch)
    name = chance.choice(sorted(damaged))
    if name == "framework" and chance.random() < 0.9:
        name = "config" if "config" in damaged else name
    other = chance.choice(corpus).get(name)
    damaged[name] = _damaged(damaged[name], chance, other)
    return damaged


def _damaged(value: Value, chance: random.Random, other: Value) -> Value:
    """Return a value with one thing wrong somewhere in it."""
    if isinstance(value, str):
        return _damaged_text(value, chance, other if isinstance(other, str) else "")
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value, key=str))
        kept = dict(value)
        how = chance.random()
        if how < 0.1:
            del kept[key]
        elif how < 0.2:
            kept[chance.choice(NASTY)] = kept.pop(key)
        elif how < 0.3:
            kept[key] = _any_value(chance)
        else:
            inner = other.get(key) if isinstance(other, dict) else None
            kept[key] = _damaged(value[key], chance, inner)
        return kept
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        items = list(value)
        items[place] = _damaged(items[place], chance, None)
        if chance.random() < 0.2:
            items = items[:place] + items[place + 1 :] + items[: chance.randrange(3)]
        return items
    return _any_value(chance)


def _damaged_text(text: str, chance: random.Random, other: str) -> str:
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.choice((0, 1, 2, 5, 20, 100)))
    how = chance.randrange(7)
    if how == 0:
        return text[:start] + text[end:]
    if how == 1:
        return text[:end] + text[start:]
    if how == 2:
        return text[:start] + "".join(chance.choices(string.printable, k=5)) + text[end:]
    if how == 3 and other:
        begin = chance.randrange(len(other))
        return text[:start] + other[begin : begin + 200] + text[end:]
    if how == 4 and len(text) < _LARGE:
        return text[:start] + text[start:end] * 50 + text[end:]
    return text[:start] + chance.choice(NASTY) + text[end:]


def _any_value(chance: random.Random) -> Value:
    return chance.choice(
        [None, True, 0, -1, 8, 2**70, 1e308, 0.5, "", "8", "x", [], {}, [[]], [1, "a"], {"a": 1},
         {"": {}}, chance.choice(NASTY)]
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Fuzz for the seconds that are given; 1 where something failed."""
    seconds = float(arguments[0]) if arguments else 600.0
    seed = int(arguments[1]) if len(arguments) > 1 else int(time.time())
    sys.stdout.write(f"seed {seed}\n")
    tally = fuzz(random.Random(seed), seconds=seconds)
    sys.stdout.write(tally.told() + "\n")
    for failure in dict.fromkeys(tally.failures[:MOST_SHOWN]):
        sys.stdout.write(f"\n{failure}\n")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
