"""A name that two catalog entries claim."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NameClash:
    """A site's entry took over a name that meant something else before."""

    name: str
    ours: str
    """The id the name led to before."""
    theirs: str
    """The id of the site's entry, which it leads to now."""

    @property
    def message(self) -> str:
        """Return the clash as a sentence for the log of a start."""
        if self.ours.casefold() == self.theirs.casefold():
            return f"the site's {self.theirs} replaces the entry of that name"
        return f"{self.name} now means the site's {self.theirs}, no longer {self.ours}"
