"""Cloud machines by name: which accelerator a family of machine types carries."""

import re
from collections.abc import Iterable


class InstanceNames:
    """Patterns of machine types, first match wins; ``*`` stands for any run of characters."""

    def __init__(self, patterns: Iterable[tuple[str, str]] = ()) -> None:
        """Take pairs of a pattern over spelling keys and the id of an accelerator."""
        self._patterns = [
            (re.compile(re.escape(pattern).replace(r"\*", ".*")), accelerator)
            for pattern, accelerator in patterns
        ]

    def accelerator_of(self, machine_key: str) -> str | None:
        """Return the id of the accelerator of a machine type, None if the type is not known.

        >>> InstanceNames([("g5-*", "a10g")]).accelerator_of("g5-4xlarge")
        'a10g'
        """
        bare = machine_key.removeprefix("standard-").removeprefix("ml-")
        for pattern, accelerator in self._patterns:
            if pattern.fullmatch(bare):
                return accelerator
        return None
