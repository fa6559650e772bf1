"""``[ … ]``, ``test`` and ``[[ … ]]``: true, false, or not to be told."""

import re
from collections.abc import Callable, Mapping, Sequence

from vramgate.launch.shell.expand import Expander
from vramgate.launch.shell.syntax import Both, Condition, Joint, Not, Test, Written
from vramgate.launch.shell.values import Lack, Pieces, Reference, is_known, known_text, text_of

_WHOLE = re.compile(r"\s*[-+]?[0-9]{1,18}\s*")
_NUMERIC: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": lambda left, right: left == right,
    "-ne": lambda left, right: left != right,
    "-lt": lambda left, right: left < right,
    "-le": lambda left, right: left <= right,
    "-gt": lambda left, right: left > right,
    "-ge": lambda left, right: left >= right,
}
_EQUAL = frozenset({"=", "=="})
_BINARY = frozenset({*_NUMERIC, *_EQUAL, "!=", "-nt", "-ot", "-ef", "<", ">"})
_UNARY = re.compile(r"-[a-zA-Z]")
_MAX_DEPTH = 20
_COMPARISON = 3
"""Words of one."""


class Conditions:
    """Decides conditions with what variables hold now."""

    def __init__(self, expander: Expander) -> None:
        self._expander = expander
        self.supposes = False
        """Whether an answer rests on a variable that nobody gives being unset."""

    # ------------------------------------------------------------ double brackets

    def holds(self, condition: Condition) -> bool | None:
        """Return whether ``[[ … ]]`` holds."""
        if isinstance(condition, Not):
            return negated(self.holds(condition.condition))
        if isinstance(condition, Both):
            left = self.holds(condition.left)
            if left is (condition.joint is Joint.OR):
                return left
            right = self.holds(condition.right)
            return either(left, right) if condition.joint is Joint.OR else both(left, right)
        return self._primary(condition)

    def _primary(self, test: Test) -> bool | None:
        if len(test.operands) == 1:
            return self._unary(test.operator, self._expander.text(test.operands[0]))
        left, right = test.operands
        if test.operator in _EQUAL or test.operator == "!=":
            fits = self._fits(left, right)
            return negated(fits) if test.operator == "!=" else fits
        if test.operator in _NUMERIC:
            first, second = self._reckoned(left), self._reckoned(right)
            if first is not None and second is not None:
                return _NUMERIC[test.operator](first, second)
        return None

    def _fits(self, left: Written, right: Written) -> bool | None:
        text = self._expander.text(left)
        pattern = self._expander.pattern(right.parts)
        if pattern is None:
            return None
        if not pattern.glob:
            return self._is_empty(text)
        known = known_text(text)
        return None if known is None else pattern.fits(known)

    def _reckoned(self, operand: Written) -> int | None:
        text = known_text(self._expander.text(operand))
        return None if text is None else self._expander.arithmetic(text)

    # ------------------------------------------------------------ test

    def test(self, words: Sequence[Pieces]) -> bool | None:
        """Return whether ``test`` with these words holds."""
        if not words:
            return False
        value, rest = self._or(list(words), 0)
        return None if rest else value

    def _or(self, words: list[Pieces], depth: int) -> tuple[bool | None, list[Pieces]]:
        value, rest = self._and(words, depth)
        while rest and text_of(rest[0]) == "-o":
            right, rest = self._and(rest[1:], depth)
            value = either(value, right)
        return value, rest

    def _and(self, words: list[Pieces], depth: int) -> tuple[bool | None, list[Pieces]]:
        value, rest = self._not(words, depth)
        while rest and text_of(rest[0]) == "-a":
            right, rest = self._not(rest[1:], depth)
            value = both(value, right)
        return value, rest

    def _not(self, words: list[Pieces], depth: int) -> tuple[bool | None, list[Pieces]]:
        texts = [text_of(word) for word in words[:3]]
        if not texts or depth > _MAX_DEPTH:
            return None, words
        if len(texts) == _COMPARISON and texts[1] in _BINARY:
            return self._compared(words[0], texts[1], words[2]), words[3:]
        if texts[0] == "!" and len(texts) > 1:
            value, rest = self._not(words[1:], depth + 1)
            return negated(value), rest
        if texts[0] == "(" and len(texts) > 1:
            value, rest = self._or(words[1:], depth + 1)
            return (value, rest[1:]) if rest and text_of(rest[0]) == ")" else (None, words)
        is_operator = _UNARY.fullmatch(texts[0]) and texts[0] not in {"-a", "-o"}
        if len(texts) > 1 and is_operator and texts[1] not in {"-a", "-o"}:
            return self._unary(texts[0], words[1]), words[2:]
        return self._unary("-n", words[0]), words[1:]

    def _compared(self, left: Pieces, operator: str, right: Pieces) -> bool | None:
        if operator in _NUMERIC:
            texts = [known_text(left), known_text(right)]
            numbers = [int(text) for text in texts if text is not None and _WHOLE.fullmatch(text)]
            if len(numbers) != len(texts):
                return None
            return _NUMERIC[operator](numbers[0], numbers[1])
        if operator not in _EQUAL and operator != "!=":
            return None
        equal = self._are_equal(left, right)
        return negated(equal) if operator == "!=" else equal

    def _are_equal(self, left: Pieces, right: Pieces) -> bool | None:
        if not text_of(right):
            return self._is_empty(left)
        if not text_of(left):
            return self._is_empty(right)
        if is_known(left) and is_known(right):
            return text_of(left) == text_of(right)
        return None

    # ------------------------------------------------------------ both

    def _unary(self, operator: str, operand: Pieces) -> bool | None:
        if operator == "-z":
            return self._is_empty(operand)
        if operator == "-n":
            return negated(self._is_empty(operand))
        if operator == "-v":
            name = known_text(operand)
            return None if name is None else self._is_set(name)
        return None

    def _is_set(self, name: str) -> bool | None:
        variables = self._expander.variables
        value = variables.get(name)
        if value is Lack.UNSETTLED or variables.is_set_by_others(name) or not name.isidentifier():
            return None
        self.supposes = self.supposes or value is Lack.UNSET
        return not isinstance(value, Lack)

    def _is_empty(self, text: Pieces) -> bool | None:
        """Return whether a text is empty.

        What nobody gives counts as empty where the script asks: ``[ -z "$X" ]`` provides for that.
        """
        if is_known(text):
            return not text_of(text)
        if any(piece for piece in text if not isinstance(piece, Reference)):
            return False
        if not all(self._expander.is_missing(piece) for piece in text):
            return None
        self.supposes = True
        return True


def negated(value: bool | None) -> bool | None:  # noqa: FBT001 the value itself
    """Return ``not``, of what cannot be told as well."""
    return None if value is None else not value


def both(left: bool | None, right: bool | None) -> bool | None:  # noqa: FBT001 the values themselves
    """Return ``and``, of what cannot be told as well."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:  # noqa: FBT001 the values themselves
    """Return ``or``, of what cannot be told as well."""
    return negated(both(negated(left), negated(right)))
