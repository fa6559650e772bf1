"""Counts of variants no published config has: other classes, switches, families outside the catalog.

``variants.json``: each config was instantiated on the meta device with transformers 5.24.0 and
torch 2.13.0 and its parameters counted, tied weights once.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from vramgate.costmodel.families import architecture_from_config

VARIANTS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("variants.json").read_text("utf-8")
)


@pytest.mark.parametrize("variant", VARIANTS, ids=[variant["what"] for variant in VARIANTS])
def test_parameters_equal_those_of_transformers(variant: dict[str, Any]) -> None:
    architecture = architecture_from_config(variant["config"])

    assert architecture.parameters == variant["parameters"]
    assert sum(architecture.parameters_by_part().values()) == architecture.parameters
