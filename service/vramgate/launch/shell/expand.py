"""Words after expansion, in bash's order: braces, then parameters, splitting, and quotes off.

Names of files are not looked up: ``*.json`` stays as it is written, and so does ``~``.
"""

from collections.abc import Iterable, Sequence

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.shell.arithmetic import NoValueError, evaluate
from vramgate.launch.shell.braced import BracedExpander
from vramgate.launch.shell.braces import expand_braces
from vramgate.launch.shell.fields import DEFAULT_IFS, Fields, Joined
from vramgate.launch.shell.parameters import taken_apart
from vramgate.launch.shell.parse import parse_operand, parse_word
from vramgate.launch.shell.patterns import Pattern, escaped
from vramgate.launch.shell.substitutions import known_output
from vramgate.launch.shell.syntax import (
    Arithmetic,
    Braced,
    DoubleQuoted,
    Literal,
    Parameter,
    Part,
    Parts,
    Process,
    Quoted,
    Substitution,
    Written,
)
from vramgate.launch.shell.values import (
    EMPTY,
    Array,
    Lack,
    Pieces,
    Reference,
    Value,
    known_text,
)
from vramgate.launch.shell.variables import Budget, Variables


class Expander:
    """Expands words with the values that variables have now."""

    def __init__(self, variables: Variables, budget: Budget) -> None:
        self.variables = variables
        self._budget = budget
        self._braced = BracedExpander(self)
        self.misses_arguments = False
        """Whether ``$1``, ``$#`` and the like were asked for and nobody knows them."""

    # ------------------------------------------------------------ words

    def all_fields(self, words: Iterable[object]) -> list[Pieces]:
        """Return what the written words among some become; assignments are left out."""
        found: list[Pieces] = []
        characters = 0
        for word in words:
            if not isinstance(word, Written):
                continue
            if word.plain is not None:
                found.append(word.plain)
                characters += len(word.text)
            else:
                found.extend(self.fields(word))
        self._budget.spend(characters)
        return found

    def fields(self, word: Written) -> Sequence[Pieces]:
        """Return the words that one written word becomes; maybe none."""
        parts = word.parts
        if len(parts) == 1 and type(parts[0]) is Literal and "{" not in parts[0].text:
            self._budget.spend(len(parts[0].text))
            return ((parts[0].text,),)
        fields = Fields(self.separators())
        for one in expand_braces(parts):
            self._add_parts(one, fields)
            fields.end()
        return self._counted(fields.done())

    def text(self, word: Written) -> Pieces:
        """Return the one text that a word becomes where nothing is split."""
        return self.joined(word.parts)

    def joined(self, parts: Parts) -> Pieces:
        """Return the one text that parts become."""
        fields = Joined()
        self._add_parts(parts, fields)
        return self._counted([fields.text()])[0]

    def _counted(self, fields: list[Pieces]) -> list[Pieces]:
        self._budget.spend(sum(len(piece) for field in fields for piece in field) + len(fields))
        return fields

    def spend(self, count: int) -> None:
        """Count work against what one reading may do.

        Raises:
            UnreadableLaunchError: there was too much.
        """
        self._budget.spend(count)

    def separators(self) -> str:
        """Return ``IFS``."""
        value = self.variables.get("IFS")
        if isinstance(value, tuple):
            known = known_text(value)
            return DEFAULT_IFS if known is None else known
        return DEFAULT_IFS

    # ------------------------------------------------------------ parts

    def _add_parts(self, parts: Parts, fields: Fields) -> None:
        for part in parts:
            if isinstance(part, Literal | Quoted):
                fields.add((part.text,))
            elif isinstance(part, DoubleQuoted):
                self.add_double(part.parts, fields)
            else:
                self.add_expansion(part, fields, quoted=False)

    def add_double(self, parts: Parts, fields: Fields) -> None:
        """Add what stands in double quotes: a field even if it is empty, but for ``"$@"``."""
        if not any(map(_is_list, parts)):
            fields.open()
        self.add_quoted(parts, fields)

    def add_quoted(self, parts: Parts, fields: Fields) -> None:
        """Add parts inside double quotes."""
        for part in parts:
            if isinstance(part, Literal | Quoted):
                fields.add((part.text,))
            elif isinstance(part, DoubleQuoted):
                self.add_quoted(part.parts, fields)
            else:
                self.add_expansion(part, fields, quoted=True)

    def add_expansion(self, part: Part, fields: Fields, *, quoted: bool) -> None:
        """Add what one expansion gives."""
        if isinstance(part, Parameter):
            if part.name in {"@", "*"}:
                self.add_list(self.arguments(part.written), fields, name=part.name, quoted=quoted)
                return
            pieces = self.parameter(part.name, part.written)
        elif isinstance(part, Braced):
            self._braced.add(part, fields, quoted=quoted)
            return
        elif isinstance(part, Arithmetic):
            value = self.arithmetic(part.inner)
            pieces = (Reference(part.written),) if value is None else (str(value),)
        elif isinstance(part, Substitution):
            output = known_output(part.inner, self.fields)
            pieces = (Reference(part.written),) if output is None else (output,)
        elif isinstance(part, Process):
            pieces = (Reference(part.written),)
        else:
            return
        self.add_pieces(pieces, fields, quoted=quoted)

    def add_pieces(self, pieces: Pieces, fields: Fields, *, quoted: bool) -> None:
        """Add the text of one expansion."""
        if quoted:
            fields.extend(pieces)
        else:
            fields.add_split(pieces)

    def add_list(self, items: Sequence[Pieces], fields: Fields, *, name: str, quoted: bool) -> None:
        """Add ``$@``, ``$*`` or all of an array."""
        between = self.separators()[:1]
        if name == "*" and (quoted or between):
            joined = [piece for item in items for piece in (between, *item)][1:]
            self.add_pieces(tuple(joined), fields, quoted=quoted)
            return
        for index, item in enumerate(items):
            if index:
                fields.end()
            if quoted:
                fields.add(item)
            else:
                fields.add_split(item)

    # ------------------------------------------------------------ values

    def arguments(self, written: str) -> Sequence[Pieces]:
        """Return ``$1``, ``$2``, … ; a reference where nobody knows them."""
        arguments = self.variables.arguments
        self.misses_arguments |= arguments is None
        return ((Reference(written),),) if arguments is None else arguments

    def is_missing(self, piece: str) -> bool:
        """Return whether a reference is to a plain variable that nobody gives."""
        return self._braced.is_missing(piece)

    def key(self, value: Value, written: str) -> int | str | None:
        """Return the key that a subscript means; None where it cannot be told."""
        return self._braced.key(value, written)

    def parameter(self, name: str, written: str) -> Pieces:
        """Return the text of ``$NAME``, ``$1`` or ``$#``."""
        arguments = self.variables.arguments
        if name.isdigit() and name != "0":
            if arguments is None:
                self.misses_arguments = True
                return (Reference(written),)
            return arguments[int(name) - 1] if int(name) <= len(arguments) else EMPTY
        if name == "#" and arguments is not None:
            return (str(len(arguments)),)
        self.misses_arguments |= name == "#"
        value = self.variables.get(name)
        if isinstance(value, tuple):
            return value
        if isinstance(value, Array):
            return value.items.get(0, value.items.get("0", EMPTY))
        return EMPTY if value is Lack.EMPTY else (Reference(written),)

    def arithmetic(self, inner: str) -> int | None:
        """Return the value of an arithmetic expression; None where it cannot be told."""
        try:
            expression = known_text(self.joined(parse_operand(inner)))
            if expression is None:
                return None
            return evaluate(expression, self._number_text, self._set_number)
        except (NoValueError, UnreadableLaunchError):
            return None

    def _number_text(self, name: str) -> str:
        pieces = self.parameter(name, f"${name}")
        text = known_text(pieces)
        if text is None:
            raise NoValueError
        return text

    def _set_number(self, name: str, value: int) -> None:
        self.variables.set(name, (str(value),))

    # ------------------------------------------------------------ patterns

    def pattern(self, parts: Parts) -> Pattern | None:
        """Return a pattern; quoted characters mean themselves. None where a part has no value."""
        found: list[str] = []
        for part in parts:
            if isinstance(part, Literal):
                found.append(part.text)
                continue
            text = known_text(self.joined((part,)))
            if text is None:
                return None
            found.append(escaped(text) if isinstance(part, Quoted | DoubleQuoted) else text)
        return Pattern("".join(found))

    def pattern_of(self, text: str) -> Pattern | None:
        """Return the pattern of an operand."""
        return self.pattern(parse_word(text))


def _is_list(part: Part) -> bool:
    if isinstance(part, Parameter):
        return part.name == "@"
    one = taken_apart(part.inner) if isinstance(part, Braced) else None
    return one is not None and "@" in {one.name, one.key} and one.operator != "length"
