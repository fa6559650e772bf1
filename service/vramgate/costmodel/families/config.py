"""Reads a ``config.json`` key by key: bounded whole numbers, switches, words.

Every reader takes the names a quantity goes by (``hidden_size``, ``n_embd``, ``d_model``); null
counts as absent. What is missing, out of bounds, of the wrong type or contradicts another name of
the same quantity raises ``InvalidModelConfigError`` with the JSON pointer of the key, the value
and the way out.
"""

from collections.abc import Mapping
from typing import NamedTuple, NoReturn, TypeAlias

from vramgate.errors import FieldError, InvalidModelConfigError

# Bounds on what a config may say: far above any published model, low enough that no product
# overflows.
MAX_WIDTH = 2**20
MAX_INTERMEDIATE = 2**22
MAX_HEADS = 2**16
MAX_LAYERS = 10_000
MAX_VOCABULARY = 2**27
MAX_EXPERTS = 2**16
MAX_POSITIONS = 2**31
MAX_SMALL = 2**16
MAX_WORD = 128

_NOTHING: Mapping[str, object] = {}
_LONGEST_SHOWN = 40


class Switch(NamedTuple):
    """A boolean key and what an absent key means."""

    key: str
    default: bool


class Rate(NamedTuple):
    """A dropout rate: the names it goes by and the family's default."""

    keys: tuple[str, ...]
    default: float = 0.0


Trait: TypeAlias = bool | Switch
"""A trait of a family: fixed, or a switch of its configs."""

NO_DROPOUT = Rate(())
ATTENTION_DROPOUT = Rate(("attention_dropout",))


def shown(value: object) -> str:
    """Return a value as short text for a message, whatever it is.

    >>> shown([1, 2])
    'a list'
    >>> shown(10**30)
    'a number of 100 bits'
    """
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 2**64 else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…")
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, (list, tuple)) else f"a {type(value).__name__}"


def refuse(
    pointer: str, detail: str, *, code: str = "invalid", value: object = None, hint: str = ""
) -> NoReturn:
    """Raise the error of one key.

    Raises:
        InvalidModelConfigError: always.
    """
    echo = value if isinstance(value, (bool, float)) or _is_small(value) else None
    field = FieldError(pointer=pointer, code=code, detail=detail, value=echo)
    raise InvalidModelConfigError(f"{pointer}: {detail}", hint=hint, fields=[field])


def _is_small(value: object) -> bool:
    """Return whether a value is a number or text short enough to be echoed."""
    if isinstance(value, int):
        return abs(value) < 2**63
    return isinstance(value, str) and len(value) <= _LONGEST_SHOWN


