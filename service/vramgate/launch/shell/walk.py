"""The commands of a script in order: branches that can be decided are, of the others all are kept."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from vramgate.launch.documents import UnreadableLaunchError
from vramgate.launch.shell.assign import Assigner
from vramgate.launch.shell.builtins import DECLARING, Builtins, literal
from vramgate.launch.shell.conditions import Conditions
from vramgate.launch.shell.expand import Expander
from vramgate.launch.shell.loops import Loops
from vramgate.launch.shell.outcome import Outcome, Stop, outcome_of
from vramgate.launch.shell.outputs import Outputs
from vramgate.launch.shell.parse import parse_script
from vramgate.launch.shell.syntax import (
    ArithmeticCommand,
    ArithmeticFor,
    Background,
    Case,
    Clause,
    DoubleBracket,
    For,
    Function,
    Group,
    If,
    Item,
    Joint,
    Loop,
    Node,
    Pipeline,
    Sequel,
    Simple,
    Written,
)
from vramgate.launch.shell.values import (
    Lack,
    Pieces,
    Value,
    known_text,
    text_of,
    word_of,
    words_of,
)
from vramgate.launch.shell.variables import Budget, Variables
from vramgate.launch.words import Command, Word

MAX_CALLS = 8
"""Functions and ``eval`` inside each other; a deeper one is passed over."""
_STOPS = {
    "exit": Stop.EXIT,
    "return": Stop.RETURN,
    "break": Stop.BREAK,
    "continue": Stop.CONTINUE,
}

Run = Callable[[], Outcome]


def _nothing() -> Outcome:
    return Outcome.SUCCEEDED


class Walker:
    """Goes through one script."""

    def __init__(
        self, variables: Variables, budget: Budget, *, prefix: str, numbers_lines: bool
    ) -> None:
        self.variables = variables
        self.budget = budget
        self.expander = Expander(variables, budget)
        self.assigner = Assigner(self.expander)
        self.builtins = Builtins(self.expander, self.assigner)
        self.conditions = Conditions(self.expander)
        self.outputs = Outputs(self.expander)
        self.commands: list[Command] = []
        self.stop: Stop | None = None
        self.is_silent = False
        """Whether commands are only gone through for what they set."""
        self._functions: dict[str, Node] = {}
        self._calls = 0
        self._line: int | None = None
        self._prefix_of_places = prefix
        self._numbers_lines = numbers_lines
        self._loops = Loops(self)
        self._piped: str | None = None
        self._printed: str | None = None
        self._runs: Mapping[type, Callable[..., Outcome]] = {
            Simple: self._simple,
            Sequel: self._sequel,
            Pipeline: self._pipeline,
            Background: self._background,
            Group: self._group,
            If: self._if,
            Case: self._case,
            Function: self._define,
            ArithmeticCommand: lambda node: self.builtins.reckon(node.expression),
            DoubleBracket: lambda node: outcome_of(self.conditions.holds(node.condition)),
            Loop: self._loops.while_loop,
            For: self._loops.for_loop,
            ArithmeticFor: self._loops.arithmetic_loop,
        }

    def run(self, node: Node) -> Outcome:
        """Go through a command; nothing behind a stop is reached."""
        if self.stop is not None:
            return Outcome.SUCCEEDED
        self._printed = None
        return self._runs[type(node)](node)

    # ------------------------------------------------------------ lists and pipelines

    def _sequel(self, node: Sequel) -> Outcome:
        outcome = Outcome.SUCCEEDED
        for item in node.items:
            outcome = self._item(item, outcome)
            if self.stop is not None:
                break
        return outcome

    def _item(self, item: Item, before: Outcome) -> Outcome:
        if item.joint is Joint.THEN:
            self.conditions.supposes = False
            return self.run(item.command)
        goes_on = Outcome.SUCCEEDED if item.joint is Joint.AND else Outcome.FAILED
        if before is goes_on:
            return self._unless_it_stops(lambda: self.run(item.command))
        if before.is_decided:
            return before
        if before is Outcome.PRESUMED and item.joint is Joint.AND:
            return self.run(item.command)
        self.fork([lambda: self.run(item.command), lambda: before])
        return before if before is Outcome.PRESUMED else Outcome.UNDECIDED

    def _unless_it_stops(self, run: Run) -> Outcome:
        """Run what is reached if a variable is unset; where that ends the script, it was set."""
        if not self.conditions.supposes:
            return run()
        before = self.variables.copy()
        outcome = run()
        if self.stop is Stop.EXIT:
            self.stop = None
            self.variables.restore(before)
            return Outcome.FAILED
        return outcome

    def _pipeline(self, node: Pipeline) -> Outcome:
        outcome = Outcome.SUCCEEDED
        if len(node.commands) == 1:
            outcome = self.run(node.commands[0])
        elif node.commands:
            outcome = self._piped_commands(node.commands)
        return outcome.negated() if node.negated else outcome

    def _piped_commands(self, commands: Sequence[Node]) -> Outcome:
        outcome, before, outer = Outcome.SUCCEEDED, self.variables.copy(), self._piped
        printed: str | None = None
        for command in commands:
            self._piped, self._printed = printed, None
            outcome = self.run(command)
            printed, self.stop = self._printed, None
            self._restore(before)
        self._piped = outer
        return outcome if outcome.is_decided else Outcome.PRESUMED

    def _background(self, node: Background) -> Outcome:
        before, arguments = self.variables.copy(), self.variables.arguments
        outcome = self.run(node.body)
        self._restore(before)
        self.variables.arguments = arguments
        self.stop = None
        return outcome

    def _restore(self, before: Mapping[str, Value]) -> None:
        self.budget.spend(len(before))
        self.variables.restore(before)

    def _group(self, node: Group) -> Outcome:
        outer, self._piped = self._piped, self.outputs.given(node.redirections, self._piped)
        self.outputs.open_group()
        outcome = self.run(node.body)
        self._piped = outer
        printed = self.outputs.close_group()
        self._printed = self.outputs.redirected(printed, node.redirections)
        return outcome

    # ------------------------------------------------------------ branches

    def fork(self, runs: Sequence[Run]) -> None:
        """Go each way from here; what the ways that go on do not agree on is unsettled."""
        before, arguments = self.variables.copy(), self.variables.arguments
        ends: list[tuple[Stop | None, dict[str, Value]]] = []
        for run in runs:
            self.budget.spend(len(before))
            self.variables.restore(before)
            self.variables.arguments = arguments
            self.stop = None
            run()
            ends.append((self.stop, self.variables.copy()))
        going_on = [values for stop, values in ends if stop is None]
        self.stop = None if going_on else ends[0][0]
        first, *others = going_on or [values for _, values in ends]
        self.variables.restore(first)
        for other in others:
            self.variables.settle(other)

    def _if(self, node: If) -> Outcome:
        ways: list[Run] = []
        for condition, body in node.branches:
            outcome = Outcome.SUCCEEDED
            if condition is not None:
                self.conditions.supposes = False
                outcome = self.run(condition)
            if outcome is Outcome.FAILED or self.stop is not None:
                continue
            ways.append(partial(self.run, body))
            if outcome is Outcome.SUCCEEDED:
                if not (condition is not None and self.conditions.supposes):
                    break
                return self._supposed(ways, node)
        else:
            ways.append(_nothing)
        return self._ways(ways)

    def _ways(self, ways: Sequence[Run]) -> Outcome:
        if len(ways) == 1:
            return ways[0]()
        self.fork(ways)
        return Outcome.UNDECIDED

    def _supposed(self, ways: list[Run], node: If) -> Outcome:
        """Take the branch of an unset variable, unless it ends the script: then go on behind it."""
        last = ways.pop()
        others = [body for condition, body in node.branches if condition is None]

        def taken() -> Outcome:
            before = self.variables.copy()
            outcome = last()
            if self.stop is Stop.EXIT:
                self.stop = None
                self.variables.restore(before)
                return self.run(others[0]) if others else Outcome.SUCCEEDED
            return outcome

        return self._ways([*ways, taken])

    def _case(self, node: Case) -> Outcome:
        subject = known_text(self.expander.text(node.subject))
        ways: list[Run] = []
        for index, clause in enumerate(node.clauses):
            fits = self._fits(clause.patterns, subject)
            if fits is False:
                continue
            ways.append(partial(self._clauses, node.clauses, index))
            if fits:
                break
        else:
            ways.append(_nothing)
        return self._ways(ways)

    def _clauses(self, clauses: Sequence[Clause], index: int) -> Outcome:
        """Run a clause, and those it falls through to."""
        outcome = Outcome.SUCCEEDED
        for place in range(index, len(clauses)):
            body = clauses[place].body
            outcome = Outcome.SUCCEEDED if body is None else self.run(body)
            if clauses[place].ending != ";&":
                break
        return outcome

    def _fits(self, patterns: Sequence[Written], subject: str | None) -> bool | None:
        answers: list[bool | None] = []
        for written in patterns:
            pattern = self.expander.pattern(written.parts)
            if pattern is not None and pattern.glob == "*":
                return True
            if pattern is None or subject is None:
                answers.append(None)
            else:
                answers.append(pattern.fits(subject))
        return True if True in answers else None if None in answers else False

    # ------------------------------------------------------------ functions

    def _define(self, node: Function) -> Outcome:
        self._functions[node.name] = node.body
        return Outcome.SUCCEEDED

    def _call(self, body: Node, arguments: Sequence[Pieces]) -> Outcome:
        if self._calls >= MAX_CALLS or self.budget.is_low:
            return Outcome.PRESUMED
        self._calls += 1
        outer = self.variables.arguments
        self.variables.arguments = tuple(arguments)
        self.builtins.locals.append({})
        outcome = self.run(body)
        for name, value in self.builtins.locals.pop().items():
            self.variables.set(name, value)
        self.variables.arguments = outer
        self._calls -= 1
        if self.stop is Stop.RETURN:
            self.stop = None
            outcome = Outcome.PRESUMED
        return outcome

    def _evaluate(self, words: Sequence[Pieces], line: int) -> Outcome:
        if self._calls >= MAX_CALLS:
            return Outcome.PRESUMED
        try:
            script = parse_script(" ".join(map(text_of, words)), "eval")
        except UnreadableLaunchError:
            return Outcome.PRESUMED
        self._calls += 1
        outer, self._line = self._line, self._line or line
        outcome = self.run(script)
        self._line = outer
        self._calls -= 1
        return outcome

    # ------------------------------------------------------------ simple commands

    def _simple(self, node: Simple) -> Outcome:
        if node.words and literal(node.words[0]) in DECLARING:
            return self.builtins.declare(node.words, self._place(node.line))
        fields = self.expander.all_fields(node.words)
        if not fields:
            for one in node.assignments:
                self.assigner.assign(one)
            self._printed = self.outputs.redirected("", node.redirections)
            return Outcome.SUCCEEDED
        with_prefix = bool(node.assignments)
        before = {one.name: self.variables.get(one.name) for one in node.assignments}
        prefix = self._prefix(node)
        outcome = self._named(node, fields, prefix)
        if with_prefix and text_of(fields[0]) not in {"eval", "read"}:
            self._take_back(before)
        return outcome

    def _prefix(self, node: Simple) -> Mapping[str, Word]:
        prefix: dict[str, Word] = {}
        for one in node.assignments:
            self.assigner.assign(one)
            value = self.expander.parameter(one.name, f"${one.name}")
            prefix[one.name] = word_of(value, f"{self._place(node.line)}env {one.name}")
        return prefix

    def _take_back(self, before: Mapping[str, Value]) -> None:
        for name, value in before.items():
            if value is Lack.UNSET:
                self.variables.remove(name)
            else:
                self.variables.set(name, value)

    def _named(self, node: Simple, fields: Sequence[Pieces], prefix: Mapping[str, Word]) -> Outcome:
        name = text_of(fields[0])
        given = self.outputs.given(node.redirections, self._piped)
        if name in self._functions:
            return self._call(self._functions[name], fields[1:])
        if name in {"[", "test"}:
            operands = fields[1:-1] if name == "[" else fields[1:]
            return outcome_of(self.conditions.test(operands))
        if name in _STOPS:
            self.stop = _STOPS[name]
            return Outcome.SUCCEEDED
        if name == "eval":
            return self._evaluate(fields[1:], node.line)
        if name == "printf" and [text_of(field) for field in fields[1:2]] == ["-v"]:
            self.builtins.print_to_variable([*fields, ("",), ("",)])
            return Outcome.SUCCEEDED
        if name in self.builtins.by_name:
            return self.builtins.by_name[name](fields, given)
        self._emit(node, fields, prefix)
        self._printed = self.outputs.take(fields, node.redirections, given)
        if name == "exec" and len(fields) > 1:
            self.stop = Stop.EXIT
        return Outcome.PRESUMED

    def _emit(self, node: Simple, fields: Sequence[Pieces], prefix: Mapping[str, Word]) -> None:
        if self.is_silent:
            return
        place = self._place(node.line)
        words = words_of(fields, f"{place}args")
        environment = self.variables.environment(self.budget)
        if prefix:
            environment = {**environment, **prefix}
        self.commands.append(Command(words=words, environment=environment))

    def _place(self, line: int) -> str:
        line_place = f"line {self._line or line}, " if self._numbers_lines else ""
        return self._prefix_of_places + line_place
