"""What a few programs print, where it follows from their words alone."""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from vramgate.launch.shell.ansi import decoded

LONGEST = 1024 * 1024
"""Characters that one output may have."""
_MOST_NUMBERS = 4096
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_DIRECTIVE = re.compile(r"%(?:(%)|(-?0?[0-9]{0,3})(?:\.([0-9]{1,3}))?([sdibqx]))")
_FIELD_FLAG = re.compile(r"-([dfn])(.*)", re.DOTALL)

Printer = Callable[[Sequence[str], str | None], str | None]
"""Takes the words behind the program and its input; None where its output cannot be told."""


def prints(name: str) -> bool:
    """Return whether what the program prints can be told from its words."""
    return name in _PRINTERS


def output_of(words: Sequence[str], given: str | None) -> str | None:
    """Return what a program prints; None where it cannot be told.

    >>> print(output_of(["expr", "8", "*", "4"], None), end="")
    32
    """
    printer = _PRINTERS.get(words[0]) if words else None
    printed = printer(words[1:], given) if printer is not None else None
    return printed if printed is not None and len(printed) <= LONGEST else None


def _echo(words: Sequence[str], _given: str | None) -> str:
    ending, escapes = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        ending = "" if "n" in words[0] else ending
        escapes = words[0].rfind("e") > words[0].rfind("E")
        words = words[1:]
    text = " ".join(words)
    return (decoded(text) if escapes else text) + ending


def _printf(words: Sequence[str], _given: str | None) -> str | None:
    words = words[1:] if words and words[0] == "--" else words
    if not words or words[0].startswith("-"):
        return None
    form, rest = words[0], list(words[1:])
    # Escapes of the form, not of the words put into it.
    parts = _DIRECTIVE.split(form)
    if any("%" in part for part in parts[::5]):
        return None
    found: list[str] = []
    while True:
        before = len(rest)
        for index in range(0, len(parts), 5):
            found.append(decoded(parts[index]))
            if index + 1 < len(parts):
                put = _put(parts[index + 1 : index + 5], rest)
                if put is None:
                    return None
                found.append(put)
        if not rest or len(rest) == before:
            return "".join(found)


def _put(directive: Sequence[str | None], rest: list[str]) -> str | None:
    percent, width, precision, kind = directive
    if percent:
        return "%"
    word = rest.pop(0) if rest else ("" if kind in {"s", "b", "q"} else "0")
    if kind in {"q", "x"}:
        return None
    if kind in {"d", "i"}:
        if not _WHOLE.fullmatch(word):
            return None
        word = str(int(word))
        if precision is not None:
            return None
    elif kind == "b":
        word = decoded(word)
    word = word if precision is None else word[: int(precision)]
    width = width or ""
    if width.startswith("-"):
        return word.ljust(int(width[1:] or 0))
    if width.startswith("0") and kind != "s":
        return word.zfill(int(width))
    return word.rjust(int(width or 0))


def _cat(words: Sequence[str], given: str | None) -> str | None:
    return given if not words or list(words) == ["-"] else None


def _tee(_words: Sequence[str], given: str | None) -> str | None:
    return given


def _expr(words: Sequence[str], _given: str | None) -> str | None:
    if not all(_WHOLE.fullmatch(word) for word in words[::2]) or len(words) % 2 == 0:
        return None
    # Products first; other operators than these five are not told.
    terms, signs = [int(words[0])], list[str]()
    for operator, word in zip(words[1::2], words[2::2], strict=True):
        number = int(word)
        if operator in {"+", "-"}:
            signs.append(operator)
            terms.append(number)
        elif operator == "*":
            terms[-1] *= number
        elif operator in {"/", "%"} and number:
            quotient = abs(terms[-1]) // abs(number)
            quotient = quotient if (terms[-1] < 0) == (number < 0) else -quotient
            terms[-1] = quotient if operator == "/" else terms[-1] - quotient * number
        else:
            return None
    total = terms[0] + sum(
        term if sign == "+" else -term for sign, term in zip(signs, terms[1:], strict=True)
    )
    return f"{total}\n" if abs(total) < 1 << 63 else None


def _basename(words: Sequence[str], _given: str | None) -> str | None:
    if not words or words[0].startswith("-") or words[2:]:
        return None
    path = words[0].rstrip("/")
    name = path.rpartition("/")[2] if path else words[0][:1]
    suffix = words[1] if len(words) > 1 else ""
    return (name.removesuffix(suffix) if name != suffix else name) + "\n"


def _dirname(words: Sequence[str], _given: str | None) -> str | None:
    if len(words) != 1 or words[0].startswith("-"):
        return None
    path = words[0].rstrip("/") or words[0][:1]
    return (posixpath.dirname(path).rstrip("/") or path[:1] if "/" in path else ".") + "\n"


def _seq(words: Sequence[str], _given: str | None) -> str | None:
    if not words or words[3:] or not all(_WHOLE.fullmatch(word) for word in words):
        return None
    numbers = [int(word) for word in words]
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if numbers[2:] else 1
    if not step or abs(numbers[-1] - first) // abs(step) > _MOST_NUMBERS:
        return None
    values = range(first, numbers[-1] + (1 if step > 0 else -1), step)
    return "".join(f"{value}\n" for value in values)


def _tr(words: Sequence[str], given: str | None) -> str | None:
    if given is None or not words[1:] or words[2:] or words[0].startswith("--"):
        return None
    first, second = decoded(words[0]), decoded(words[1])
    if first == "-d":
        return None if _is_set(second) else given.translate(dict.fromkeys(map(ord, second)))
    if first.startswith("-") or _is_set(first) or _is_set(second) or not second:
        return None
    second += second[-1] * (len(first) - len(second))
    return given.translate(dict(zip(map(ord, first), second, strict=False)))


def _is_set(text: str) -> bool:
    return "[" in text or ("-" in text[1:-1])


def _wc(words: Sequence[str], given: str | None) -> str | None:
    if given is None or list(words) not in (["-l"], ["-w"]):
        return None
    count = given.count("\n") if words[0] == "-l" else len(given.split())
    return f"{count}\n"


def _cut(words: Sequence[str], given: str | None) -> str | None:
    flags: dict[str, str] = {}
    rest = list(words)
    while rest:
        match = _FIELD_FLAG.fullmatch(rest.pop(0))
        if match is None:
            return None
        flags[match[1]] = match[2] or (rest.pop(0) if rest else "")
    number = flags.get("f", "")
    if given is None or not number.isdigit() or not int(number) or set(flags) - {"d", "f"}:
        return None
    delimiter = flags.get("d", "\t")
    if len(delimiter) != 1:
        return None
    return "".join(f"{_field(line, delimiter, int(number))}\n" for line in given.splitlines())


def _field(line: str, delimiter: str, number: int) -> str:
    parts = line.split(delimiter)
    if len(parts) == 1:
        return line
    return parts[number - 1] if number <= len(parts) else ""


def _head(words: Sequence[str], given: str | None) -> str | None:
    match = re.fullmatch(r"-n? ?([0-9]{1,6})", " ".join(words)) if words else None
    if given is None or match is None:
        return None
    return "".join(given.splitlines(keepends=True)[: int(match[1])])


_PRINTERS: Mapping[str, Printer] = {
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "tee": _tee,
    "expr": _expr,
    "basename": _basename,
    "dirname": _dirname,
    "seq": _seq,
    "tr": _tr,
    "wc": _wc,
    "cut": _cut,
    "head": _head,
}
