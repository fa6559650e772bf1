"""Where a program's own options end and the command behind them begins.

Wrappers and launchers stop at the first word that is neither an option nor an option's value. To find it,
one must know which options take a word.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vramgate.launch.settings import Setting, Settings
from vramgate.launch.words import Word

_MOST_VALUES = 2  # mpirun --mca name value


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """The options of a program that starts another one."""

    values: Mapping[str, int] = field(default_factory=dict)
    """Options that take words, with how many; without dashes, ``_`` for ``-``. All others take none."""
    flags: frozenset[str] = frozenset()
    """The rest of its options, where a beginning of a name is enough (argparse's abbreviations)."""
    unlisted: int = 0
    """Words that a long option takes which stands in neither table."""
    own_words: int = 0
    """Words of its own before the command: an image, a subcommand."""
    closed: bool = False
    """Whether the command begins right behind those words, whatever it looks like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A program's options, its own words, and what it starts."""

    options: tuple[tuple[str, Setting], ...]
    own: tuple[Word, ...]
    command: tuple[Word, ...]
    hidden: tuple[Word, ...] = ()
    """Words among the options that are references out of sight: ``$DISTRIBUTED_ARGS``."""

    def settings(self) -> Settings:
        """Return the options by name; of a repeated one the last counts."""
        return Settings(dict(self.options))

    def every(self, *names: str) -> Iterator[Word]:
        """Yield every word given to an option, however often it stands."""
        for name, setting in self.options:
            if name in names and isinstance(setting.said, tuple):
                yield from setting.said


def valued(text: str) -> Mapping[str, int]:
    """Return the table of options that take one word.

    >>> valued("n ntasks-per-node")
    {'n': 1, 'ntasks_per_node': 1}
    """
    return {name.replace("-", "_"): 1 for name in text.split()}


def switches(text: str) -> frozenset[str]:
    """Return the names of options that take no word.

    >>> sorted(switches("no-python m"))
    ['m', 'no_python']
    """
    return frozenset(text.replace("-", "_").split())


def split_options(words: Sequence[Word], syntax: Syntax) -> Split:
    """Split what follows a program's name.

    >>> line = "--nproc-per-node 8 train.py --bf16".split()
    >>> split = split_options([Word(text=one, source="") for one in line], Syntax(values=valued("nproc-per-node")))
    >>> [word.text for word in split.command]
    ['train.py', '--bf16']
    """
    options: list[tuple[str, Setting]] = []
    own: list[Word] = []
    hidden: list[Word] = []
    index = 0
    while index < len(words):
        word = words[index]
        if _is_option(word):
            behind = words[index + 1 : index + 1 + _MOST_VALUES]
            index += _take(word, behind, syntax, options)
        elif _is_hidden(word, words[index + 1 : index + 2]):
            hidden.append(word)
        elif len(own) == syntax.own_words:
            index += word.text == "--"
            break
        elif word.text != "--":
            own.append(word)
        index += 1
        if syntax.closed and len(own) == syntax.own_words:
            break
    return Split(
        options=tuple(options),
        own=tuple(own),
        command=tuple(words[index:]),
        hidden=tuple(hidden),
    )


def _is_hidden(word: Word, behind: Sequence[Word]) -> bool:
    """Return whether a word is one reference out of sight, and the program's own name follows."""
    is_reference = word.text in word.unresolved
    return is_reference and bool(behind) and not behind[0].text.startswith("-")


def _take(
    word: Word, behind: Sequence[Word], syntax: Syntax, options: list[tuple[str, Setting]]
) -> int:
    """Keep the options that a word holds; return how many words behind it are theirs."""
    source = f"{word.source} {word.text.partition('=')[0]}".strip()
    used = 0
    for name, said, taken in _option(word, behind, syntax):
        options.append((name, Setting(said=said, source=source)))
        used += taken
    return used


def _is_option(word: Word) -> bool:
    return word.text.startswith("-") and word.text not in {"-", "--"}


def _option(
    word: Word, behind: Sequence[Word], syntax: Syntax
) -> Iterator[tuple[str, tuple[Word, ...], int]]:
    """Yield the options that one word holds: name, what they are given, and the words taken from behind."""
    flag, equals, value = word.text.partition("=")
    name = _full(flag.lstrip("-").replace("-", "_"), syntax)
    if equals:
        yield name, (_part(word, value),), 0
    elif name in syntax.values:
        count = syntax.values[name]
        yield name, tuple(behind[:count]), min(count, len(behind))
    elif flag.startswith("--") or name in syntax.flags:
        count = 0 if name in syntax.flags else syntax.unlisted
        yield name, tuple(behind[:count]), min(count, len(behind))
    else:
        yield from _letters(word, behind, syntax)


def _letters(
    word: Word, behind: Sequence[Word], syntax: Syntax
) -> Iterator[tuple[str, tuple[Word, ...], int]]:
    """Yield short options written together: ``-n4``, ``-lc``."""
    letters = word.text[1:]
    for position, letter in enumerate(letters):
        count = syntax.values.get(letter, 0)
        if count and position + 1 < len(letters):
            yield letter, (_part(word, letters[position + 1 :]),), 0
            return
        yield letter, tuple(behind[:count]), min(count, len(behind))


def _full(name: str, syntax: Syntax) -> str:
    if not syntax.flags or name in syntax.values or name in syntax.flags:
        return name
    near = [one for one in (*syntax.values, *syntax.flags) if one.startswith(name)]
    return near[0] if len(near) == 1 and name else name


def _part(word: Word, text: str) -> Word:
    """Return the end of a word as a word."""
    unresolved = tuple(one for one in word.unresolved if one in text)
    return Word(text=text, source=word.source, unresolved=unresolved)
