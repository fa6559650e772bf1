"""Loops: each item where they are few and known, else the body once."""

from collections.abc import Callable, Sequence
from typing import Protocol

from vramgate.launch.shell.builtins import Builtins, assigned_in
from vramgate.launch.shell.expand import Expander
from vramgate.launch.shell.outcome import Outcome, Stop
from vramgate.launch.shell.syntax import ArithmeticFor, For, Loop, Node
from vramgate.launch.shell.values import Lack, Pieces, is_known
from vramgate.launch.shell.variables import Budget, Variables

MAX_ITEMS = 8
"""Items that a loop is gone through one by one; of more the variable has no single value."""


class Walk(Protocol):
    """What goes through a script."""

    variables: Variables
    budget: Budget
    expander: Expander
    builtins: Builtins
    stop: Stop | None
    is_silent: bool

    def run(self, node: Node) -> Outcome:
        """Go through a command."""

    def fork(self, runs: Sequence[Callable[[], Outcome]]) -> None:
        """Go each way from here."""


class Loops:
    """Goes through loops for a walker."""

    def __init__(self, walker: Walk) -> None:
        self._walker = walker

    def while_loop(self, node: Loop) -> Outcome:
        """Go through ``while`` or ``until``: the body once, unless it is never reached."""
        walker = self._walker
        walker.expander.misses_arguments = False
        before = walker.variables.copy()
        outcome = walker.run(node.condition)
        never = Outcome.SUCCEEDED if node.until else Outcome.FAILED
        if outcome is never or walker.stop is not None:
            return Outcome.SUCCEEDED
        if walker.expander.misses_arguments:
            # Nobody gave arguments: a loop over them changes nothing.
            self._once(node.body)
            walker.variables.restore(before)
        else:
            self._unsettled(node.body)
        return Outcome.PRESUMED

    def for_loop(self, node: For) -> Outcome:
        """Go through ``for`` or ``select``."""
        walker = self._walker
        walker.expander.misses_arguments = False
        items = self._items(node)
        if walker.expander.misses_arguments:
            before = walker.variables.copy()
            walker.variables.set(node.name, Lack.UNSETTLED)
            self._once(node.body)
            walker.variables.restore(before)
            return Outcome.PRESUMED
        few = len(items) <= MAX_ITEMS and all(map(is_known, items)) and not node.selects
        if not few or walker.budget.is_low:
            walker.variables.set(node.name, Lack.UNSETTLED)
            self._unsettled(node.body)
            return Outcome.PRESUMED
        for item in items:
            walker.variables.set(node.name, item)
            walker.run(node.body)
            if self._ends():
                break
        return Outcome.PRESUMED

    def _items(self, node: For) -> Sequence[Pieces]:
        expander = self._walker.expander
        if node.items is None:
            return expander.arguments("$@")
        return [field for word in node.items for field in expander.fields(word)]

    def arithmetic_loop(self, node: ArithmeticFor) -> Outcome:
        """Go through ``for ((…; …; …))``."""
        walker = self._walker
        first, condition, step = node.expressions.split(";")
        count = self._count(first, condition, step)
        if count is None or walker.budget.is_low:
            for name in assigned_in(node.expressions):
                walker.variables.set(name, Lack.UNSETTLED)
            self._unsettled(node.body)
            return Outcome.PRESUMED
        walker.builtins.reckon(first)
        for _ in range(count):
            walker.run(node.body)
            if self._ends():
                break
            walker.builtins.reckon(step)
        return Outcome.PRESUMED

    def _count(self, first: str, condition: str, step: str) -> int | None:
        """Return how often the body is run; None where that is unknown, or too often."""
        walker = self._walker
        before = walker.variables.copy()
        walker.expander.arithmetic(first)
        count: int | None = None
        for turn in range(MAX_ITEMS + 1):
            value = walker.expander.arithmetic(condition) if condition.strip() else None
            if not value:
                count = None if value is None else turn
                break
            if walker.expander.arithmetic(step) is None:
                break
        walker.variables.restore(before)
        return count

    def _ends(self) -> bool:
        """Take back ``break`` and ``continue``; return whether the loop is over."""
        walker = self._walker
        stop = walker.stop
        if stop in {Stop.BREAK, Stop.CONTINUE}:
            walker.stop = None
        return stop is not None and stop is not Stop.CONTINUE

    def _once(self, body: Node) -> None:
        self._walker.fork([lambda: self._walker.run(body)])
        self._walker.stop = None

    def _unsettled(self, body: Node) -> None:
        """Go through the body once, with what it changes unsettled."""
        walker = self._walker
        before = walker.variables.copy()
        if not walker.is_silent:
            walker.is_silent = True
            self._once(body)
            walker.is_silent = False
            walker.variables.settle(before)
        self._once(body)
        walker.variables.settle(before)
