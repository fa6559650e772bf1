"""Assignments: plain ones, arrays, and those behind ``export`` and ``declare``."""

from vramgate.launch.shell.expand import Expander
from vramgate.launch.shell.syntax import Assignment, Element, Written
from vramgate.launch.shell.values import EMPTY, Array, Lack, Pieces, Reference, Value


class Assigner:
    """Gives variables what a script assigns to them."""

    def __init__(self, expander: Expander) -> None:
        self._expander = expander
        self._variables = expander.variables

    def assign(self, one: Assignment, *, associative: bool = False) -> None:
        """Carry out one assignment."""
        if not isinstance(one.value, Written):
            self._assign_elements(one, one.value, associative=associative)
            return
        value = self._expander.text(one.value)
        if one.key is not None:
            self._assign_element(one, value)
            return
        if not one.appends:
            held = self._variables.get(one.name)
            if isinstance(held, Array):
                self._variables.set_element(one.name, 0, value)
            else:
                self._variables.set(one.name, value)
            return
        if self._variables.get(one.name) is Lack.UNSET:
            value = (Reference(f"${one.name}"), *value)
        self._variables.append(one.name, value)

    def _assign_element(self, one: Assignment, value: Pieces) -> None:
        held: Value = self._variables.get(one.name)
        if held is Lack.UNSETTLED:
            return
        key = self._expander.key(held, one.key or "")
        if key is None:
            self._variables.set(one.name, Lack.UNSETTLED)
            return
        if one.appends and isinstance(held, Array):
            value = held.items.get(key, EMPTY) + value
        self._expander.spend(len(held.items) if isinstance(held, Array) else 0)
        self._variables.set_element(one.name, key, value)

    def _assign_elements(
        self, one: Assignment, elements: tuple[Element, ...], *, associative: bool
    ) -> None:
        held = self._variables.get(one.name)
        if one.appends and held is Lack.UNSETTLED:
            return
        items: dict[int | str, Pieces] = {}
        is_associative = associative
        if isinstance(held, Array):
            is_associative = associative or held.is_associative
            items = dict(held.items) if one.appends else {}
            self._expander.spend(len(items))
        elif one.appends and isinstance(held, tuple):
            items = {0: held}
        if self._filled(items, elements, is_associative=is_associative):
            self._variables.set(one.name, Array(items, is_associative))
        else:
            self._variables.set(one.name, Lack.UNSETTLED)

    def _filled(
        self,
        items: dict[int | str, Pieces],
        elements: tuple[Element, ...],
        *,
        is_associative: bool,
    ) -> bool:
        """Add the elements; False where a key cannot be told."""
        index = 1 + max((int(key) for key in items), default=-1) if not is_associative else 0
        for element in elements:
            if element.key is not None:
                key = self._expander.key(Array(items, is_associative), element.key)
                if key is None:
                    return False
                items[key] = self._expander.text(element.value)
                index = key + 1 if isinstance(key, int) else index
                continue
            for field in self._expander.fields(element.value):
                items[index] = field
                index += 1
        return True
