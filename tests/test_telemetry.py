import json
import logging
import subprocess
import sys

import pytest

from vramgate.telemetry import mask_secrets

_PROGRAM = """
import logging
from vramgate.telemetry import configure_logging, logger
configure_logging(level="info", log_format="{log_format}")
logger("vramgate").info("started", port=1, hub_token="hf_abc")
logging.getLogger("uvicorn.error").warning("from a library %s", "x")
logger("vramgate").debug("not shown")
"""


def _log(log_format: str) -> list[str]:
    program = _PROGRAM.format(log_format=log_format)
    done = subprocess.run(  # noqa: S603 our own program
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_log_lines_for_machines_are_json_one_event_a_line() -> None:
    ours, theirs = map(json.loads, _log("json"))
    assert (ours["event"], ours["port"], ours["level"]) == ("started", 1, "info")
    assert (theirs["event"], theirs["level"]) == ("from a library x", "warning")


def test_log_lines_for_people_show_no_secret() -> None:
    ours, theirs = _log("console")
    assert "started" in ours
    assert "hf_abc" not in ours
    assert "from a library x" in theirs


@pytest.mark.parametrize("name", ["token", "Authorization", "db_password", "api_key"])
def test_values_under_secret_names_are_masked(name: str) -> None:
    event = mask_secrets(logging.getLogger(), "info", {"event": "e", name: "hunter2"})
    assert event == {"event": "e", name: "***"}
