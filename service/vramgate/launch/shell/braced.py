"""``${…}`` beyond the plain name: defaults, lengths, cuts, replacements, arrays."""

import re
from collections.abc import Callable, Sequence

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.shell.expansion import Expansion
from vramgate.launch.shell.fields import Fields
from vramgate.launch.shell.parameters import Braced as TakenApart
from vramgate.launch.shell.parameters import cased, sliced, taken_apart
from vramgate.launch.shell.parse import parse_operand, parse_word
from vramgate.launch.shell.syntax import Braced, DoubleQuoted, Literal, Parts, Quoted
from vramgate.launch.shell.values import (
    EMPTY,
    Array,
    Lack,
    Pieces,
    Reference,
    Value,
    is_known,
    known_text,
)

_PLAIN_REFERENCE = re.compile(r"\$\{?([A-Za-z_][A-Za-z_0-9]*|[1-9][0-9]*)\}?")
_DEFAULTS = frozenset({":-", "-", ":=", "=", ":+", "+", ":?", "?"})
_CUTS = frozenset({"#", "##", "%", "%%"})
_REPLACEMENTS = frozenset({"/", "//", "/#", "/%"})
_CASES = frozenset({"^", "^^", ",", ",,", "@U", "@u", "@L"})
_MAX_INDIRECTIONS = 4


