"""The rows of the model catalog, as the tests of the families read them."""

import importlib.resources
import json
from typing import Any

CATALOG: list[dict[str, Any]] = json.loads(
    importlib.resources.files("vramgate.catalog").joinpath("models.json").read_text("utf-8")
)
BY_NAME = {row["name"]: row for row in CATALOG}


def config_of(name: str, **changes: object) -> dict[str, Any]:
    """Return the published config of a model with changes; None removes a key."""
    removed = {key for key, value in changes.items() if value is None}
    kept = {key: value for key, value in BY_NAME[name]["config"].items() if key not in removed}
    return kept | {key: value for key, value in changes.items() if key not in removed}
