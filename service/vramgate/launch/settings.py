"""Settings: options by name, from flags, files or a configuration, each with its place.

One reader serves a framework however it was configured: the same names come from a command line, a
YAML file or a dictionary.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from vramgate.launch.reading import Found, Misread, Reading, Unseen
from vramgate.launch.words import Word

_TRUE = {"true", "t", "yes", "y", "on", "1"}
_FALSE = {"false", "f", "no", "n", "off", "0"}
_NOTHING = {"none", "null", "~", ""}
_OF_NUMBERS = frozenset("0123456789.inIN")
"""Characters that a number begins with, ``inf`` and ``nan`` among them."""

Said: TypeAlias = Sequence[Word] | object
"""The words behind a flag, or a value of a document."""


class Setting(NamedTuple):
    """What is said of one option."""

    said: Said
    source: str


class Settings(Mapping[str, Setting]):
    """Options by name; a name is looked up with ``-`` and ``_`` alike."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Mapping[str, Setting] | None = None) -> None:
        self._settings = {_key(name): one for name, one in (settings or {}).items()}

    def __getitem__(self, name: str) -> Setting:
        return self._settings[_key(name)]

    def __contains__(self, name: object) -> bool:
        # Asked for far more names than are said; the inherited way raises for each.
        return name in self._settings or (isinstance(name, str) and _key(name) in self._settings)

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def over(self, lower: "Settings") -> "Settings":
        """Return these settings, and those of ``lower`` that these do not have."""
        return _keyed({**lower._settings, **self._settings})  # noqa: SLF001 its own kind

    def value(self, *names: str) -> Reading[Any]:
        """Return the value under the first of the names that is said: text, or a document's value."""
        setting = self._first(names)
        return None if setting is None else _value(setting)

    def _first(self, names: Sequence[str]) -> Setting | None:
        for name in names:
            setting = self._settings.get(name)
            if setting is None and "-" in name:
                setting = self._settings.get(_key(name))
            if setting is not None:
                return setting
        return None

    def text(self, *names: str) -> Reading[str]:
        """Return a text; the words for nothing (``none``, ``null``) count as not said."""
        reading = self.value(*names)
        if not isinstance(reading, Found):
            return reading
        if reading.value is None or str(reading.value).strip().lower() in _NOTHING:
            return None
        if isinstance(reading.value, bool | int | float | str):
            return Found(str(reading.value), reading.source)
        return Misread(reading.source, reading.value, "a text")

    def whole(self, *names: str) -> Reading[int]:
        """Return a whole number: ``8``, ``8.0``, ``5e8``, ``1_000``."""
        reading = self.text(*names)
        if not isinstance(reading, Found):
            return reading
        number = _whole(reading.value)
        if number is None:
            return Misread(reading.source, reading.value, "a whole number")
        return Found(number, reading.source)

    def number(self, *names: str) -> Reading[float]:
        """Return a number."""
        reading = self.text(*names)
        if not isinstance(reading, Found):
            return reading
        number = _number(reading.value)
        if number is None:
            return Misread(reading.source, reading.value, "a number")
        return Found(number, reading.source)

    def flag(self, *names: str) -> Reading[bool]:
        """Return a switch: a flag without a word behind it is on."""
        reading = self.value(*names)
        if not isinstance(reading, Found) or isinstance(reading.value, bool):
            return reading
        if reading.value is None:
            return None
        said = str(reading.value).strip().lower()
        if said in _NOTHING - {""}:
            return None
        if said in _TRUE or said in _FALSE:
            return Found(said in _TRUE, reading.source)
        return Misread(reading.source, reading.value, "true or false")

    def texts(self, *names: str) -> Reading[tuple[str, ...]]:
        """Return a list of texts: the words behind a flag, a document's list, or one text split at commas."""
        setting = self._first(names)
        if setting is None:
            return None
        words = _words(setting.said)
        if words is not None:
            hidden = _hidden(words)
            if hidden:
                return Unseen(setting.source, *hidden)
            items: Sequence[object] = [word.text for word in words]
        elif isinstance(setting.said, list | tuple):
            items = setting.said
        elif setting.said is None:
            return None
        else:
            items = [setting.said]
        if not all(isinstance(item, str | int | float) for item in items):
            return Misread(setting.source, setting.said, "a list of texts")
        parts = [part.strip() for item in items for part in str(item).split(",")]
        return Found(tuple(part for part in parts if part), setting.source)


def of_document(value: Mapping[str, Any], name: str) -> Settings:
    """Return the entries of a document's object as settings: ``train.yaml: micro_batch_size``."""
    return Settings(
        {
            str(key): Setting(said=said, source=f"{name}: {key}" if name else str(key))
            for key, said in value.items()
        }
    )


def of_flags(words: Sequence[Word]) -> Settings:
    """Return the options of a command line; of a repeated one the last counts, as in argparse.

    Each option takes the words up to the next one; what an option does with them is its reader's
    business. Words before the first option are left out.

    >>> words = [Word(text=text, source=f"args[{i}]") for i, text in enumerate(["--lr=1", "--bf16"])]
    >>> of_flags(words).flag("bf16")
    Found(value=True, source='args[1] --bf16')
    """
    settings: dict[str, Setting] = {}
    name, source, behind = "", "", list[Word]()
    for word in words:
        if word.text[:1] != "-" or not _is_flag(word.text):
            behind.append(word)
            continue
        if name:
            settings[_key(name)] = Setting(said=tuple(behind), source=source)
        flag, equals, value = word.text.partition("=")
        name, source, behind = flag.lstrip("-"), f"{word.source} {flag}", []
        if equals:
            unresolved = tuple(one for one in word.unresolved if one in value)
            behind = [Word(text=value, source=word.source, unresolved=unresolved)]
    if name:
        settings[_key(name)] = Setting(said=tuple(behind), source=source)
    return _keyed(settings)


def _keyed(settings: dict[str, Setting]) -> Settings:
    """Return settings whose names are written as they are looked up already."""
    made = Settings()
    made._settings = settings  # noqa: SLF001 its own kind
    return made


def _is_flag(text: str) -> bool:
    """Tell an option from a value that begins with a dash: negative numbers are values."""
    second = text[1:2]
    if second in _OF_NUMBERS:
        return _number(text) is None
    return second != "" and text != "--"


def _key(name: str) -> str:
    return name.replace("-", "_") if "-" in name else name


def _words(said: Said) -> tuple[Word, ...] | None:
    if isinstance(said, tuple) and all(isinstance(word, Word) for word in said):
        return said
    return None


def _hidden(words: Sequence[Word]) -> tuple[str, str] | None:
    names = [name for word in words for name in word.unresolved]
    if not names:
        return None
    return f"{names[0]} has no value here", f"give {names[0]} in launch.env"


def _value(setting: Setting) -> Reading[Any]:
    words = _words(setting.said)
    if words is None:
        return Found(setting.said, setting.source)
    if not words:
        return Found(value=True, source=setting.source)
    hidden = _hidden(words[:1])
    if hidden:
        return Unseen(setting.source, *hidden)
    return Found(words[0].text, setting.source)


def _whole(text: str) -> int | None:
    number = _number(text)
    return int(number) if number is not None and number == int(number) else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
