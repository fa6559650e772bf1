"""Settings of the whole test run."""

import logging
import os

import pytest
import structlog
from hypothesis import settings

# Same examples every time, so that a red run means a change; `--hypothesis-profile=dev` explores.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci")


@pytest.fixture(scope="session", autouse=True)
def _environment_without_settings() -> None:
    """Keep a developer's own settings out of the tests."""
    for name in [name for name in os.environ if name.startswith("VRAMGATE_")]:
        del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def _quiet_log() -> None:
    """Show what went wrong only, beside a test that failed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
