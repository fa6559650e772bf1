"""What a script's variables hold while it is read."""

from collections.abc import Mapping

from vramgate.launch.documents import unreadable
from vramgate.launch.shell.values import (
    EMPTY,
    Array,
    Lack,
    Pieces,
    Value,
    known_text,
    pieces_of,
    word_of,
)
from vramgate.launch.words import Word

MAX_EXPANDED = 4 * 1024 * 1024
"""Characters that all values and words of one reading may have together."""
MAX_STEPS = 100_000
"""Commands and words that one reading goes through, loops and functions included."""

_SET_BY_OTHERS = ("SLURM_", "SLURMD_", "SBATCH_", "PBS_", "LSB_", "PET_", "OMPI_", "PMI_")
_SYSTEM_NAMES = (
    "RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME LINENO BASHPID PPID UID EUID GROUPS HOME USER"
    " LOGNAME HOSTNAME HOSTTYPE OSTYPE MACHTYPE PATH PWD OLDPWD SHELL SHLVL TERM BASH BASH_VERSION"
    " BASH_SOURCE BASH_LINENO BASH_ARGV BASH_SUBSHELL FUNCNAME PIPESTATUS DIRSTACK REPLY _"
)
_SET_BY_SYSTEM = frozenset(_SYSTEM_NAMES.split())


_VARIABLE_CHARACTERS = 8
"""What putting one variable into an environment counts as."""


class Budget:
    """How much one reading may do."""

    __slots__ = ("_characters", "_name", "_steps")

    def __init__(self, name: str) -> None:
        self._name = name
        self._characters = MAX_EXPANDED
        self._steps = MAX_STEPS

    @property
    def is_low(self) -> bool:
        """Whether loops should no longer be gone through item by item."""
        return self._steps < MAX_STEPS // 2 or self._characters < MAX_EXPANDED // 2

    def spend(self, characters: int) -> None:
        """Count one step that made so many characters.

        Raises:
            UnreadableLaunchError: there were too many.
        """
        self._steps -= 1
        self._characters -= characters
        if self._characters < 0 or self._steps < 0:
            raise unreadable(self._name, "its variables and loops expand to too much")


class Variables:
    """Variables by name, which of them are exported, and the arguments: ``$1``, ``$2``."""

    def __init__(
        self, environment: Mapping[str, Word], arguments: tuple[Pieces, ...] | None
    ) -> None:
        self._given = environment
        self._values: dict[str, Value] = {
            name: pieces_of(word) for name, word in environment.items()
        }
        self._exported = set(environment)
        self._sources: dict[str, str] = {}
        self._seen_by_commands: Mapping[str, Word] | None = environment
        self.arguments = arguments
        """None: not known."""

    def get(self, name: str) -> Value:
        """Return what a variable holds."""
        return self._values.get(name, Lack.UNSET)

    def is_set_by_others(self, name: str) -> bool:
        """Return whether the scheduler or the system gives it a value that nobody sent."""
        return name not in self._values and (
            name in _SET_BY_SYSTEM or name.startswith(_SET_BY_OTHERS)
        )

    def set(self, name: str, value: Value) -> None:
        """Give a variable its value."""
        self._values[name] = value
        if name in self._exported:
            self._seen_by_commands = None

    def remove(self, name: str) -> None:
        """Make a variable one that nobody gives."""
        self._values.pop(name, None)
        self._seen_by_commands = None

    def set_element(self, name: str, key: int | str, value: Pieces) -> None:
        """Give one element of an array its value."""
        held = self.get(name)
        items: dict[int | str, Pieces] = {}
        if isinstance(held, Array):
            items = dict(held.items)
        elif isinstance(held, tuple):
            items = {0: held}
        items[key] = value
        self.set(name, Array(items, isinstance(held, Array) and held.is_associative))

    def append(self, name: str, value: Pieces) -> None:
        """Add to the end of a variable; what nobody gave is taken as written by the caller."""
        held = self.get(name)
        if isinstance(held, Array):
            self.set_element(name, 0, held.items.get(0, EMPTY) + value)
        elif isinstance(held, tuple):
            self.set(name, held + value)
        elif held is not Lack.UNSETTLED:
            self.set(name, value)

    def export(self, name: str, source: str) -> None:
        """Let commands see a variable."""
        self._exported.add(name)
        self._sources[name] = source
        self._seen_by_commands = None

    def unexport(self, name: str) -> None:
        """Hide a variable from commands."""
        self._exported.discard(name)
        self._seen_by_commands = None

    def environment(self, budget: Budget) -> Mapping[str, Word]:
        """Return what a command finds in its environment."""
        if self._seen_by_commands is None:
            budget.spend(len(self._exported) * _VARIABLE_CHARACTERS)
            self._seen_by_commands = {
                name: word for name in self._exported if (word := self._seen(name)) is not None
            }
        return self._seen_by_commands

    def _seen(self, name: str) -> Word | None:
        value = self._values.get(name, Lack.EMPTY)
        source = self._sources.get(name)
        given = self._given.get(name)
        if given is not None and value == pieces_of(given):
            return given
        source = source or (given.source if given is not None else f"env {name}")
        if value is Lack.UNSETTLED:
            return Word(text=f"${name}", source=source, unresolved=(f"${name}",))
        return word_of(value, source) if isinstance(value, tuple) else None

    # ------------------------------------------------------------ branches

    def copy(self) -> dict[str, Value]:
        """Return the values as they are now."""
        return dict(self._values)

    def restore(self, values: Mapping[str, Value]) -> None:
        """Go back to the values of a copy."""
        self._values = dict(values)
        self._seen_by_commands = None

    def settle(self, other: Mapping[str, Value]) -> None:
        """Keep what both ways agree on; the rest is set in two ways."""
        mine = self._values
        for name in mine.keys() | other.keys():
            if mine.get(name, Lack.UNSET) != other.get(name, Lack.UNSET):
                mine[name] = Lack.UNSETTLED
        self._seen_by_commands = None


def known(value: Value) -> str | None:
    """Return a plain variable's text where all of it is known."""
    if isinstance(value, tuple):
        return known_text(value)
    return None
