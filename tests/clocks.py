"""A clock for tests: seconds that pass when a test says so."""


class Clock:
    """Stands in for ``time.monotonic``."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the present second."""
        return self.now
