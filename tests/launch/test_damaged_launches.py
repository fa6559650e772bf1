"""Whatever comes in is read or refused; ``make fuzz`` asks it for ten minutes."""

import random

from tests.launch.fuzz import fuzz


def test_damaged_launches_are_read_or_refused() -> None:
    tally = fuzz(random.Random(4), count=400)

    assert not tally.failures
    assert tally.read
    assert tally.refused
