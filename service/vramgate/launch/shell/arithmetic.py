"""``$((…))``: whole numbers as bash reckons them, in 64 bits.

Source: expr.c of bash 5.2.
"""

import re
from collections.abc import Callable
from operator import and_, eq, ge, gt, le, lt, mul, ne, or_, sub, xor

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9][0-9A-Za-z_@#]*)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<operator><<=|>>=|\*\*|\+\+|--|&&|\|\||<<|>>|<=|>=|==|!=|[-+*/%&|^]=|[-+*/%<>=!~&|^?:(),]))"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="})
_STEPS = {"++": 1, "--": -1}
_MAX_DEPTH = 24
_MAX_LENGTH = 4096
_BITS = 64
_SHIFT_BITS = 63
_BASES = 64
_BASE = re.compile(r"[0-9]{1,2}")
_LETTERS = {
    char: value
    for value, char in enumerate("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@_")
}
_CASELESS = 36

Lookup = Callable[[str], str]
"""Returns a variable's text; raises ``NoValueError`` where it has none."""
Assign = Callable[[str, int], None]


class NoValueError(Exception):
    """The expression has no value that could be told."""


def evaluate(expression: str, lookup: Lookup, assign: Assign, *, depth: int = 0) -> int:
    """Return the value of an expression in which ``$NAME`` is expanded already.

    Raises:
        NoValueError: a variable has no value, or bash would refuse it.
    """
    if len(expression) > _MAX_LENGTH or depth > _MAX_DEPTH:
        raise NoValueError
    if not expression.strip():
        return 0
    return _Expression(expression, lookup, assign, depth).value()


class _Expression:
    def __init__(self, text: str, lookup: Lookup, assign: Assign, depth: int) -> None:
        self._tokens = _tokens(text)
        self._pos = 0
        self._lookup = lookup
        self._assign = assign
        self._depth = depth
        self._idle = 0
        """Above 0 where the other side of ``&&``, ``||`` or ``?`` counts."""

    def value(self) -> int:
        value = self._comma()
        if self._pos != len(self._tokens):
            raise NoValueError
        return value

    def _peek(self) -> str:
        return self._tokens[self._pos] if self._pos < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._pos += 1
        return token

    def _comma(self) -> int:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise NoValueError
        value = self._assignment()
        while self._peek() == ",":
            self._take()
            value = self._assignment()
        self._depth -= 1
        return value

    def _assignment(self) -> int:
        name = self._peek()
        following = self._tokens[self._pos + 1] if self._pos + 1 < len(self._tokens) else ""
        if following not in _ASSIGNMENTS or not _NAME.fullmatch(name):
            return self._conditional()
        self._pos += 2
        self._depth += 1
        value = self._assignment() if self._depth <= _MAX_DEPTH else self._refuse()
        self._depth -= 1
        if following != "=":
            value = self._apply(following[:-1], self._variable(name), value)
        return self._set(name, value)

    def _refuse(self) -> int:
        raise NoValueError

    def _set(self, name: str, value: int) -> int:
        value = _wrapped(value)
        if not self._idle:
            self._assign(name, value)
        return value

    def _conditional(self) -> int:
        condition = self._binary(0)
        if self._peek() != "?":
            return condition
        self._take()
        self._idle += not condition
        first = self._comma()
        self._idle -= not condition
        if self._take() != ":":
            raise NoValueError
        self._idle += bool(condition)
        self._depth += 1
        second = self._conditional() if self._depth <= _MAX_DEPTH else self._refuse()
        self._depth -= 1
        self._idle -= bool(condition)
        return first if condition else second

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._power()
        left = self._binary(level + 1)
        while (operator := self._peek()) in _LEVELS[level]:
            self._take()
            decided = (operator == "&&" and not left) or (operator == "||" and bool(left))
            self._idle += decided
            right = self._binary(level + 1)
            self._idle -= decided
            left = self._apply(operator, left, right)
        return left

    def _power(self) -> int:
        base = self._unary()
        if self._peek() != "**":
            return base
        self._take()
        self._depth += 1
        exponent = self._power() if self._depth <= _MAX_DEPTH else self._refuse()
        self._depth -= 1
        if exponent < 0:
            raise NoValueError
        return _wrapped(pow(base, exponent, 1 << _BITS))

    def _unary(self) -> int:
        signs: list[str] = []
        while self._peek() in {"-", "+", "!", "~"}:
            signs.append(self._take())
        value = self._primary()
        for sign in reversed(signs):
            value = _UNARY[sign](value)
        return _wrapped(value)

    def _primary(self) -> int:
        word = self._take()
        if word == "(":
            value = self._comma()
            if self._take() != ")":
                raise NoValueError
            return value
        if word in _STEPS:
            name = self._take()
            if not _NAME.fullmatch(name):
                raise NoValueError
            return self._set(name, self._variable(name) + _STEPS[word])
        if word[:1].isdigit():
            return _number(word)
        if not _NAME.fullmatch(word):
            raise NoValueError
        value = self._variable(word)
        if self._peek() in _STEPS:
            self._set(word, value + _STEPS[self._take()])
        return value

    def _variable(self, name: str) -> int:
        if self._idle:
            return 0
        text = self._lookup(name)
        if text.isascii() and text.isdigit() and not text.startswith("0"):
            return _wrapped(int(text[:_MAX_LENGTH]))
        return evaluate(text, self._lookup, self._assign, depth=self._depth + 1)

    def _apply(self, operator: str, left: int, right: int) -> int:
        if operator in {"/", "%"}:
            return self._divided(operator, left, right)
        return _wrapped(int(_BINARY[operator](left, right)))

    def _divided(self, operator: str, left: int, right: int) -> int:
        if right == 0:
            if self._idle:
                return 0
            raise NoValueError
        quotient = abs(left) // abs(right)
        quotient = quotient if (left < 0) == (right < 0) else -quotient
        return _wrapped(quotient if operator == "/" else left - quotient * right)


_LEVELS = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"|"}),
    frozenset({"^"}),
    frozenset({"&"}),
    frozenset({"==", "!="}),
    frozenset({"<", ">", "<=", ">="}),
    frozenset({"<<", ">>"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda value: -value,
    "+": lambda value: value,
    "!": lambda value: int(not value),
    "~": lambda value: ~value,
}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "||": lambda left, right: bool(left or right),
    "&&": lambda left, right: bool(left and right),
    "|": or_,
    "^": xor,
    "&": and_,
    "==": eq,
    "!=": ne,
    "<": lt,
    ">": gt,
    "<=": le,
    ">=": ge,
    "<<": lambda left, right: left << (right & _SHIFT_BITS),
    ">>": lambda left, right: left >> (right & _SHIFT_BITS),
    "+": lambda left, right: left + right,
    "-": sub,
    "*": mul,
}


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    text = text.strip()
    pos = 0
    while pos < len(text):
        match = _TOKEN.match(text, pos)
        if match is None:
            raise NoValueError
        found.append(match.group().strip())
        pos = match.end()
    return found


def _number(token: str) -> int:
    if "#" in token:
        base, _, digits = token.partition("#")
        return _in_base(digits, int(base) if _BASE.fullmatch(base) else 0)
    if token[:2] in {"0x", "0X"}:
        return _in_base(token[2:].lower(), 16) if token[2:] else 0
    return _in_base(token, 8 if token.startswith("0") else 10)


def _in_base(digits: str, base: int) -> int:
    if base not in range(2, _BASES + 1) or not digits:
        raise NoValueError
    value = 0
    for char in digits.lower() if base <= _CASELESS else digits:
        digit = _LETTERS.get(char, _BASES)
        if digit >= base:
            raise NoValueError
        value = (value * base + digit) & ((1 << _BITS) - 1)
    return _wrapped(value)


def _wrapped(value: int) -> int:
    """Return the number as 64 bits hold it."""
    value &= (1 << _BITS) - 1
    return value - (1 << _BITS) if value >> (_BITS - 1) else value
