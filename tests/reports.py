"""Reports as trainers send them, and what is kept of them."""

import itertools
from typing import Any

from tests.factories import a_job

_RUNS = itertools.count(1)

A100_BYTES = 85_097_971_712
"""What torch says an NVIDIA A100-SXM4-80GB has (``total_memory``)."""
ALLOCATED = 23_000_000_000
RESERVED = 25_000_000_000


def a_report(**overrides: Any) -> dict[str, Any]:  # noqa: ANN401 whatever JSON holds
    """Return a plausible report of ``a_job`` from a run of its own."""
    return {
        "run_id": f"run-{next(_RUNS)}",
        "rank": 0,
        "job": a_job(),
        "outcome": "completed",
        "measured": {"max_allocated_bytes": ALLOCATED, "max_reserved_bytes": RESERVED},
        "accelerator": "NVIDIA A100-SXM4-80GB",
        "accelerator_total_bytes": A100_BYTES,
        **overrides,
    }


def measured(allocated: int, reserved: int | None = None) -> dict[str, int]:
    """Return figures of the allocator, the reserved ones two gigabytes above."""
    return {
        "max_allocated_bytes": allocated,
        "max_reserved_bytes": allocated + 2_000_000_000 if reserved is None else reserved,
    }
