"""Every test of the reporter has its own spool, and hears every warning anew."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reporter.standin import StandIn, standing_in
from vramgate.reporter.notices import forget_what_was_said, log


@pytest.fixture(autouse=True)
def spool_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the spool of the test, which is the environment's too."""
    forget_what_was_said()
    # Import-linter, as the layout's test runs it, switches off every logger there is.
    monkeypatch.setattr(log, "disabled", False)
    for name in [name for name in os.environ if name.startswith(("SLURM_", "TORCHELASTIC_"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "spool"
    monkeypatch.setenv("VRAMGATE_SPOOL", str(folder))
    return folder


@pytest.fixture
def service() -> Iterator[StandIn]:
    """Return a service that takes everything."""
    with standing_in() as state:
        yield state
