"""Conditions on counts: of one number, or of all or some of an array's."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Condition: TypeAlias = bool | NDArray[np.bool_]
"""What comparing a ``Count`` gives."""


def everywhere(condition: Condition) -> bool:
    """Return whether a condition holds for every job.

    NumPy takes microseconds to say so of a plain ``bool``, which is most of them.

    >>> everywhere(True), everywhere(np.array([1, 2]) == 1)
    (True, False)
    """
    return condition if isinstance(condition, bool) else bool(np.all(condition))


def somewhere(condition: Condition) -> bool:
    """Return whether a condition holds for at least one job.

    >>> somewhere(False), somewhere(np.array([1, 2]) == 1)
    (False, True)
    """
    return condition if isinstance(condition, bool) else bool(np.any(condition))
