"""What a refused name suggests."""

from vramgate.errors import UnknownNameError


def suggestions(error: UnknownNameError) -> tuple[str, ...]:
    """Return the ids an error suggests."""
    found = error.data["suggestions"]
    assert isinstance(found, tuple)
    return found
