"""``if``, ``while``, ``for``, ``select``, ``case``, ``{ }`` and ``[[ ]]`` as they are written."""

from vramgate.launch.shell.conditions_syntax import ConditionParser
from vramgate.launch.shell.syntax import (
    ArithmeticFor,
    Case,
    Clause,
    DoubleBracket,
    For,
    If,
    Loop,
    Node,
    Sequel,
    Written,
)
from vramgate.launch.shell.tokens import Tokens

_SEMICOLONS = 2


class CompoundParser(Tokens):
    """Reads compound commands; the lists in them are the grammar's."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self._conditions = ConditionParser(self.scanner, self.simple, self.fail)

    def command_list(self) -> Sequel:
        """Read commands up to what cannot start one; maybe none."""
        raise NotImplementedError

    def some_commands(self) -> Sequel:
        """Read commands, at least one."""
        body = self.command_list()
        if not body.items:
            self.unexpected()
        return body

    def compound(self, keyword: str) -> Node:
        """Read the compound command that a keyword opens."""
        self.scanner.deeper()
        self.take_keyword()
        node = self._opened(keyword)
        self.scanner.depth -= 1
        return node

    def _opened(self, keyword: str) -> Node:
        if keyword == "if":
            return self._if()
        if keyword in {"while", "until"}:
            condition = self.some_commands()
            return Loop(condition, self._do_group(), until=keyword == "until")
        if keyword in {"for", "select"}:
            return self._for(selects=keyword == "select")
        if keyword == "case":
            return self._case()
        if keyword == "{":
            body = self.some_commands()
            self.expect("}")
            return body
        return DoubleBracket(self._conditions.read())

    def _if(self) -> If:
        branches: list[tuple[Node | None, Node]] = []
        while True:
            condition = self.some_commands()
            self.expect("then")
            branches.append((condition, self.some_commands()))
            keyword = self.keyword()
            if keyword != "elif":
                break
            self.take_keyword()
        if keyword == "else":
            self.take_keyword()
            branches.append((None, self.some_commands()))
        self.expect("fi")
        return If(tuple(branches))

    def _for(self, *, selects: bool) -> Node:
        self.simple.blanks()
        if not selects and self.text.startswith("((", self.scanner.pos):
            return self._arithmetic_for()
        name = self.word()
        self.simple.blanks()
        items: tuple[Written, ...] | None = None
        if self.char() == ";":
            self.scanner.pos += 1
            self.newlines()
        else:
            newline = self.char() == "\n"
            self.newlines()
            if self.keyword_is("in"):
                items = self._items()
            elif not newline and self.keyword() == "{":
                self.unexpected()
        return For(name.text, items, self._do_group(), selects=selects)

    def _items(self) -> tuple[Written, ...]:
        self.scanner.pos += len("in")
        items: list[Written] = []
        self.simple.blanks()
        while (char := self.char()) and char not in ";\n":
            items.append(self.word())
            self.simple.blanks()
        if self.is_case_end():
            self.unexpected()
        if char == ";":
            self.scanner.pos += 1
        self.newlines()
        return tuple(items)

    def _arithmetic_for(self) -> Node:
        start = self.scanner.pos
        end = self.scanner.skip_pair(start + 2, "(")
        expressions = self.text[start + 2 : end - 1]
        if not self.text.startswith(")", end) or expressions.count(";") != _SEMICOLONS:
            self.fail(start, "for (( needs three expressions and ))")
        self.scanner.pos = end + 1
        self.simple.blanks()
        if self.char() == ";" and not self.is_case_end():
            self.scanner.pos += 1
        self.newlines()
        return ArithmeticFor(expressions, self._do_group())

    def _do_group(self) -> Node:
        opening = "{" if self.keyword() == "{" else "do"
        self.expect(opening)
        body = self.some_commands()
        self.expect("}" if opening == "{" else "done")
        return body

    def _case(self) -> Case:
        self.simple.blanks()
        subject = self.word()
        self.newlines()
        if not self.keyword_is("in"):
            self.unexpected()
        self.scanner.pos += len("in")
        clauses: list[Clause] = []
        self.newlines()
        while self.keyword() != "esac":
            clauses.append(self._clause())
            if not clauses[-1].ending:
                break
            self.newlines()
        self.expect("esac")
        return Case(subject, tuple(clauses))

    def _clause(self) -> Clause:
        if self.char() == "(":
            self.scanner.pos += 1
            self.simple.blanks()
        patterns = [self.word()]
        self.simple.blanks()
        while self.char() == "|":
            self.scanner.pos += 1
            self.simple.blanks()
            patterns.append(self.word())
            self.simple.blanks()
        if self.char() != ")":
            self.unexpected()
        self.scanner.pos += 1
        body = self.command_list()
        self.simple.blanks()
        return Clause(tuple(patterns), body if body.items else None, self.case_end())