class BracedExpander:
    """Adds what ``${…}`` gives to the fields of a word."""

    def __init__(self, expander: Expansion) -> None:
        self._expander = expander
        self._variables = expander.variables

    def add(self, part: Braced, fields: Fields, *, quoted: bool) -> None:
        """Add it; where it cannot be told, add it as a reference."""
        one = taken_apart(part.inner)
        for _ in range(_MAX_INDIRECTIONS):
            if one is None or one.operator != "indirect" or one.key in {"@", "*"}:
                break
            one = self._pointed_at(one)
        added = False
        if one is not None:
            try:
                added = self._add(one, part.written, fields, quoted=quoted)
            except UnreadableLaunchError as error:
                if error.data.get("file") not in {"word", "text"}:
                    raise
        if not added:
            self._expander.add_pieces((Reference(part.written),), fields, quoted=quoted)

    def _pointed_at(self, one: TakenApart) -> TakenApart | None:
        value = known_text(self._expander.parameter(one.name, f"${one.name}"))
        return taken_apart(f"{value}{one.operand}") if value else None

    def _add(self, one: TakenApart, written: str, fields: Fields, *, quoted: bool) -> bool:
        if one.operator in _DEFAULTS:
            return self._add_default(one, written, fields, quoted=quoted)
        items = self._items(one)
        if one.operator == "length":
            pieces = self._length(one, items)
        elif one.operator == "indirect":
            return self._add_keys(one, fields, quoted=quoted)
        elif items is not None:
            changed = self._each(one, items)
            if changed is None:
                return False
            name = one.key or one.name
            self._expander.add_list(changed, fields, name=name, quoted=quoted)
            return True
        else:
            is_unset = self._variables.get(one.name) is Lack.EMPTY
            pieces = EMPTY if is_unset else self._changed(one, self._pieces(one, written))
        if pieces is None:
            return False
        self._expander.add_pieces(pieces, fields, quoted=quoted)
        return True

    # ------------------------------------------------------------ what is held

    def _items(self, one: TakenApart) -> Sequence[Pieces] | None:
        """Return the elements of ``$@`` or ``${NAME[@]}``; None for anything else or unknown."""
        if one.name in {"@", "*"}:
            return self._variables.arguments
        if one.key not in {"@", "*"}:
            return None
        value = self._variables.get(one.name)
        if isinstance(value, Array):
            return value.values()
        if isinstance(value, tuple):
            return (value,)
        return () if value is Lack.EMPTY else None

    def _pieces(self, one: TakenApart, written: str) -> Pieces:
        if one.key is None:
            return self._expander.parameter(one.name, written)
        value = self._variables.get(one.name)
        if isinstance(value, Lack):
            return EMPTY if value is Lack.EMPTY else (Reference(written),)
        key = self.key(value, one.key)
        if key is None:
            return (Reference(written),)
        if isinstance(value, Array):
            return value.items.get(key, EMPTY)
        return value if key == 0 else EMPTY

    def key(self, value: Value, written: str) -> int | str | None:
        """Return the key that a subscript means; None where it cannot be told."""
        if isinstance(value, Array) and value.is_associative:
            return known_text(self._expander.joined(parse_word(written)))
        index = self._expander.arithmetic(written)
        if index is not None and index < 0 and isinstance(value, Array) and value.items:
            index += max(int(key) for key in value.items) + 1
        return index

    # ------------------------------------------------------------ defaults

    def _add_default(self, one: TakenApart, written: str, fields: Fields, *, quoted: bool) -> bool:
        absent = self._is_absent(one, written)
        if absent is None:
            return False
        operator = one.operator.removeprefix(":")
        if operator == "+":
            if not absent:
                self._add_operand(one.operand, fields, quoted=quoted)
            return True
        if not absent:
            items = self._items(one)
            if items is not None:
                name = one.key or one.name
                self._expander.add_list(items, fields, name=name, quoted=quoted)
            else:
                pieces = self._pieces(one, written)
                self._expander.add_pieces(pieces, fields, quoted=quoted)
            return True
        if operator == "?":
            return False
        if operator == "=" and one.key is None and not one.name.isdigit():
            value = self._operand_text(one.operand, quoted=quoted)
            self._variables.set(one.name, value)
            self._expander.add_pieces(value, fields, quoted=quoted)
            return True
        self._add_operand(one.operand, fields, quoted=quoted)
        return True

    def _is_absent(self, one: TakenApart, written: str) -> bool | None:
        """Return whether the default counts; None where that cannot be told.

        What nobody gives is absent where the script itself provides for that.
        """
        counts_empty = one.operator.startswith(":")
        if one.name in {"@", "*"} or one.key in {"@", "*"}:
            items = self._items(one)
            if items is not None:
                return not items or (counts_empty and not any(map("".join, items)))
            return self._variables.get(one.name) is not Lack.UNSETTLED
        value = self._variables.get(one.name)
        if value is Lack.UNSETTLED or self._variables.is_set_by_others(one.name):
            return None
        if value is Lack.EMPTY or (value is Lack.UNSET and not one.name.isdigit()):
            return one.name != "#"
        if one.name.isdigit() and self._variables.arguments is not None:
            given = int(one.name) <= len(self._variables.arguments)
            return not given or (counts_empty and not self._pieces(one, written))
        pieces = self._pieces(one, f"${one.name}")
        return self._is_empty(pieces, counts_empty=counts_empty)

    def _is_empty(self, pieces: Pieces, *, counts_empty: bool) -> bool | None:
        if is_known(pieces):
            return counts_empty and not "".join(pieces)
        if any(piece for piece in pieces if not isinstance(piece, Reference)):
            return False
        return True if all(self.is_missing(piece) for piece in pieces) else None

    def is_missing(self, piece: str) -> bool:
        """Return whether a reference is to a plain variable that nobody gives."""
        match = _PLAIN_REFERENCE.fullmatch(piece)
        if match is None or self._variables.is_set_by_others(match[1]):
            return False
        return match[1].isdigit() or self._variables.get(match[1]) is Lack.UNSET

    def _add_operand(self, operand: str, fields: Fields, *, quoted: bool) -> None:
        if quoted:
            self._expander.add_quoted(parse_operand(operand), fields)
            return
        for part in parse_word(operand):
            if isinstance(part, Literal):
                fields.add_split((part.text,))
            elif isinstance(part, Quoted):
                fields.add((part.text,))
            elif isinstance(part, DoubleQuoted):
                self._expander.add_double(part.parts, fields)
            else:
                self._expander.add_expansion(part, fields, quoted=False)

    def _operand_text(self, operand: str, *, quoted: bool) -> Pieces:
        return self._expander.joined(parse_operand(operand) if quoted else parse_word(operand))

    # ------------------------------------------------------------ changes

    def _length(self, one: TakenApart, items: Sequence[Pieces] | None) -> Pieces | None:
        if items is not None:
            return (str(len(items)),)
        if one.name in {"@", "*"} or one.key in {"@", "*"}:
            return None
        text = known_text(self._pieces(one, "$"))
        return None if text is None else (str(len(text)),)

    def _add_keys(self, one: TakenApart, fields: Fields, *, quoted: bool) -> bool:
        value = self._variables.get(one.name)
        if not isinstance(value, Array) or one.key is None:
            return False
        keys = value.items if value.is_associative else sorted(value.items, key=int)
        items = [(str(key),) for key in keys]
        self._expander.add_list(items, fields, name=one.key, quoted=quoted)
        return True

    def _each(self, one: TakenApart, items: Sequence[Pieces]) -> Sequence[Pieces] | None:
        if one.operator == ":":
            return self._slice(one, items)
        changed: list[Pieces] = []
        for item in items:
            pieces = self._changed(one, item)
            if pieces is None:
                return None
            changed.append(pieces)
        return changed

    def _slice(self, one: TakenApart, items: Sequence[Pieces]) -> Sequence[Pieces] | None:
        bounds = self._bounds(one.operand)
        if bounds is None:
            return None
        offset, length = bounds
        if one.name in {"@", "*"}:
            items = ((Reference("$0"),), *items)
        start = self._first_place(one, items, offset)
        if start < 0 or (length is not None and length < 0):
            return ()
        return items[start:] if length is None else items[start : start + length]

    def _first_place(self, one: TakenApart, items: Sequence[Pieces], offset: int) -> int:
        """Return the place that an offset means; an array's offset is an index, and some may lack."""
        held = self._variables.get(one.name)
        if not isinstance(held, Array) or held.is_associative:
            return offset if offset >= 0 else len(items) + offset
        keys = sorted(int(key) for key in held.items)
        first = offset if offset >= 0 else offset + max(keys, default=-1) + 1
        return -1 if first < 0 else sum(key < first for key in keys)

    def _bounds(self, operand: str) -> tuple[int, int | None] | None:
        first, colon, second = operand.partition(":")
        offset = self._expander.arithmetic(first)
        length = self._expander.arithmetic(second) if colon else None
        if offset is None or (colon and length is None) or "?" in operand:
            return None
        return offset, length

    def _changed(self, one: TakenApart, pieces: Pieces) -> Pieces | None:
        """Return a text after the operator; None where it cannot be told."""
        if not one.operator:
            return pieces
        text = known_text(pieces)
        if text is None:
            return None
        changed = self._change(one)(one, text)
        return None if changed is None else (changed,)

    def _change(self, one: TakenApart) -> Callable[[TakenApart, str], str | None]:
        if one.operator in _CUTS:
            return self._cut
        if one.operator in _REPLACEMENTS:
            return self._replaced
        if one.operator in _CASES and not one.operand:
            return lambda one, text: cased(text, one.operator)
        if one.operator == ":":
            return self._sliced
        return lambda _one, _text: None

    def _cut(self, one: TakenApart, text: str) -> str | None:
        pattern = self._expander.pattern_of(one.operand)
        if pattern is None:
            return None
        longest = len(one.operator) > 1
        if one.operator.startswith("#"):
            return pattern.without_start(text, longest=longest)
        return pattern.without_end(text, longest=longest)

    def _sliced(self, one: TakenApart, text: str) -> str | None:
        bounds = self._bounds(one.operand)
        return None if bounds is None else sliced(text, *bounds)

    def _replaced(self, one: TakenApart, text: str) -> str | None:
        before, behind = _at_slash(parse_word(one.operand))
        pattern = self._expander.pattern(before)
        replacement = self._replacement(behind)
        if pattern is None or replacement is None:
            return None
        return pattern.replaced(text, replacement, mode=one.operator)

    def _replacement(self, parts: Parts) -> str | None:
        r"""Return the replacement; ``\0`` where an ``&`` outside quotes stands for what fits."""
        found: list[str] = []
        for part in parts:
            text = known_text(self._expander.joined((part,)))
            if text is None:
                return None
            is_quoted = isinstance(part, Quoted | DoubleQuoted)
            found.append(text if is_quoted else text.replace("&", "\0"))
        return "".join(found)


def _at_slash(parts: Parts) -> tuple[Parts, Parts]:
    """Split at the first slash outside quotes."""
    for index, part in enumerate(parts):
        if isinstance(part, Literal) and "/" in part.text:
            before, _, behind = part.text.partition("/")
            first = (*parts[:index], Literal(before)) if before else parts[:index]
            return first, (Literal(behind), *parts[index + 1 :])
    return parts, ()
