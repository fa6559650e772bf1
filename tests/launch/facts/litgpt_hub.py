"""Make ``litgpt/hub.json`` from a checkout of litgpt: its config_hub, as far as memory goes.

``python tests/launch/facts/litgpt_hub.py CHECKOUT > …/frameworks/litgpt/hub.json``

``git clone https://github.com/Lightning-AI/litgpt`` at 26857050 (2026-06-29) makes the checkout; the wheel
does not have the folder.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

DROPPED = frozenset(
    {"out_dir", "logger_name", "seed", "resume", "access_token", "tokenizer_dir", "log"}
)


def kept(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what matters for memory: of the data nothing, of the optimizer its class and momentum."""
    found = {key: value for key, value in config.items() if key not in DROPPED | {"data"}}
    optimizer = found.get("optimizer")
    if isinstance(optimizer, dict):
        arguments = optimizer.get("init_args", {})
        found["optimizer"] = {
            "class_path": optimizer["class_path"],
            **(
                {"init_args": {"momentum": arguments["momentum"]}}
                if "momentum" in arguments
                else {}
            ),
        }
    return found


if __name__ == "__main__":
    root = Path(sys.argv[1]) / "config_hub"
    lines = [
        f"{json.dumps(str(path.relative_to(root)))}: "
        + json.dumps(kept(yaml.safe_load(path.read_text())), sort_keys=True)
        for path in sorted(root.rglob("*.yaml"))
    ]
    sys.stdout.write('{"source": "litgpt 26857050", "files": {\n' + ",\n".join(lines) + "\n}}\n")
