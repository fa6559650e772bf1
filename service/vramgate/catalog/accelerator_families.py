"""Cards by the model their names speak of: the four A100s, the two 4060 Ti."""

from collections.abc import Iterable

from vramgate.catalog.accelerator_facts import Accelerator
from vramgate.catalog.accelerator_names import Spelling, spelling


class AcceleratorFamilies:
    """Cards under every spelling of their model, the usual card of a size first."""

    def __init__(self, cards: Iterable[Accelerator]) -> None:
        """Read the names of the cards.

        A name without a form factor ("a100-40gb") makes its card the usual one of its size.
        """
        families: dict[str, dict[str, Accelerator]] = {}
        usual: set[tuple[str, str]] = set()
        self._forms: dict[str, str | None] = {}
        for card in cards:
            self._forms[card.name] = spelling(card.name).form_factor
            for written in (card.name, *card.aliases):
                words = spelling(written)
                families.setdefault(words.model, {})[card.name] = card
                if words.form_factor is None:
                    usual.add((words.model, card.name))
        families.pop("", None)
        self._families = {
            model: (
                *(card for card in members.values() if (model, card.name) in usual),
                *(card for card in members.values() if (model, card.name) not in usual),
            )
            for model, members in families.items()
        }

    def candidates(self, words: Spelling) -> tuple[Accelerator, ...]:
        """Return the cards whose model, form and memory a spelling allows.

        None if a stated size is nobody's: an A100 with 64 GB is none of the others.
        """
        family = self._allowed(words)
        if words.memory_gb is None:
            return family
        nominal = tuple(c for c in family if c.memory_bytes_nominal >> 30 == words.memory_gb)
        if nominal or len(sizes(family)) > 1:
            return nominal
        # Makers' figures differ from drivers' (B200: 192 and 180): near enough for the only size.
        return tuple(card for card in family if card.may_hold(words.memory_gb * 10**9))

    def rivals(self, card: Accelerator, words: Spelling) -> tuple[Accelerator, ...]:
        """Return the cards of other memory sizes that a name of this card may mean as well."""
        if words.memory_gb is not None:
            return ()
        family = self._allowed(words)
        if card not in family:
            return ()
        nominal = card.memory_bytes_nominal
        return tuple(other for other in family if other.memory_bytes_nominal != nominal)

    def _allowed(self, words: Spelling) -> tuple[Accelerator, ...]:
        family = self._families.get(words.model, ())
        return tuple(card for card in family if words.allows(self._forms[card.name]))


def sizes(cards: Iterable[Accelerator]) -> set[int]:
    """Return the different nominal memories of some cards."""
    return {card.memory_bytes_nominal for card in cards}
