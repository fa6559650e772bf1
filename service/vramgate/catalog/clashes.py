"""A name that two catalog entries claim."""

from dataclasses import dataclass

SITE = "site"
TENANT = "tenant"
"""Whose entry took a name over; also the origin of a tenant's own entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameClash:
    """A site's entry took over a name that meant something else before."""

    name: str
    ours: str
    """The id the name led to before."""
    theirs: str
    """The id of the site's entry, which it leads to now."""
    owner: str = SITE
    """Whose entry that is: the site's, or a tenant's own."""

    @property
    def message(self) -> str:
        """Return the clash as a sentence for the log of a start, or for who asks for the entry."""
        if self.ours.casefold() == self.theirs.casefold():
            return f"the {self.owner}'s {self.theirs} replaces the entry of that name"
        return f"{self.name} now means the {self.owner}'s {self.theirs}, no longer {self.ours}"