class Config:
    """One object of a ``config.json`` and where it stands.

    ``defaults`` are the values the config class of transformers takes for absent keys; only
    nested objects have them (``text_config``, ``vision_config``), because transformers writes
    those without their defaults.
    """

    __slots__ = ("_defaults", "_values", "pointer")

    def __init__(
        self,
        values: Mapping[str, object],
        *,
        pointer: str = "/model/config",
        defaults: Mapping[str, object] = _NOTHING,
    ) -> None:
        """Wrap ``values``, found at ``pointer``."""
        self._values = values
        self._defaults = defaults
        self.pointer = pointer

    def with_defaults(self, defaults: Mapping[str, object]) -> "Config":
        """Return the same object with (other) values for absent keys."""
        return Config(self._values, pointer=self.pointer, defaults=defaults)

    def replaced(self, **values: object) -> "Config":
        """Return the same object with some values replaced; None removes one."""
        return Config({**self._values, **values}, pointer=self.pointer, defaults=self._defaults)

    def has(self, name: str) -> bool:
        """Return whether the key is there, be it null."""
        return name in self._values

    def get(self, *names: str) -> tuple[str, object]:
        """Return the name in use and its value, or the first name and the default or None.

        Raises:
            InvalidModelConfigError: two names of the quantity are there and differ.
        """
        values = self._values
        found = names[0]
        value: object = None
        for name in names:
            other = values.get(name)
            if other is None:
                continue
            if value is None:
                found, value = name, other
            elif type(other) is not type(value) or other != value:
                detail = f"{shown(other)} contradicts {found} = {shown(value)}"
                hint = f"{found} and {name} name the same quantity; keep one."
                refuse(f"{self.pointer}/{name}", detail, code="contradiction", hint=hint)
        if value is None and self._defaults:
            value = next((self._defaults[n] for n in names if n in self._defaults), None)
        return found, value

    def refuse(self, name: str, detail: str, *, code: str = "invalid", hint: str = "") -> NoReturn:
        """Raise the error of one of this object's keys.

        Raises:
            InvalidModelConfigError: always.
        """
        pointer = f"{self.pointer}/{name}"
        refuse(pointer, detail, code=code, value=self._values.get(name), hint=hint)

    def maybe_whole(self, *names: str, at_most: int = MAX_WIDTH, at_least: int = 1) -> int | None:
        """Return a whole number, or None where it is absent.

        Raises:
            InvalidModelConfigError: it is no whole number within the bounds.
        """
        name, value = self.get(*names)
        if value is None:
            return None
        if type(value) is not int:
            self.refuse(name, f"{shown(value)} is not a whole number", code="type")
        if not at_least <= value <= at_most:
            detail = f"{shown(value)} is outside {at_least} to {at_most}"
            self.refuse(name, detail, code="out_of_range")
        return value

    def whole(
        self,
        *names: str,
        at_most: int = MAX_WIDTH,
        at_least: int = 1,
        default: int | None = None,
    ) -> int:
        """Return a whole number; without ``default`` the key is required.

        Raises:
            InvalidModelConfigError: it is missing, or no whole number within the bounds.
        """
        value = self.maybe_whole(*names, at_most=at_most, at_least=at_least)
        if value is not None:
            return value
        if default is None:
            self.require(*names)
        return default

    def require(self, *names: str) -> NoReturn:
        """Raise the error of a missing key.

        Raises:
            InvalidModelConfigError: always.
        """
        others = f" (or {', '.join(names[1:])})" if names[1:] else ""
        detail = f"{names[0]}{others} is missing"
        hint = "Send the model's whole config.json, or a name from the catalog."
        self.refuse(names[0], detail, code="missing", hint=hint)

    def wholes(
        self, name: str, *, at_most: int, at_least: int = 0, length: int | None = None
    ) -> tuple[int, ...] | None:
        """Return a list of whole numbers, or None where it is absent.

        Raises:
            InvalidModelConfigError: it is no list of whole numbers within the bounds, or not
                ``length`` long.
        """
        _, value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            self.refuse(name, f"{shown(value)} is not a list of whole numbers", code="type")
        self._check_length(name, len(value), length)
        for item in value:
            if type(item) is not int or not at_least <= item <= at_most:
                detail = f"{shown(item)} is no whole number from {at_least} to {at_most}"
                self.refuse(name, detail, code="out_of_range")
        return tuple(value)

    def words(self, name: str, *, length: int | None = None) -> tuple[str, ...] | None:
        """Return a list of words, or None where it is absent.

        Raises:
            InvalidModelConfigError: it is no list of words, or not ``length`` long.
        """
        _, value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            self.refuse(name, f"{shown(value)} is not a list of words", code="type")
        self._check_length(name, len(value), length)
        return tuple(value)

    def _check_length(self, name: str, found: int, length: int | None) -> None:
        """Refuse a list of another length, or longer than any model is deep."""
        if length is not None and found != length:
            detail = f"it has {found} entries for {length} layers"
            self.refuse(name, detail, code="contradiction", hint="One entry a layer is needed.")
        if found > MAX_LAYERS:
            self.refuse(name, f"it has {found} entries, more than {MAX_LAYERS}", code="too_long")

    def flag(self, switch: Trait) -> bool:
        """Return a switch: itself where it is fixed, else its key or the default of an absent key.

        Raises:
            InvalidModelConfigError: the key is not a boolean.
        """
        if isinstance(switch, bool):
            return switch
        _, value = self.get(switch.key)
        if value is None:
            return switch.default
        if not isinstance(value, bool):
            self.refuse(switch.key, f"{shown(value)} is not true or false", code="type")
        return value

    def fraction(self, rate: Rate) -> float:
        """Return a number from 0 to 1 (a dropout rate, a share of a head), or the default.

        Raises:
            InvalidModelConfigError: it is no number from 0 to 1.
        """
        if not rate.keys:
            return rate.default
        name, value = self.get(*rate.keys)
        if value is None:
            return rate.default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(name, f"{shown(value)} is not a number", code="type")
        if not 0 <= value <= 1:
            self.refuse(name, f"{shown(value)} is outside 0 to 1", code="out_of_range")
        return float(value)

    def number(self, name: str, *, at_most: float) -> float:
        """Return a number above 0.

        Raises:
            InvalidModelConfigError: it is missing, no number, or out of bounds.
        """
        _, value = self.get(name)
        if value is None:
            self.require(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(name, f"{shown(value)} is not a number", code="type")
        if not 0 < value <= at_most:
            self.refuse(name, f"{shown(value)} is outside 0 to {at_most}", code="out_of_range")
        return float(value)

    def word(self, *names: str, default: str) -> str:
        """Return a word, or the default where it is absent.

        Raises:
            InvalidModelConfigError: it is not text, or longer than any name.
        """
        name, value = self.get(*names)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > MAX_WORD:
            self.refuse(name, f"{shown(value)} is not a name", code="type")
        return value

    def sets(self, *names: str) -> bool:
        """Return whether one of the keys is there with a value other than null, false and 0."""
        _, value = self.get(*names)
        return bool(value)

    def section(self, name: str, *, defaults: Mapping[str, object] = _NOTHING) -> "Config | None":
        """Return a nested object, or None where it is absent.

        Raises:
            InvalidModelConfigError: it is not an object.
        """
        _, value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(name, f"{shown(value)} is not an object", code="type")
        return Config(value, pointer=f"{self.pointer}/{name}", defaults=defaults)
