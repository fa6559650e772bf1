"""Brace expansion: ``{a,b}`` and ``{1..3}``, before anything else is expanded."""

import re
from collections.abc import Sequence
from typing import TypeAlias

from vramgate.launch.shell.syntax import Literal, Parameter, Part, Parts

MAX_WORDS = 1024
"""Words that one word may become; beyond that it stays as it is written."""
_LONGEST = 4096
"""Characters of a word with braces; longer ones are left alone."""
_MOST_BRACES = 40
_RANGE = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})(?:\.\.(-?[0-9]{1,9}))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?[0-9]{1,9}))?")


def expand_braces(parts: Parts) -> Sequence[Parts]:
    """Return the words that one word becomes; itself alone where it has no braces.

    >>> [p[0].text for p in expand_braces((Literal("a{b,c}"),))]
    ['ab', 'ac']
    """
    if not any(isinstance(part, Literal) and "{" in part.text for part in parts):
        return (parts,)
    atoms = _atoms(parts)
    if len(atoms) > _LONGEST or sum(map(_is_opening, atoms)) > _MOST_BRACES:
        return (parts,)
    try:
        return [_joined(word) for word in _expanded(atoms)]
    except _TooManyWordsError:
        return (parts,)


class _TooManyWordsError(Exception):
    """The word stays as it is written."""


Atoms: TypeAlias = Sequence[Part]


def _atoms(parts: Parts) -> list[Part]:
    """Return the parts, characters outside quotes one by one."""
    atoms: list[Part] = []
    for part in parts:
        if isinstance(part, Literal):
            atoms.extend(map(Literal, part.text))
        else:
            atoms.append(part)
    return atoms


def _char(atom: Part) -> str:
    return atom.text if isinstance(atom, Literal) else ""


def _is_opening(atom: Part) -> bool:
    return _char(atom) == "{"


def _expanded(atoms: Atoms) -> list[tuple[Part, ...]]:
    """Expand from left to right, as ``brace_expand`` in braces.c of bash does."""
    found: list[tuple[Part, ...]] = [()]
    while True:
        opening, closing = _first_pair(atoms)
        if opening < 0:
            return _product(found, [tuple(atoms)])
        inner, rest = atoms[opening + 1 : closing], atoms[closing + 1 :]
        words = _alternatives(inner)
        if words is None:
            if not rest:
                return _product(found, [tuple(atoms)])
            words = [tuple(atoms[opening : closing + 1])]
        found = _product(_product(found, [tuple(atoms[:opening])]), words)
        atoms = rest


def _product(left: list[tuple[Part, ...]], right: list[tuple[Part, ...]]) -> list[tuple[Part, ...]]:
    if len(left) * len(right) > MAX_WORDS:
        raise _TooManyWordsError
    return [(*before, *behind) for before in left for behind in right]


def _first_pair(atoms: Atoms) -> tuple[int, int]:
    for index, atom in enumerate(atoms):
        if _is_opening(atom):
            closing = _closing(atoms, index + 1)
            if closing >= 0:
                return index, closing
    return -1, -1


def _closing(atoms: Atoms, start: int) -> int:
    """Return the brace that closes, one with a comma or ``..`` before it; below 0 for none."""
    level, separators = 0, 0
    for index in range(start, len(atoms)):
        char = _char(atoms[index])
        if char == "}" and not level and separators:
            return index
        if char == "{":
            level += 1
        elif char == "}" and level:
            level -= 1
        elif not level and (char == "," or _is_range(atoms, index)):
            separators += 1
    return -1


def _is_range(atoms: Atoms, index: int) -> bool:
    text = "".join(map(_char, atoms[index : index + 3]))
    return text.startswith("..") and not text.endswith("}")


def _alternatives(inner: Atoms) -> list[tuple[Part, ...]] | None:
    if not any(_char(atom) == "," for atom in inner):
        return _sequence(inner)
    found: list[tuple[Part, ...]] = []
    level, start = 0, 0
    for index, atom in enumerate((*inner, Literal(","))):
        char = _char(atom)
        if char == "{":
            level += 1
        elif char == "}" and level:
            level -= 1
        elif char == "," and (not level or index == len(inner)):
            found.extend(_expanded(inner[start:index]))
            start = index + 1
    if len(found) > MAX_WORDS:
        raise _TooManyWordsError
    return found


def _sequence(inner: Atoms) -> list[tuple[Part, ...]] | None:
    if not all(isinstance(atom, Literal) for atom in inner):
        return None
    text = "".join(map(_char, inner))
    numbers = _RANGE.fullmatch(text)
    if numbers is not None:
        width = max(map(len, numbers.group(1, 2))) if _is_padded(*numbers.group(1, 2)) else 0
        values = _range(int(numbers[1]), int(numbers[2]), int(numbers[3] or 1))
        return [(Literal(str(value).zfill(width)),) for value in values]
    letters = _LETTERS.fullmatch(text)
    if letters is not None:
        values = _range(ord(letters[1]), ord(letters[2]), int(letters[3] or 1))
        return [(Literal(chr(value)),) for value in values]
    return None


def _is_padded(*numbers: str) -> bool:
    return any(len(n.lstrip("-")) > 1 and n.lstrip("-").startswith("0") for n in numbers)


def _range(first: int, last: int, step: int) -> Sequence[int]:
    step = abs(step) or 1
    if abs(last - first) // step >= MAX_WORDS:
        raise _TooManyWordsError
    return range(first, last + 1, step) if first <= last else range(first, last - 1, -step)


def _joined(parts: Sequence[Part]) -> Parts:
    """Put characters outside quotes back together; a name goes on in those that now follow it."""
    found: list[Part] = []
    for part in parts:
        before = found[-1] if found else None
        if not isinstance(part, Literal):
            found.append(part)
        elif isinstance(before, Literal):
            found[-1] = Literal(before.text + part.text)
        elif isinstance(before, Parameter) and _goes_on(before, part.text):
            found[-1] = Parameter(before.written + part.text, before.name + part.text)
        else:
            found.append(part)
    return tuple(found)


def _goes_on(parameter: Parameter, text: str) -> bool:
    has_name = parameter.written[-1] != "}" and not parameter.name[:1].isdigit()
    return (
        has_name and parameter.name.isidentifier() and f"_{text}".isidentifier() and text.isascii()
    )
